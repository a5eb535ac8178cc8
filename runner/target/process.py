"""Real engines as processes of this machine: any program that is called as `vllm serve` is."""

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx

from runner.access import OPEN, http_client
from runner.engine.environment import HIDDEN, shaping, shown
from runner.engine.served import MODELS_PATH, read_models
from runner.plan.model import Arm, Plan
from runner.spec.process import ProcessSettings
from runner.target.base import LocalGpus, Stay, Survey, TargetError, nothing_changed
from runner.target.child import Child
from runner.target.port import Listener, free_port, is_free, listeners
from runner.target.started import StartedEngine

_HOST = "127.0.0.1"
_PROGRAM = "vllm"
_ASK_SECONDS = 2.0


class ProcessEngine(StartedEngine):
    """One engine on a port of this machine; `visible` is its CUDA_VISIBLE_DEVICES."""

    def __init__(self, child: Child, port: int, env: dict[str, str], visible: str | None) -> None:
        super().__init__(child, f"http://{_HOST}:{port}", env)
        self._port, self._visible = port, visible

    @property
    def gpus(self) -> LocalGpus:
        """This machine's."""
        return LocalGpus(self._visible, self._child.pids)

    def stranger(self) -> str | None:
        """Another process that listens on its port, on whatever address. Looked for twice: a child of the engine can
        begin or end while one looks."""
        others = self._others() and self._others()
        if not others:
            return None
        return f"{', '.join(map(str, others))} listens on port {self._port} too: requests may go there"

    def _others(self) -> list[Listener]:
        """Listening sockets of which none of the engine's processes is a holder."""
        found = listeners(self._port)
        own = self._child.pids()
        return [one for one in found if one.pids and not one.pids & own]


class ProcessTarget:
    """Starts engines on the loopback interface, one at a time."""

    name = "process"
    simulated = False

    def __init__(self, spec: ProcessSettings, site: ProcessSettings, secret: str | None = None) -> None:
        """Both with absolute paths; the site's settings win over the spec's, key by key. `secret` names the variable
        that holds the runner's own token, whatever it sounds like."""
        self._secret = secret
        self._words = site.executable or spec.executable or [_PROGRAM]
        self._env = {**spec.env, **site.env}
        self._directory = site.working_directory or spec.working_directory
        self._port = site.port or spec.port

    def settings(self) -> dict[str, Any]:
        """What is started, where, and what of the runner's own environment the engine inherits."""
        inherited = shaping({name: value for name, value in os.environ.items() if name not in self._env})
        return {
            "executable": shlex.join(self._words),
            "working-directory": self._directory or str(Path.cwd()),
            "port": self._port if self._port is not None else "a free one",
            "env": {name: shown(name, value) for name, value in self._env.items()},
            "inherited": {name: HIDDEN if name == self._secret else value for name, value in inherited.items()},
        }

    def origins(self) -> Mapping[str, str]:
        """Nobody else could have."""
        return {}

    def problems(self, plan: Plan) -> list[str]:
        """A program that is not there, for a condition whose PATH may be its own; a working directory that is none."""
        found = []
        if any(self._program(arm.env) is None for arm in plan.arms):
            program = self._words[0]
            if "/" in program:
                why = "is no file" if not Path(program).is_file() else "cannot be executed"
            else:
                why = "is not on PATH" + "; several words are a list: [numactl, -N0, vllm]" * (" " in program)
            found.append(f"the executable {program} {why}; name one: process: {{executable: /PATH/TO/vllm}}")
        if self._directory is not None and not Path(self._directory).is_dir():
            found.append(f"the working directory {self._directory} is no directory")
        return found

    def survey(self, _: Plan) -> Survey:
        """Nothing of anybody's will be changed."""
        return Survey()

    def stay(self, _: Stay) -> AbstractAsyncContextManager[None]:
        """Nothing is changed that was there before."""
        return nothing_changed()

    async def launch(self, model: str, arm: Arm, log: Path) -> ProcessEngine:
        """Start one. Raises TargetError where the port is taken, or no process can be made."""
        port = self._port if self._port is not None else free_port(_HOST)
        if not is_free(_HOST, port):
            raise TargetError(await _taken(port))
        program = self._program(arm.env) or self._words[0]
        command = [program, *self._words[1:], "serve", model, *arm.argv, "--host", _HOST, "--port", str(port)]
        env = {**self._env, **arm.env}
        whole = {**os.environ, **env}
        try:
            child = Child(command, whole, log, cwd=None if self._directory is None else Path(self._directory))
        except (OSError, ValueError) as error:
            raise TargetError(f"{program} could not be started: {error}") from None
        told = {name: shown(name, value) for name, value in env.items()}
        return ProcessEngine(child, port, told, whole.get("CUDA_VISIBLE_DEVICES"))

    def _program(self, env: dict[str, str]) -> str | None:
        """The program's absolute path on a condition's own PATH, if it has one; None where there is none."""
        return shutil.which(self._words[0], path={**self._env, **env}.get("PATH"))


async def _taken(port: int) -> str:
    """Who has the port, as far as it can be seen."""
    owners = ", ".join(map(str, listeners(port))) or "a process that cannot be seen from here"
    models = await _models(f"http://{_HOST}:{port}{MODELS_PATH}")
    serves = f"; it serves {', '.join(models)}" if models else ""
    return (
        f"port {port} is taken by {owners}{serves}. Nothing was started: its answers would have been measured as this "
        f"engine's. End it, or leave the port out for a free one"
    )


async def _models(url: str) -> list[str]:
    try:
        # a stranger is not shown what lets the runner in
        async with http_client(OPEN, timeout=_ASK_SECONDS) as client:
            found = read_models((await client.get(url)).content)
    except httpx.HTTPError:
        return []  # whatever it is, it is no engine that would say its name
    return [one.id for one in found or ()]
