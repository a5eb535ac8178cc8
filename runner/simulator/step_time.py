"""How long one engine step takes.

``seconds = a(runner, async) + b * tokens + c * running + [e + d * running]`` where `tokens` are the tokens scheduled
in the step and `running` the requests in it; the bracket is there where the drafter searches on the critical path
(method ``ngram`` on Model Runner V1). The parameters are fitted to measurements by
``benchmarks/fit_step_time.py`` and lie in ``profiles/NAME/step_time.json``, with residuals and with what is assumed.
What is not in them: growth with the length of the context, which no recording varies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StepTime:
    """Parameters of one engine configuration, in seconds, before the time scale."""

    base: float
    per_token: float
    per_running: float
    per_proposal: float

    def seconds(self, tokens: int, running: int) -> float:
        """Duration of a step with this many tokens and requests."""
        return self.base + self.per_token * tokens + (self.per_running + self.per_proposal) * running


def of(fitted: Mapping[str, Any], *, runner: str, asynchronous: bool, proposes_on_cpu: bool) -> StepTime:
    """Parameters of one engine out of a profile's fitted document; `runner` is "V1" or "V2"."""
    parameters = fitted["parameters"]
    return StepTime(
        base=parameters["a"][f"{runner} {'async' if asynchronous else 'sync'}"]
        + (parameters["e"] if proposes_on_cpu else 0.0),
        per_token=parameters["b"],
        per_running=parameters["c"],
        per_proposal=parameters["d"] if proposes_on_cpu else 0.0,
    )
