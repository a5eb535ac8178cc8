"""A child process under its guard: real processes, and what is left of them, which is nothing."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.target import child as child_module
from runner.target import guard
from runner.target.child import Child

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, "-I", "-S"]
DEAF = "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
# A daemon as in the books: fork, setsid, fork. It hears no SIGTERM; `daemon` returns once it is alone and said its pid.
DAEMON = """
import os, signal, sys, time
def daemon(to):
    alone, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        leader = os.getpid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        while os.getppid() == leader:
            time.sleep(0.001)
        os.write(to, f"daemon {os.getpid()}\\n".encode())
        os.write(tell, b"x")
        time.sleep(600)
        os._exit(0)
    os.wait()
    os.read(alone, 1)
"""
SLEEP = "time.sleep(600)\n"


def lives(pid: int) -> bool:
    """Not as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `true` returns, once that is true or the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def gone(pids: Iterable[int]) -> bool:
    return bool(until(lambda: not any(lives(pid) for pid in pids)))


def guard_of(child: Child) -> int:
    return int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])


def ours() -> set[int]:
    """Our own children, zombies too."""
    return {process.pid for process in guard.descendants(os.getpid()) if process.parent == os.getpid()}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts a Python script, or words; stops it after the test, and sees that there is nothing left."""
    before = ours()
    started: list[Child] = []

    def begin(what: str | list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> Child:
        command = [*PYTHON, "-u", "-c", what] if isinstance(what, str) else what
        log = tmp_path / f"{len(started)}.log"
        started.append(Child(command, dict(os.environ) if env is None else env, log, cwd))
        return started[-1]

    yield begin
    for one in started:
        stop(one)
    assert ours() == before


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the grace period of what is started from now on."""
    return lambda seconds: monkeypatch.setattr(child_module, "_STOP_SECONDS", seconds)


def stop(child: Child) -> str:
    return asyncio.run(child.stop())


def said(child: Child, word: str) -> list[str]:
    """What comes after a word at the beginning of a line of the log, as soon as there is one."""

    def find() -> list[str]:
        return [line.removeprefix(word).strip() for line in child.log()[:-1] if line.startswith(word)]

    found: list[str] = until(find)
    assert found, child.log()
    return found


def test_stopped_by_sigterm(start: Callable[..., Child]) -> None:
    child = start(["sleep", "600"])
    assert child.exit_code() is None and lives(child.pid)
    assert stop(child) == "stopped by SIGTERM"
    assert child.exit_code() == -signal.SIGTERM and not lives(child.pid)


def test_killed_by_somebody_else_while_it_was_to_stop(start: Callable[..., Child]) -> None:
    child = start("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready')\n" + SLEEP)
    said(child, "ready")

    async def stopping() -> str:
        ending = asyncio.create_task(child.stop())
        await asyncio.sleep(0.3)
        os.kill(child.pid, signal.SIGKILL)
        return await ending

    assert asyncio.run(stopping()) == "was killed by something else while it was to stop"
    assert child.remains is None


def test_it_may_take_its_time_within_the_grace_period(start: Callable[..., Child]) -> None:
    script = "import signal, sys, time\ndef bye(*_):\n time.sleep(1)\n print('bye')\n sys.exit(4)\n"
    child = start(script + "signal.signal(signal.SIGTERM, bye)\nprint('ready')\n" + SLEEP)
    said(child, "ready")
    assert stop(child) == "stopped by SIGTERM"
    assert child.exit_code() == 4
    assert child.log() == ["ready", "bye", ""]


def test_a_group_that_outlives_its_command_is_asked_before_it_is_killed(start: Callable[..., Child]) -> None:
    script = "import os, signal, sys, time\ndef bye(*_):\n print('worker ends')\n sys.exit()\n"
    script += "signal.signal(signal.SIGTERM, bye)\nif os.fork():\n os._exit(3)\n"
    child = start(script + SLEEP)
    said(child, "worker ends")
    assert stop(child) == "had ended by itself with exit code 3"


def test_the_whole_group_is_asked_before_it_is_killed(start: Callable[..., Child]) -> None:
    worker = "import os, signal, sys, time\ndef bye(*_):\n time.sleep(1)\n print('worker ends')\n sys.exit()\n"
    worker += "signal.signal(signal.SIGTERM, bye)\nprint('ready')\n" + SLEEP
    child = start(f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-u', '-c', {worker!r}])\n{SLEEP}")
    said(child, "ready")
    assert stop(child) == "stopped by SIGTERM"  # the worker outlives it, but not the grace period
    said(child, "worker ends")


def test_one_that_ignores_sigterm_is_killed_with_what_it_started(
    start: Callable[..., Child], patience: Callable[[float], None]
) -> None:
    patience(0.5)
    child = start(DEAF + "import os\nif os.fork():\n print('ready', flush=True)\n" + SLEEP)
    said(child, "ready")
    [worker] = child.pids() - {child.pid}
    how = stop(child)
    assert how.startswith(f"killed: it did not stop within 0.5 s of SIGTERM; killed with it: 1 process: {worker} (py")
    assert child.exit_code() == -signal.SIGKILL
    assert not lives(child.pid) and not lives(worker)


def test_a_daemon_is_gone_after_stop(start: Callable[..., Child]) -> None:
    child = start(f"{DAEMON}daemon(1)\n{SLEEP}")
    daemon = int(said(child, "daemon")[0])
    assert lives(daemon) and daemon in child.pids()
    how = stop(child)
    assert how.startswith(f"stopped by SIGTERM; left behind by it, and killed: 1 process: {daemon} (py")
    assert not lives(daemon)


def test_a_daemon_is_gone_after_the_commands_own_end(start: Callable[..., Child]) -> None:
    child = start(f"{DAEMON}daemon(1)\nsys.exit(3)\n")
    daemon = int(said(child, "daemon")[0])
    assert gone([daemon])  # nobody has asked for it
    assert child.exit_code() == 3
    assert stop(child).startswith(
        f"had ended by itself with exit code 3; left behind by it, and killed: 1 process: {daemon} (py"
    )


def test_a_daemon_that_starts_daemons_is_gone_with_all_of_them(start: Callable[..., Child]) -> None:
    hydra = f"{DAEMON}\ndef hydra(depth):\n daemon(1)\n if depth and os.fork() == 0:\n  os.setsid()\n"
    child = start(hydra + f"  hydra(depth - 1)\n {SLEEP}hydra(5)\n")
    daemons = until(lambda: len(found := said(child, "daemon")) == 6 and [int(one) for one in found])
    everything = child.pids()
    assert len(everything) == 12 and everything > set(daemons)
    stop(child)
    assert not any(lives(pid) for pid in everything)


def test_the_exit_code_does_not_wait_for_what_is_left(
    start: Callable[..., Child], patience: Callable[[float], None]
) -> None:
    patience(60)
    child = start(DEAF + "import os\nif os.fork():\n os._exit(5)\nprint('worker', os.getpid())\n" + SLEEP)
    assert until(lambda: child.exit_code() is not None)
    worker = int(said(child, "worker")[0])
    assert child.exit_code() == 5 and lives(worker)
    assert child.pids() == {worker}
    os.kill(worker, signal.SIGKILL)
    assert stop(child) == "had ended by itself with exit code 5"


def test_a_group_that_outlives_its_command_is_killed_after_the_grace_period(
    start: Callable[..., Child], patience: Callable[[float], None]
) -> None:
    patience(0.5)
    child = start(DEAF + "import os\nif os.fork():\n os._exit(0)\nprint('worker', os.getpid())\n" + SLEEP)
    worker = int(said(child, "worker")[0])
    assert gone([worker])
    assert f"exit code 0; left behind by it, and killed: 1 process: {worker} (" in stop(child)


RUNNER = """
import asyncio, os, signal, sys, time
from pathlib import Path
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests in the background had them ignored
import runner.target.child as child
child._STOP_SECONDS = 0.5
one = child.Child([*{python}, "-c", sys.argv[1]], dict(os.environ), Path(sys.argv[2]))
while "worker" not in one.log():
    time.sleep(0.01)
print(*one.pids(), os.getppid() and child.guard.descendants(os.getpid())[0].pid, flush=True)
"""
# A command, and a worker of its group and a daemon, which hear no SIGTERM.
FAMILY = f"{DAEMON}daemon(1)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork():\n"
FAMILY += f" signal.signal(signal.SIGTERM, signal.SIG_DFL)\nelse:\n os.write(1, b'worker\\n')\n{SLEEP}"


def run_a_runner(tmp_path: Path, rest: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A program that starts FAMILY and goes on with `rest`, in a group of its own; and all pids, its guard's last."""
    program = subprocess.Popen(
        [sys.executable, "-c", RUNNER.format(python=PYTHON) + rest, FAMILY, str(tmp_path / "log")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    pids = [int(word) for word in program.stdout.readline().split()]
    assert len(pids) == 4
    return program, pids


@pytest.mark.parametrize(
    ("number", "to_the_group"),
    [
        (signal.SIGKILL, False),
        (signal.SIGKILL, True),
        (signal.SIGINT, True),
        (signal.SIGTERM, True),
        (signal.SIGHUP, True),
    ],
)
def test_nothing_outlives_the_runner(tmp_path: Path, number: signal.Signals, to_the_group: bool) -> None:
    program, pids = run_a_runner(tmp_path, "time.sleep(600)\n")
    assert all(lives(pid) for pid in pids)
    (os.killpg if to_the_group else os.kill)(program.pid, number)
    program.communicate(timeout=30)
    assert program.returncode == -number
    assert gone(pids)


def test_a_stop_that_is_cancelled_is_finished_by_the_guard(tmp_path: Path) -> None:
    rest = "async def main():\n await asyncio.wait_for(one.stop(), 0.1)\ntry:\n asyncio.run(main())\n"
    program, pids = run_a_runner(tmp_path, rest + "except TimeoutError:\n os._exit(9)\n")
    program.communicate(timeout=30)
    assert program.returncode == 9
    assert gone(pids)


def test_a_stop_that_was_cancelled_can_be_asked_for_again(
    start: Callable[..., Child], patience: Callable[[float], None]
) -> None:
    patience(3)
    child = start(DEAF + "print('ready')\n" + SLEEP)
    said(child, "ready")

    async def impatient() -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(child.stop(), 0.1)
        assert child.exit_code() is None
        return await child.stop()

    assert asyncio.run(impatient()) == "killed: it did not stop within 3 s of SIGTERM"


def test_the_guard_is_not_ended_by_what_is_meant_for_others(start: Callable[..., Child]) -> None:
    child = start(["sleep", "600"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard_of(child), number)
    time.sleep(0.2)
    assert child.exit_code() is None and lives(child.pid)
    assert stop(child) == "stopped by SIGTERM"


def test_the_command_hears_the_signals_that_its_guard_does_not(start: Callable[..., Child]) -> None:
    script = "import signal\nfor one in ('SIGTERM', 'SIGHUP', 'SIGCHLD', 'SIGPIPE'):\n"
    child = start(script + " print(one, signal.getsignal(getattr(signal, one)).name)\n")
    assert until(lambda: child.exit_code() == 0)
    # Python itself ignores SIGPIPE.
    assert child.log() == ["SIGTERM SIG_DFL", "SIGHUP SIG_DFL", "SIGCHLD SIG_DFL", "SIGPIPE SIG_IGN", ""]


def test_a_killed_guard_takes_the_command_and_its_group_along(start: Callable[..., Child]) -> None:
    child = start(DEAF + "import os\nif os.fork():\n print('ready', flush=True)\n" + SLEEP)
    said(child, "ready")
    pids = child.pids()
    assert len(pids) == 2
    os.kill(guard_of(child), signal.SIGKILL)
    assert gone([child.pid])
    assert until(lambda: child.exit_code() is not None)
    assert child.exit_code() == -signal.SIGKILL
    assert gone(pids) and child.pids() == frozenset()
    assert stop(child) == "killed; something else ended its guard process, and what it had started may live on"


def test_a_guard_that_is_killed_at_its_work_is_told(
    start: Callable[..., Child], patience: Callable[[float], None]
) -> None:
    patience(60)
    before = ours()  # servers that other tests of this session keep
    child = start(DEAF + "import os\nif os.fork():\n os._exit(5)\nprint('worker', os.getpid())\n" + SLEEP)
    said(child, "worker")
    [its_guard] = ours() - before
    assert until(lambda: child.exit_code() == 5)
    os.kill(its_guard, signal.SIGKILL)
    assert stop(child) == (
        "had ended by itself with exit code 5; something else ended its guard process, and what it had started may "
        "live on"
    )


def executable(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("write", "cwd", "words"),
    [
        (lambda _: "no-such-program", None, "executable not found: no-such-program"),
        (lambda at: str(at / "none"), None, "executable not found: {at}/none"),
        (lambda at: executable(at / "x", "#!/bin/sh\n", 0o644), None, "not executable: {at}/x: Permission denied"),
        (lambda at: executable(at / "x", "no program"), None, "not executable: {at}/x: Exec format error"),
        (
            lambda at: executable(at / "x", "#!/no/such/python\n"),
            None,
            "not executable: {at}/x: the interpreter in its first line does not exist",
        ),
        (
            lambda at: Path(executable(at / "by-its-name", "#!/no/such/python\n")).name,
            None,
            "not executable: by-its-name: the interpreter in its first line does not exist",
        ),
        (lambda _: "true", "gone", "bad working directory: {at}/gone: No such file or directory"),
        (lambda _: "a\0b", None, "a\0b: embedded null byte"),
    ],
)
def test_why_it_could_not_be_started(tmp_path: Path, write: Callable[[Path], str], cwd: str | None, words: str) -> None:
    before = ours()
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with pytest.raises(OSError) as caught:
        Child([write(tmp_path)], env, tmp_path / "log", None if cwd is None else tmp_path / cwd)
    assert str(caught.value) == words.format(at=tmp_path)
    assert ours() == before


def test_a_word_that_has_no_bytes_starts_nothing(tmp_path: Path) -> None:
    before = ours()
    with pytest.raises(UnicodeEncodeError):
        Child(["true", "\ud800"], {}, tmp_path / "log")
    assert ours() == before


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder/log"):
        Child(["true"], {}, tmp_path / "no-folder" / "log")


def test_a_guard_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "__file__", str(tmp_path / "no-guard.py"))
    before = ours()
    with pytest.raises(OSError, match="its guard process ended with exit code 2 before it was started"):
        Child(["true"], {"LARGE": "x" * 100_000}, tmp_path / "log")
    assert "no-guard.py" in (tmp_path / "log").read_text()
    assert ours() == before


def test_the_guard_needs_nothing_beside_it(
    start: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "__file__", shutil.copy(guard.__file__, tmp_path / "alone.py"))
    assert stop(start(["sleep", "600"])) == "stopped by SIGTERM"


def test_a_machine_without_proc_ends_the_group(
    start: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: Callable[[float], None]
) -> None:
    patience(0.5)
    script = tmp_path / "elsewhere.py"
    script.write_text(
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(ROOT)!r})\nfrom runner.target import guard\n"
        "guard._PROC = Path('/no/proc')\nguard._prctl = lambda *_: None\nguard.main()\n"
    )
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(guard, "__file__", str(script))
        child = start(DEAF + "import os\nif os.fork() == 0:\n print('worker', os.getpid(), flush=True)\n" + SLEEP)
        worker = int(said(child, "worker")[0])
        elsewhere.setattr(guard, "_PROC", Path("/no/proc"))
        assert child.pids() == {child.pid}
        assert stop(child) == "killed: it did not stop within 0.5 s of SIGTERM"
        assert child.pids() == frozenset()
    assert gone([child.pid, worker])


@pytest.fixture
def helpless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that may not signal anybody, as if all were another user's."""
    script = tmp_path / "helpless.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom runner.target import guard\n"
        "def forbidden(*_):\n raise PermissionError\n"
        "os.kill = os.killpg = forbidden\nguard._KILL_SECONDS = 3.0\nguard.main()\n"
    )
    monkeypatch.setattr(guard, "__file__", str(script))


@pytest.mark.usefixtures("helpless")
def test_what_cannot_be_killed_is_told(start: Callable[..., Child], patience: Callable[[float], None]) -> None:
    patience(0.2)
    child = start(["sh", "-c", "sleep 600 & wait"])
    assert until(lambda: len(child.pids()) == 2)
    [worker] = child.pids() - {child.pid}
    how = stop(child)
    os.kill(worker, signal.SIGKILL)
    late = "not ended: it did not stop within 0.2 s of SIGTERM"
    assert how == f"{late}; could not be killed: 2 processes: {child.pid} (sh), {worker} (sleep)"
    assert child.exit_code() is None
    # Its guard has ended, and the kernel did what the guard could not.
    assert gone([child.pid])


@pytest.mark.usefixtures("helpless")
def test_one_that_ends_after_all_was_not_killed(start: Callable[..., Child], patience: Callable[[float], None]) -> None:
    patience(0.1)
    child = start(["sh", "-c", "sleep 1; exit 6"])
    assert stop(child) == "stopped by SIGTERM"  # it was meant to be killed by then
    assert child.exit_code() == 6


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV), ("kill -TERM $$", -15)]
)
def test_an_end_of_its_own(start: Callable[..., Child], script: str, code: int) -> None:
    child = start(["sh", "-c", script])
    assert until(lambda: child.exit_code() is not None)
    assert child.exit_code() == code
    assert stop(child) == stop(child) == f"had ended by itself with exit code {code}"
    assert child.exit_code() == code


def test_stop_can_be_called_twice_also_at_the_same_time(start: Callable[..., Child]) -> None:
    child = start(["sleep", "600"])

    async def both() -> list[str]:
        return list(await asyncio.gather(child.stop(), child.stop()))

    assert asyncio.run(both()) == ["stopped by SIGTERM"] * 2
    assert stop(child) == "stopped by SIGTERM"
    assert child.pids() == frozenset()


def test_the_log_has_both_streams_and_every_byte(start: Callable[..., Child], tmp_path: Path) -> None:
    child = start(["sh", "-c", r"printf 'one\n\377two\n'; echo three >&2"])
    assert until(lambda: child.exit_code() == 0)
    assert (tmp_path / "0.log").read_bytes() == b"one\n\xfftwo\nthree\n"
    assert child.log() == ["one", "�two", "three", ""]
    stop(child)
    assert child.log() == ["one", "�two", "three", ""]


def test_words_environment_and_directory_arrive_as_they_are(start: Callable[..., Child], tmp_path: Path) -> None:
    script = "import json, os, sys\nenv = open('/proc/self/environ', 'rb').read().decode('utf-8', 'surrogateescape')\n"
    script += "about = [ascii(env.split('\\0')), ascii(sys.argv[1:]), os.getcwd(), sys.stdin.read()]\n"
    script += "print(json.dumps([*about, os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))]))"
    env = {"PATH": os.environ["PATH"], "ODD": "é\udcff", "LARGE": "x" * 100_000, "PYTHONUTF8": "1"}
    words = ["한국어", "\udcfe", "", "--x"]
    child = start([*PYTHON, "-X", "utf8", "-c", script, *words], env, tmp_path)
    assert until(lambda: child.exit_code() is not None)
    variables, arguments, where, stdin, leads, fds = json.loads(child.log()[0])
    assert variables == ascii([*(f"{name}={value}" for name, value in env.items()), ""])
    assert arguments == ascii(words)
    assert where == str(tmp_path)
    assert stdin == ""
    assert leads
    assert fds == ["0", "1", "2", "3"]  # the last one is the listing's own


def test_pids_are_the_live_processes_of_the_command(start: Callable[..., Child]) -> None:
    child = start(f"{DAEMON}daemon(1)\nif os.fork():\n print('ready')\nelse:\n os.fork()\n{SLEEP}")
    daemon = int(said(child, "daemon")[0])
    assert until(lambda: len(child.pids()) == 4)
    pids = child.pids()
    assert {child.pid, daemon} < pids
    assert guard_of(child) not in pids and os.getpid() not in pids
    [grandchild] = [one.pid for one in guard.descendants(child.pid) if one.parent != child.pid]
    os.kill(grandchild, signal.SIGKILL)
    assert until(lambda: child.pids() == pids - {grandchild})  # a zombie does not live
    stop(child)
    assert child.pids() == frozenset()


def test_no_file_and_no_process_is_left_open_after_fifty_starts(tmp_path: Path) -> None:
    before, processes = sorted(Path("/proc/self/fd").iterdir()), ours()
    for number in range(50):
        words = (["sleep", "600"], ["true"], ["no-such-program"])[number % 3]
        with contextlib.suppress(OSError):
            stop(Child(words, dict(os.environ), tmp_path / "log"))
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert ours() == processes
