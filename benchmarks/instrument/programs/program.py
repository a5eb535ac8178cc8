"""What the benchmark needs to know of a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from instrument.cell import Task
from instrument.reported import Reported


class Program(Protocol):
    """One program. `rival`: a whole program of others, in an environment of its own."""

    @property
    def name(self) -> str:
        """With its version, for the tables."""

    @property
    def rival(self) -> bool:
        """Whether it is a whole program of others."""

    @property
    def remark(self) -> str:
        """How its figures came about."""

    def missing(self) -> str | None:
        """Why it cannot run here, None where it can."""

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """What to call for this task, and with which environment. May write files into the task's folder."""

    def read(self, task: Task) -> Reported:
        """What it reported. Raises Unreadable."""


def environment(**more: str) -> dict[str, str]:
    """Ours, without proxies, and without anything that would ask a model hub."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return {**kept, **offline, "TOKENIZERS_PARALLELISM": "false", **more}


def own_environment() -> dict[str, str]:
    """For our own processes: they import what this one imports."""
    return environment(PYTHONPATH=os.pathsep.join(place for place in sys.path if place))


def own_python() -> str:
    """The interpreter that runs the benchmark."""
    return sys.executable
