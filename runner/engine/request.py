"""Options of a request that an engine accepts and then ignores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# The value with which an option does nothing anyway (vLLM's SamplingParams).
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "min_p": (None, 0, 0.0),
    "logit_bias": (None, {}),
}


def disabled_options(body: Mapping[str, Any], unsupported: Collection[str]) -> list[str]:
    """The options of a chat request that have no effect on an engine with these ``unsupported`` ones.

    ``unsupported`` is ``LogEvidence.unsupported_sampling``. An option that is absent or has its neutral value
    (``min_p`` 0, ``logit_bias`` empty) is not in the answer, for nothing is lost. Order: as in the body.
    """
    return [name for name, value in body.items() if name in unsupported and value not in _NEUTRAL.get(name, (None,))]
