"""The embedded engine: a vLLM-shaped server that computes no model, in a process of its own.

It is started as any server would be, by its command line; nothing of it is imported here.
"""

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from runner.interpreter import python
from runner.plan.model import Arm, Plan
from runner.spec.site import EmbeddedSite
from runner.target.base import NoGpus, Stay, Survey, TargetError, nothing_changed
from runner.target.child import Child
from runner.target.port import free_port
from runner.target.started import StartedEngine

_MODULE = "runner.simulator.__main__"
_HOST = "127.0.0.1"


class EmbeddedEngine(StartedEngine):
    """One process of the embedded engine."""

    @property
    def gpus(self) -> NoGpus:
        """It has none; this machine's would say nothing of it."""
        return NoGpus("the embedded engine has no GPU")

    def stranger(self) -> None:
        """Its port was free a moment ago, and is nobody's habit."""


class EmbeddedTarget:
    """Starts embedded engines on free ports of the loopback interface."""

    name = "embedded"
    simulated = True

    def __init__(self, site: EmbeddedSite) -> None:
        self._site = site

    def settings(self) -> dict[str, Any]:
        """What is imitated, at which speed, and with which faults."""
        site = self._site
        return {
            "version": site.version,
            "profile": site.profile,
            "time-scale": site.time_scale,
            "faults": site.faults,
        }

    def origins(self) -> Mapping[str, str]:
        """Nobody else could have."""
        return {}

    def problems(self, _: Plan) -> list[str]:
        """It takes every plan; what it cannot imitate it refuses at its start, in its own words."""
        return []

    def survey(self, _: Plan) -> Survey:
        """Nothing of anybody's will be changed."""
        return Survey()

    def stay(self, _: Stay) -> AbstractAsyncContextManager[None]:
        """Nothing is changed that was there before."""
        return nothing_changed()

    async def launch(self, model: str, arm: Arm, log: Path) -> EmbeddedEngine:
        """Start one. Raises TargetError when the process cannot be created."""
        port = free_port(_HOST)
        command = python(_MODULE, "serve", model, *arm.argv, "--host", _HOST, "--port", str(port))
        env = {
            "SIMULATOR_VERSION": self._site.version,
            "SIMULATOR_PROFILE": self._site.profile,
            "SIMULATOR_TIME_SCALE": str(self._site.time_scale),
            "SIMULATOR_FAULTS": json.dumps(self._site.faults),
            **arm.env,
        }
        try:
            child = Child(command, {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **env}, log)
        except (OSError, ValueError) as error:
            raise TargetError(f"the embedded engine could not be started: {error}") from None
        return EmbeddedEngine(child, f"http://{_HOST}:{port}", env)


def write_nvidia_smi(folder: Path) -> Path:
    """Write an executable `nvidia-smi` into `folder`, which stands in for the real one once the folder is first on
    PATH: it imitates the profile's device, and takes the engine's SIMULATOR_ variables. Its samples are counted over
    all its processes, in a file beside it."""
    script = folder / "nvidia-smi"
    samples = shlex.quote(str(folder / "nvidia-smi.samples"))
    script.write_text(
        f"#!/bin/sh\nexport SIMULATOR_NVIDIA_SMI_SAMPLES={samples}\n"
        f'exec {shlex.join(python(_MODULE, "nvidia-smi"))} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script
