"""The run directory: `runs/<name>-<time>-<id>/`.

spec.yaml       the spec as read, byte for byte
plan.json       what was going to be done
journal.jsonl   what happened, one event a line
artifacts/      raw evidence: engine logs, each scrape, each response
result.json     the figures and verdicts, for programs
report.md       the same for people
"""

import secrets
from datetime import datetime
from pathlib import Path

SPEC, PLAN, JOURNAL = "spec.yaml", "plan.json", "journal.jsonl"
RESULT, REPORT, ARTIFACTS = "result.json", "report.md", "artifacts"


def create_run_directory(root: Path, name: str, now: datetime) -> Path:
    """A new directory whose name sorts by time and never collides. Raises OSError."""
    directory = root / f"{name}-{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    (directory / ARTIFACTS).mkdir(parents=True)
    return directory


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new, never half of it.

    Half a surrogate pair, which an engine may have sent, becomes its JSON escape.
    """
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    temporary.replace(path)
