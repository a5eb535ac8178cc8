"""What a server says of itself beside its configuration: ``GET /v1/models`` and ``GET /version``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .reply import load_json

CHAT_PATH: Final = "/v1/chat/completions"
METRICS_PATH: Final = "/metrics"
MODELS_PATH: Final = "/v1/models"
VERSION_PATH: Final = "/version"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One name under which a server answers. ``root``: what the engine was started with, or an adapter's path;
    ``parent``: the adapter's base, None for the model itself. What the answer does not say is None."""

    id: str
    root: str | None
    parent: str | None
    max_model_len: int | None


@dataclass(frozen=True, slots=True)
class Version:
    """``version``: None where the answer does not say; ``simulated``: the server says that it computes no model."""

    version: str | None = None
    simulated: bool = False


def read_models(text: str | bytes) -> tuple[ServedModel, ...] | None:
    """The models of an answer, in its order; None for what is no list of models."""
    data = _document(text).get("data")
    if not isinstance(data, list):
        return None
    return tuple(
        ServedModel(
            item["id"],
            _text(item.get("root")),
            _text(item.get("parent")),
            length if type(length := item.get("max_model_len")) is int else None,
        )
        for item in data
        if isinstance(item, Mapping) and isinstance(item.get("id"), str)
    )


def read_version(text: str | bytes) -> Version:
    """The answer of ``/version``, as far as it says something."""
    document = _document(text)
    return Version(_text(document.get("version")), document.get("simulated") is True)


def _document(text: str | bytes) -> Mapping[str, object]:
    try:
        document = load_json(text)
    except ValueError:
        return {}
    return document if isinstance(document, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
