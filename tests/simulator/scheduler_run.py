"""A scheduler under test, step by step, and models whose every token is known: no clock, no HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.simulator import admission, drafting, release, statistics
from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Limits, Plan, Scheduler, StepResult
from runner.simulator.sequence import Sequence
from runner.simulator.speculation import Speculation
from runner.simulator.statistics import StepStatistics

K = 5
REPEATING = [11, 12, 13, 14, 15, 16, 17]  # drafts are found from the second round on, and are right
LONG = 10_000


class Round:
    """A model that says the same tokens again and again."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def __getitem__(self, index: int) -> int:
        return self._tokens[index % len(self._tokens)]


class Fresh:
    """A model that never says a token twice."""

    def __getitem__(self, index: int) -> int:
        return LONG + index


@dataclass
class Run:
    """A scheduler under test and a record of its steps."""

    limits: Limits
    blocks: int = 4000
    caching: bool = True
    plans: list[Plan] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    steps: list[StepStatistics] = field(default_factory=list)
    added: int = 0

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.blocks, 16, prefix_caching=self.caching)
        self.scheduler = Scheduler(self.limits, self.pool)

    def add(self, length: int = 20, max_tokens: int = 40, model: Any = None, key: int = -1, **fields: Any) -> Sequence:
        """A request of so many prompt tokens: those of the same `key` begin with the same tokens, others share none."""
        self.added += 1
        first = 1_000_000 * (key if key >= 0 else 1000 + self.added)
        prompt = [first + place for place in range(length)]
        sequence = Sequence(prompt, model or Fresh(), max_tokens, 0.0, **{"ignore_eos": True, **fields})
        self.scheduler.add(sequence)
        return sequence

    def step(self, start: float = 0.0, end: float = 0.0) -> Plan:
        plan = self.scheduler.schedule(start)
        limits = self.limits
        assert len(self.scheduler.running) <= limits.max_num_seqs
        assert plan.total_tokens == sum(plan.tokens.values()) <= limits.max_num_scheduled_tokens
        for sequence in plan.sequences:
            assert sequence.computed + plan.tokens[id(sequence)] <= limits.max_model_len
        self.plans.append(plan)
        self.results.append(self.scheduler.complete(plan, end))
        self.steps.append(statistics.of_step(self.scheduler, plan, self.results[-1]))
        return plan

    def until(self, reached: Callable[[], object]) -> None:
        while not reached():
            self.step()
            assert len(self.plans) < 5000

    def finish(self) -> None:
        self.until(lambda: not self.scheduler.has_work)
        assert self.pool.usage == 0

    @property
    def accepted(self) -> list[tuple[int, int]]:
        return [pair for result in self.results for pair in result.accepted]

    def total(self, name: str) -> int:
        return sum(getattr(step, name) for step in self.steps)


def limits(version: str = "0.26.0", method: str | None = None, runner: str | None = None, **changed: Any) -> Limits:
    """Limits of a release; with a `method` it drafts, on the runner that the release takes for it."""
    fields = {"max_num_seqs": 4, "max_num_scheduled_tokens": 64, "max_model_len": 512, **changed}
    named = release.named(version)
    if method:
        runner = runner or ("V2" if named.speculates_on_v2 else "V1")
        asked = Speculation(method, K, 5, 5, None)
        fields["drafting"] = drafting.of(asked, runner, fields["max_model_len"])
    return Limits(admission=admission.of(named), **fields)
