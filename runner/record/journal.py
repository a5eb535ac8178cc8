"""The journal: one JSON object per event, each flushed before the run goes on."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from runner.record.events import EVENT, Event


class JournalError(Exception):
    """A journal that cannot be read; the text names the line."""


class JournalWriter:
    """Listens to a run's events and appends each to the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8", newline="\n")
        self._number = 0

    def __call__(self, event: Event) -> None:
        """Write one event; it is on its way to the disk when this returns."""
        self._file.write(_line({"n": self._number, **event.model_dump()}) + "\n")
        self._number += 1  # a line that does not fit on the disk stays with the file's buffer, and comes later
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # whoever wrote what is still in the buffer was told
            self._file.close()


def _line(value: dict[str, Any]) -> str:
    """Compact JSON, readable but for text that UTF-8 cannot hold: an engine's reply may contain half a surrogate
    pair, and one odd reply must not end a run."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _encodes(text) else json.dumps(value, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_journal(path: Path) -> Iterator[Event]:
    """The events in order.

    A last line without its newline was cut by a crash and is passed over; anything else that is not an event,
    and a gap in the numbering, raises JournalError.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}") from None
    lines = text.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        try:
            value = json.loads(line)
            stated = value.pop("n")
            event = EVENT.validate_python(value)
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
            first = str(error).splitlines()[0]
            raise JournalError(f"{path}:{number + 1}: not an event of this journal: {first}") from None
        if stated != number:
            raise JournalError(f"{path}:{number + 1}: event {stated} where event {number} was expected")
        yield event
