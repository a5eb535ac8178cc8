"""Does an engine speculate, and how? Each source's own word for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from . import metrics
from .exposition import Exposition
from .log import SPECULATIVE_KEY, LogEvidence, Speculative
from .server_info import ServerInfo
from .sources import LOG_CONFIGURATION, SERVER_INFO, Sources
from .values import as_mapping, same_resolved

COUNTERS: Final = "the draft counters"

# argparse destination to the field of SpeculativeConfig
_FLAT: Final[Mapping[str, str]] = {
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
# methods whose configuration names the model that the author named
_MODEL_SHOWN: Final = frozenset({"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"})


def is_speculative(name: str) -> bool:
    """Whether an argument (by its destination) is about speculation."""
    return name in _FLAT or name.partition(".")[0] == SPECULATIVE_KEY


def speculative_fields(name: str, value: object) -> dict[str, object]:
    """The fields of SpeculativeConfig that one argument sets: flat, dotted or whole."""
    if name in _FLAT:
        return {_FLAT[name]: value}
    if "." in name:
        return {name.partition(".")[2].replace("-", "_"): value}
    mapping = as_mapping(value)
    return {} if mapping is None else {str(key).replace("-", "_"): item for key, item in mapping.items()}


@dataclass(frozen=True, slots=True)
class Told:
    """What one source says of speculation. ``speculative`` None: it says that there is none. ``fields`` are those of
    SpeculativeConfig that it shows."""

    source: str
    speculative: Speculative | None
    fields: Mapping[str, object]
    quote: str

    def agrees(self, name: str, wanted: object) -> bool | None:
        """Whether a field is as wanted; None where the source does not tell."""
        if name not in self.fields:
            return None
        found = self.fields[name]
        if name == "method":
            # vLLM rewrites its model-specific names to the general one
            return str(wanted) == str(found) or (found == "mtp" and str(wanted).endswith("_mtp"))
        if name == "model":
            return wanted == found if str(self.fields.get("method")) in _MODEL_SHOWN else None
        return same_resolved(name, wanted, found)


def told(sources: Sources) -> list[Told]:
    """What each source says, the most telling first: the log, the server's configuration, the counters."""
    found = (_logged(sources.log), _informed(sources.info), _counted(sources.exposition))
    return [one for one in found if one is not None]


def _logged(log: LogEvidence | None) -> Told | None:
    if log is None or (log.speculative is None and not log.speculative_off):
        return None
    one, quote = log.speculative, log.quotes.get("speculative", "")
    fields = {} if one is None else {"method": one.method, "model": one.model, "num_speculative_tokens": one.tokens}
    return Told(LOG_CONFIGURATION, one, fields, quote)


def _informed(info: ServerInfo | None) -> Told | None:
    if info is None or (info.speculative is None and not info.speculative_off):
        return None
    quote = f"{SPECULATIVE_KEY}: {info.speculative or 'null'}"
    return Told(SERVER_INFO, info.speculative, info.drafting, quote)


def _counted(exposition: Exposition | None) -> Told | None:
    """vLLM registers the draft counters when it is configured to speculate, whatever the method, and at no other time;
    the one by position has a series for each speculative token (0.26.0 to 0.33.0, ``v1/spec_decode/metrics.py``)."""
    if exposition is None or not exposition.select(metrics.RUNNING):
        return None  # where it exposes nothing of its own, their absence says nothing
    if not any(exposition.select(name) for name in _COUNTERS):
        return Told(COUNTERS, None, {}, f"{metrics.RUNNING} is exposed, {metrics.SPEC_DRAFTS} is not")
    positions = exposition.label_values(metrics.SPEC_ACCEPTED_PER_POS, metrics.POSITION_LABEL)
    tokens = len(positions) if positions == {str(number) for number in range(len(positions))} and positions else None
    fields = {} if tokens is None else {"num_speculative_tokens": tokens}
    return Told(COUNTERS, Speculative(None, None, tokens), fields, f"{metrics.SPEC_DRAFTS}, {len(positions)} positions")


_COUNTERS: Final = (
    metrics.SPEC_DRAFTS,
    metrics.SPEC_DRAFT_TOKENS,
    metrics.SPEC_ACCEPTED_TOKENS,
    metrics.SPEC_ACCEPTED_PER_POS,
)
