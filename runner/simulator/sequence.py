"""One request inside the engine: its tokens, its progress and its times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from runner.simulator.continuation import END
from runner.simulator.kv_cache import Holding
from runner.simulator.ngram import Drafter

FinishReason = Literal["stop", "length", "abort", "error", "repetition"]


class Greedy(Protocol):
    """The model's greedy tokens after one prompt. Any index from 0 is valid; the same index gives the same token."""

    def __getitem__(self, index: int, /) -> int: ...


@dataclass(slots=True, eq=False)
class Sequence:
    """Prompt and output of one request. Times are seconds of the engine's clock; None until they happen.

    `end`: the model's end token; `computed`: tokens whose keys and values lie in its blocks; `cached`: those of them
    that the prefix cache had when it was first scheduled.
    """

    prompt: list[int]
    continuation: Greedy
    max_tokens: int
    arrived_at: float
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    end: int = END
    holding: Holding = field(default_factory=Holding)

    tokens: list[int] = field(init=False)
    prompt_length: int = field(init=False)
    computed: int = 0
    prefilling: bool = False  # its last step left a part of its tokens uncomputed
    cached: int = 0
    drafts: list[int] = field(default_factory=list)
    drafter: Drafter | None = None
    preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    finished: FinishReason | None = None
    stop_reason: int | None = None
    _targets: list[int] = field(default_factory=list)
    _read: int = 0
    _end_is_due: bool = False

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)
        self.prompt_length = len(self.prompt)

    @property
    def output_length(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    def target(self, position: int) -> int:
        """The model's greedy token at an output position.

        An end token is masked until ``min_tokens`` tokens are out, and comes then.
        """
        targets = self._targets
        while position >= len(targets):
            if self._end_is_due and len(targets) >= self.min_tokens:
                self._end_is_due = False
                targets.append(self.end)
                continue
            token = self.continuation[self._read]
            self._read += 1
            if token == self.end and len(targets) < self.min_tokens:
                self._end_is_due = True
            else:
                targets.append(token)
        return targets[position]
