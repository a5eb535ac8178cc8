"""The real engine as a server that runs already, in development mode: what it says of itself is read truly."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vllm_cpu
from finished_run import Finished
from loopback import free_port

pytestmark = pytest.mark.timeout(900)

MODEL = str(vllm_cpu.MODELS / "tiny-model")
FLAGS = "--served-model-name tiny --max-model-len 2048 --enforce-eager --kv-cache-memory-bytes 64M --max-num-seqs 4"
NGRAM = "--spec-method ngram --spec-tokens 5"
UNSEEN = ("declared-differences", "request-options")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One server without and one with speculation, each started as anybody would."""
    folder = tmp_path_factory.mktemp("servers")
    with contextlib.ExitStack() as stack:
        yield {arm: stack.enter_context(_server(folder, arm, more)) for arm, more in (("off", ""), ("on", NGRAM))}


@contextlib.contextmanager
def _server(folder: Path, arm: str, more: str) -> Iterator[str]:
    port = free_port()
    words = [str(vllm_cpu.program("vllm")), "serve", MODEL, *FLAGS.split(), *more.split()]
    # The server info lists the installed packages, in a virtual environment of uv's by uv itself.
    path = f"{vllm_cpu.home() / 'tools' / 'bin'}:{vllm_cpu.environment()['PATH']}"
    env = {**vllm_cpu.environment(), "PATH": path, "VLLM_SERVER_DEV_MODE": "1", "HF_HUB_OFFLINE": "1"}
    log = folder / f"{arm}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*words, "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 300
        while b"Application startup complete" not in log.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text("utf-8", "replace")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(folder: Path, urls: dict[str, str]) -> Finished:
    def small(spec: dict[str, Any]) -> None:
        del spec["process"], spec["conditions"]["off-sync"]
        spec["model"] = MODEL
        spec["phases"] = {"load": {"concurrency": [4], "requests": 8, "rounds": 2}}
        spec["conditions"]["on"]["side-effects"] = {"async-scheduling": "disabled"}
        spec["invariants"] = {"same-output": {}, **{name: {"allow-inconclusive": True} for name in UNSEEN}}

    spec = vllm_cpu.write_spec(folder, small)
    (folder / "site.yaml").write_text(json.dumps({"endpoint": {"urls": urls}}), encoding="utf-8")
    return vllm_cpu.run(folder, str(spec), "--target", "endpoint")


def test_every_argument_is_in_force_by_what_the_server_says_of_itself(tmp_path: Path, urls: dict[str, str]) -> None:
    ended = run(tmp_path, urls)
    assert ended.code == 0, ended.stdout + ended.stderr
    assert ended.result["simulated"] is False
    for arm in ("off", "on"):
        [engine] = ended.record.of_arm(arm)
        assert engine.evidence is not None and engine.proof is not None and engine.launched is not None
        assert (engine.launched.command, engine.launched.log) == ([], None)
        assert {one.verdict for one in engine.evidence.arguments} == {"in-force"}
        assert {one.source for one in engine.evidence.arguments} == {"/server_info", "vllm:cache_config_info"}
        assert engine.evidence.version == "0.32.0"
        # The CPU platform turns it off, whatever the method: the configuration says so, which no log of 0.32.0 does.
        found = engine.evidence.features["async-scheduling"]
        assert (found.value, found.source) == ("disabled", "/server_info")
        assert engine.evidence.speculation_source == "/server_info"
        assert set(engine.evidence.absent) == {"the log"}
        assert engine.proof.state == {"off": "absent", "on": "moved"}[arm]
        kept = ended.directory / "artifacts" / f"{arm}-1" / "server_info.json"
        speculative = json.loads(kept.read_text("utf-8"))["vllm_config"]["speculative_config"]
        assert (speculative is None) == (arm == "off")


def test_swapped_servers_are_refused(tmp_path: Path, urls: dict[str, str]) -> None:
    ended = run(tmp_path, {"off": urls["on"], "on": urls["off"]})
    assert ended.code == 4, ended.stdout + ended.stderr
    assert "off: not in force: speculative_config: wanted None, differs: not asked for" in ended.stdout
    assert "/server_info, the draft counters" in ended.stdout


def test_the_counters_alone_tell_whether_it_speculates_and_how_many_tokens(urls: dict[str, str]) -> None:
    import httpx

    from runner.engine.exposition import parse
    from runner.engine.log import Speculative
    from runner.engine.sources import Sources
    from runner.engine.speculation import told

    for arm, expected in (("off", None), ("on", Speculative(None, None, 5))):
        [one] = told(Sources(None, parse(httpx.get(f"{urls[arm]}/metrics", trust_env=False).text)))
        assert one.speculative == expected
