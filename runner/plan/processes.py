"""In how many processes the load generator runs."""

from runner.plan.model import PlannedLoad

SLOTS_A_PROCESS = 256
"""Requests in flight that one process keeps with time to spare: more, and it would be late at reading them."""


def processes(load: PlannedLoad, concurrency: int, requests: int, cpus: int) -> int:
    """How many processes send `requests` at `concurrency` from a machine of `cpus` processors.

    Slots are min(concurrency, requests): what can be in flight. What was asked for is taken, but for more than the
    slots, for a process without one would send nothing. Otherwise: slots ÷ 256, rounded up; at most cpus - 1, so that
    one is left to whatever else this machine does; at least 1.
    """
    slots = min(concurrency, requests)
    if load.processes is not None:
        return max(min(load.processes, slots), 1)
    return max(min(-(-slots // SLOTS_A_PROCESS), cpus - 1), 1)
