"""GPU memory that a condition costs per running request (article, 8-5)."""

from collections.abc import Iterator

from runner.analysis.cell import Cell, cell, concurrencies
from runner.analysis.memory import memory_per_running
from runner.analysis.neighbours import neighbours
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import MemoryPerRunning


@check(MemoryPerRunning)
def memory_per_running_check(record: Record, parameters: MemoryPerRunning) -> Iterator[Finding]:
    """Per arm and concurrency above 1: (median memory − the baseline's) ÷ median of running requests, in MiB. A GPU's
    memory is that of all its processes: inconclusive where others were seen on it, or cannot be excluded. Not
    applicable where no sample of the whole run has a GPU's memory."""
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
        return
    if not any(sample.memory_mib is not None for one in record.all_rounds() for sample in one.gpu_samples):
        yield Finding(Judgement.NOT_APPLICABLE, "gpu-not-sampled")
        return
    if max(concurrencies(record)) == 1:
        yield Finding(Judgement.NOT_APPLICABLE, "only-sequential")
    for arm in record.plan.others:
        for level in concurrencies(record):
            if level == 1:
                continue
            subject = f"{arm.label} C={level}"
            base, own = cell(record, record.plan.baseline, level), cell(record, arm.id, level)
            found = memory_per_running(base, own)
            if not isinstance(found, Absent):
                found = _shared(base) or _shared(own) or found
            if isinstance(found, Absent):
                yield Finding(Judgement.INCONCLUSIVE, found.reason, found.figures, subject)
                continue
            figures = {"mib": found, "max": parameters.max_mib}
            below = found <= parameters.max_mib
            reason = "memory-below" if below else "memory-above"
            yield Finding(Judgement.PASS if below else Judgement.FAIL, reason, figures, subject)


def _shared(one: Cell) -> Absent | None:
    """Why a cell's memory may not be the engine's alone."""
    there = neighbours(one)
    if there.found:
        pids = ", ".join(str(other.pid) for other in there.found if other.pid is not None)
        tenants = [other.name or "?" for other in there.found if other.pid is None]
        return Absent("gpu-shared", {"who": ", ".join([*([f"pid {pids}"] if pids else []), *tenants])})
    return there.unknown
