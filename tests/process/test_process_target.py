"""`--target process` through the command line. The program in vllm's place is the embedded engine, started as any other
would be, or a few lines of Python; what only a real engine can show is in `tests/real_engine`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.record.record import Record, read_record
from runner.target.child import Child
from runner.target.process import ProcessEngine

ROOT = Path(__file__).parents[2]
CRASHES = ROOT / "tests" / "recordings" / "crashes"
ENGINE = [sys.executable, "-m", "runner.simulator"]
SPEC: dict[str, Any] = {
    "name": "small",
    "engine": {"version": "0.26.0"},
    "model": "org/model",
    "args": {"served-model-name": "m", "max-model-len": 4096, "enforce-eager": True, "max-num-seqs": 4},
    "conditions": {"base": {}},
    "prompts": {"p": {"messages": [{"role": "user", "content": "Say a word."}]}},
    "request": {"model": "m", "max_tokens": 8, "temperature": 0},
    "phases": {"load": {"concurrency": [2], "requests": 4}},
    "process": {"executable": ENGINE, "env": {"SIMULATOR_TIME_SCALE": "0.02"}},
}

Edit = Callable[[dict[str, Any]], Any]


class Ended:
    """One ended `run` in a folder."""

    def __init__(self, folder: Path, code: int, stdout: str, stderr: str) -> None:
        self.folder, self.code, self.stdout, self.stderr = folder, code, stdout, stderr

    @property
    def record(self) -> Record:
        return read_record(self.folder / self.stdout.splitlines()[-1])

    @property
    def words(self) -> str:
        return self.stdout + self.stderr


def write(folder: Path, *edits: Edit) -> None:
    value = json.loads(json.dumps(SPEC))
    for edit in edits:
        edit(value)
    (folder / "spec.yaml").write_text(json.dumps(value), encoding="utf-8")


def start(folder: Path, *edits: Edit, site: str = "", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    write(folder, *edits)
    (folder / "site.yaml").write_text(f"target: process\n{site}", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in ("RUNNER_TARGET", "KUBECONFIG")}
    return subprocess.Popen(
        [sys.executable, "-m", "runner", "spec.yaml"],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *edits: Edit, site: str = "", env: dict[str, str] | None = None) -> Ended:
    process = start(folder, *edits, site=site, env=env)
    stdout, stderr = process.communicate(timeout=120)
    assert at_work(folder) == []
    return Ended(folder, process.returncode, stdout, stderr)


def at_work(folder: Path) -> list[int]:
    """Processes whose directory is the folder: an engine has its runner's."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink() == folder.resolve():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def program(folder: Path, text: str, name: str = "engine") -> str:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def executable(words: str | list[str]) -> Edit:
    return lambda spec: spec["process"].update(executable=words)


def test_any_program_that_is_called_as_vllm_serve_is(tmp_path: Path) -> None:
    ended = run(tmp_path, env={"VLLM_LOGGING_LEVEL": "INFO", "HF_TOKEN": "hf_secret"})
    assert ended.code == 0, ended.words
    record = ended.record
    assert record.started.target == "process"
    [engine] = record.engines
    assert engine.launched is not None and engine.stopped is not None
    serve = engine.launched.command[len(ENGINE) :]
    assert serve[:2] == ["serve", "org/model"]
    assert serve[-4:-1] == ["--host", "127.0.0.1", "--port"]
    assert engine.launched.env == {"SIMULATOR_TIME_SCALE": "0.02"}
    inherited = record.started.target_settings["inherited"]
    assert inherited["VLLM_LOGGING_LEVEL"] == "INFO"
    assert inherited["HF_TOKEN"] == "(hidden)"
    assert "hf_secret" not in "".join(path.read_text("utf-8") for path in record_files(ended))


def record_files(ended: Ended) -> Iterator[Path]:
    directory = ended.folder / ended.stdout.splitlines()[-1]
    return (path for path in directory.iterdir() if path.is_file())


def test_the_site_file_wins_key_by_key_and_a_conditions_environment_over_both(tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    there.mkdir()
    (tmp_path / "sub").mkdir()
    program(
        tmp_path / "sub",
        "import os, sys\nprint(os.getcwd(), os.environ['A'], os.environ['B'], os.environ['C'], sys.argv[1:])\n",
    )

    def edit(spec: dict[str, Any]) -> None:
        spec["process"] = {"executable": "./nowhere", "env": {"A": "spec", "B": "spec", "C": "spec"}, "port": 1}
        spec["conditions"] = {"base": {"env": {"C": "condition"}}}

    port = free_port()
    site = f"process: {{executable: sub/engine, working-directory: elsewhere, port: {port}, env: {{B: site}}}}\n"
    ended = run(tmp_path, edit, site=site)
    assert ended.code == 3, ended.words
    [engine] = ended.record.engines
    assert engine.failed is not None
    assert engine.failed.words[0].startswith(f"{there} spec site condition ['serve', 'org/model',")
    assert f"'--port', '{port}']" in engine.failed.words[0]


def test_a_condition_chooses_the_program_by_its_own_path(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        program(tmp_path / name, f"print('this is {name}')\n", "some-vllm")

    def edit(spec: dict[str, Any]) -> None:
        spec["process"] = {"executable": "some-vllm", "env": {"PATH": f"{tmp_path}/one:/usr/bin"}}
        spec["conditions"] = {"base": {"env": {"PATH": f"{tmp_path}/two:/usr/bin"}}}

    ended = run(tmp_path, edit)
    [engine] = ended.record.engines
    assert engine.failed is not None and engine.launched is not None
    assert engine.failed.words == ["this is two"]
    assert engine.launched.command[0] == str(tmp_path / "two" / "some-vllm")


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda spec: spec["args"].update({"api-key": "s3cret"}), "args.api-key"),
        (lambda spec: spec.update(env={"HF_TOKEN": "s3cret"}), "env.HF_TOKEN"),
        (lambda spec: spec["process"]["env"].update(VLLM_APIKEY="s3cret"), "process.env.VLLM_APIKEY"),
        (lambda spec: spec.update(conditions={"base": {"env": {"A_KEY": "s3cret"}}}), "conditions.base.env.A_KEY"),
    ],
)
def test_a_spec_holds_no_secret(tmp_path: Path, edit: Edit, place: str) -> None:
    """It stands in a pull request, and so in every plan, journal and report."""
    ended = run(tmp_path, edit)
    assert ended.code == 2
    assert f"{place}: this sounds like a secret" in ended.stderr and "s3cret" not in ended.stderr


def test_a_secret_of_the_site_file_reaches_the_engine_and_nothing_else(tmp_path: Path) -> None:
    says = program(tmp_path, "import os\nprint(len(os.environ['HF_TOKEN']), os.environ['HTTPS_PROXY'][:14])\n")
    site = "process: {env: {HF_TOKEN: hf_s3cret, HTTPS_PROXY: 'http://u:s3cret@proxy', TOKENIZERS_PARALLELISM: 'no'}}\n"
    ended = run(tmp_path, executable(says), site=site)
    [engine] = ended.record.engines
    assert engine.failed is not None and engine.launched is not None
    assert engine.failed.words == ["9 http://u:s3cre"]
    assert engine.launched.env["HTTPS_PROXY"] == "http://(hidden)@proxy"
    assert engine.launched.env["TOKENIZERS_PARALLELISM"] == "no"
    kept = [path for path in record_files(ended) if path.suffix in (".json", ".md", ".yaml")]
    assert len(kept) == 4 and not any("s3cret" in path.read_text("utf-8") for path in kept)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"executable": "no-such-vllm"}, "the executable no-such-vllm is not on PATH; name one: process: {executable:"),
        ({"executable": "numactl -N0 vllm"}, "is not on PATH; several words are a list: [numactl, -N0, vllm]"),
        ({"executable": "./no-such-vllm"}, "no-such-vllm is no file"),
        ({"executable": "./spec.yaml"}, "spec.yaml cannot be executed"),
        ({"executable": ENGINE, "working-directory": "nowhere"}, "nowhere is no directory"),
    ],
)
def test_what_cannot_be_started_is_said_before_anything_is(tmp_path: Path, block: dict[str, Any], words: str) -> None:
    ended = run(tmp_path, lambda spec: spec.update(process=block))
    assert ended.code == 2
    assert "run: target process: " in ended.stderr and words in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_plan_for_another_machine_is_shown_with_what_is_missing_here(tmp_path: Path) -> None:
    write(tmp_path, executable("no-such-vllm"))
    told = subprocess.run(
        [sys.executable, "-m", "runner", "plan", "spec.yaml", "--target", "process"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 2
    assert "base: vllm serve org/model --served-model-name m" in told.stdout
    assert "  executable: no-such-vllm\n" in told.stdout
    assert "the executable no-such-vllm is not on PATH" in told.stderr


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("process: {port: 0}", "site.yaml:2:17: process.port: must be at least 1, not 0"),
        ("process: {exe: vllm}", 'site.yaml:2:11: process.exe: unknown key "exe"'),
        ("process: {executable: []}", "site.yaml:2:23: process.executable: must not be empty"),
        ("process: {executable: 3}", "site.yaml:2:23: process.executable: must be a list, not a whole number (3)"),
        ("process: {executable: [sh, 3]}", "process.executable[1]: must be text, and 3 unquoted is a whole number"),
        ("process: {executable: ~nosuch/bin/vllm}", "~nosuch is nobody's home directory here"),
        (
            "process: {working-directory: ~nosuch}",
            "site.yaml:2:30: process.working-directory: ~nosuch is nobody's home",
        ),
        ("process: {env: {A: 1}}", "site.yaml:2:20: process.env.A: must be text, and 1 unquoted is a whole number"),
    ],
)
def test_a_wrong_block_is_told_at_its_place(tmp_path: Path, block: str, words: str) -> None:
    ended = run(tmp_path, site=block + "\n")
    assert ended.code == 2
    assert words in ended.stderr, ended.stderr


@pytest.fixture
def stale(tmp_path: Path) -> Iterator[int]:
    """A server of the same model on a port."""
    port = free_port()
    server = subprocess.Popen(
        [*ENGINE, "serve", "org/model", "--served-model-name", "m", "--host", "127.0.0.1", "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
        assert server.poll() is None, "the stranger's server was ended"
    finally:
        server.kill()
        server.wait()


def test_a_stale_server_is_found_before_the_start_though_it_serves_the_same_model(tmp_path: Path, stale: int) -> None:
    ended = run(tmp_path, site=f"process: {{port: {stale}}}\n")
    assert ended.code == 3, ended.words
    [engine] = ended.record.engines
    assert engine.failed is not None and engine.launched is None
    assert f"port {stale} is taken by pid " in engine.failed.reason
    assert "it serves m" in engine.failed.reason
    assert list(ended.record.all_rounds()) == []


SHARING = """\
import socket, sys, time
# vLLM binds so: another server that does may listen beside it
server = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=True)
print("up", flush=True)
time.sleep(600)
"""


def test_a_server_that_shares_the_port_is_found_once_the_engine_answers(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", SHARING, str(port)]
    log = tmp_path / "log"
    child = Child(command, dict(os.environ), log)
    try:
        wait_for(lambda: "up" in log.read_text())
        engine = ProcessEngine(child, port, {}, None)
        assert engine.stranger() is None
        other = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert other.stdout is not None and other.stdout.readline()
            told = engine.stranger()
            assert told is not None and f"pid {other.pid} (" in told
        finally:
            other.kill()
            other.communicate()
        assert engine.stranger() is None
    finally:
        asyncio.run(child.stop())


def wait_for(seen: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("recording", "code", "cause", "quoted"),
    [
        ("cuda-out-of-memory", 1, "it ran out of GPU memory", "torch.OutOfMemoryError: CUDA out of memory. Tried"),
        ("gpu-memory-taken", 1, "too little GPU memory was free", "ValueError: Free memory on device cuda:0 (17.91/"),
        ("unknown-flag", 2, "its command line was refused", "vllm: error: unrecognized arguments: --max-num-seq-s 8"),
        ("broken-weights", 1, "", "safetensors._safetensors_rust.SafetensorError: Error while deserializing header"),
    ],
)
def test_a_death_at_the_start_is_named_by_the_engines_own_words(
    tmp_path: Path, recording: str, code: int, cause: str, quoted: str
) -> None:
    """What a GPU's engine printed when it died, printed again by a program that dies so."""
    log = CRASHES / f"{recording}.log"
    dies = program(tmp_path, f"import sys\nprint(open({str(log)!r}).read(), flush=True)\nsys.exit({code})\n")
    ended = run(tmp_path, executable(dies))
    assert ended.code == 3, ended.words
    [engine] = ended.record.engines
    assert engine.failed is not None
    reason = f"the engine ended with exit code {code} while starting"
    assert engine.failed.reason.startswith(f"{reason}: {cause}" if cause else reason)
    assert any(line.startswith(quoted) for line in engine.failed.words)
    assert quoted in ended.stderr
    directory = tmp_path / ended.stdout.splitlines()[-1]
    assert json.loads((directory / "result.json").read_text("utf-8"))["simulated"] is None  # nothing answered
    assert "- simulated: unknown\n" in (directory / "report.md").read_text("utf-8")


def test_a_start_that_takes_too_long_is_named_with_its_last_lines(tmp_path: Path) -> None:
    slow = program(
        tmp_path, "import time\nprint('INFO 01-01 00:00:00 [x.py:1] Loading weights', flush=True)\ntime.sleep(600)\n"
    )
    ended = run(tmp_path, executable(slow), lambda spec: spec.update(limits={"startup-seconds": 2}))
    assert ended.code == 3, ended.words
    [engine] = ended.record.engines
    assert engine.failed is not None and engine.stopped is not None
    assert "no completion within 2 s of the start" in engine.failed.reason
    assert engine.failed.words[-1].endswith("Loading weights")


STUBBORN = """\
import os, signal, subprocess, sys, time
# ignores what would end it, and leaves a daemon of its own session that does too
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(1)
    os._exit(0)
print("up", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind_however_the_runner_ends(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, executable(program(tmp_path, STUBBORN)))
    wait_for(lambda: any(path.read_text() == "up\n" for path in tmp_path.glob("runs/*/artifacts/*/engine.log")))
    assert len(at_work(tmp_path)) >= 3
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number is not signal.SIGKILL else -signal.SIGKILL)
    wait_for(lambda: at_work(tmp_path) == [], seconds=60)


def test_after_an_engine_that_may_live_on_no_other_is_measured(tmp_path: Path) -> None:
    """Its guard is killed: the engine dies with it, what the engine had started may not."""

    def long(spec: dict[str, Any]) -> None:
        spec["conditions"] = {"base": {}, "other": {"args": {"seed": 1}}}
        spec["phases"]["load"]["requests"] = 4000

    process = start(tmp_path, long)
    wait_for(lambda: any("round-started" in path.read_text() for path in tmp_path.glob("runs/*/journal.jsonl")))
    [guard] = [pid for pid in at_work(tmp_path) if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(guard, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=120)
    ended = Ended(tmp_path, process.returncode, stdout, stderr)
    assert ended.code == 5, ended.words
    [engine] = ended.record.engines
    assert engine.arm == "base" and engine.failed is not None
    assert "it could not be ended: something else ended its guard process" in engine.failed.reason
    assert "the engine ended by SIGKILL during load-c2-r1" in ended.stderr
