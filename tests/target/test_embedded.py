"""The embedded target: how its engine is started."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from runner.plan.build import build_plan
from runner.spec.load import load_spec
from runner.spec.site import EmbeddedSite
from runner.target.embedded import EmbeddedTarget, write_nvidia_smi

SPEC = {
    "name": "s",
    "model": "org/model",
    "conditions": {"off": {}},
    "prompts": {"p": {"messages": [{"role": "user", "content": "x"}]}},
    "phases": {"load": {"concurrency": [1], "requests": 1}},
}
PATIENCE = 30.0


@pytest.fixture
def strays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files that are called as modules of Python's own are."""
    for name in ("asyncio", "json"):
        (tmp_path / f"{name}.py").write_text(f'raise SystemExit("{name} of the working directory")\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_engine_takes_nothing_of_the_working_directory_for_pythons_own(strays: Path) -> None:
    spec = strays / "spec.yaml"
    spec.write_text(json.dumps(SPEC))
    plan = build_plan(load_spec(spec), "embedded")

    async def main() -> httpx.Response:
        engine = await EmbeddedTarget(EmbeddedSite()).launch(plan.model, plan.arms[0], strays / "engine.log")
        deadline = time.monotonic() + PATIENCE
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                while True:
                    assert engine.exit_code() is None and time.monotonic() < deadline, engine.log()
                    try:
                        return await client.get(f"{engine.endpoint}/version")
                    except httpx.ConnectError:
                        await asyncio.sleep(0.02)
        finally:
            await engine.stop()

    assert asyncio.run(main()).json()["version"] == "0.26.0"


def test_nor_does_the_stand_in_of_nvidia_smi(strays: Path) -> None:
    words = [write_nvidia_smi(strays), "--query-gpu=name", "--format=csv,noheader"]
    ended = subprocess.run(words, cwd=strays, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
