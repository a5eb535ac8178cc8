"""One ended `run`, as its user finds it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.record.record import Record, read_record


@dataclass(frozen=True)
class Finished:
    """One ended `run` in a folder."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def directory(self) -> Path:
        return self.folder / self.stdout.splitlines()[-1]

    @property
    def report(self) -> str:
        return (self.directory / "report.md").read_text(encoding="utf-8")

    @property
    def result(self) -> Any:
        return json.loads((self.directory / "result.json").read_text(encoding="utf-8"))

    @property
    def record(self) -> Record:
        return read_record(self.directory)

    def failing(self) -> dict[str, str]:
        """Checks that did not pass, with their judgement."""
        return {one["check"]: one["judgement"] for one in self.result["checks"] if one["judgement"] != "pass"}
