"""The guard of one command: a process of its own, which leaves nothing of that command behind.

    python -I -S -X utf8 guard.py

It imports nothing of the runner, so that it starts fast and from anywhere. Standard input brings the order, one line
of JSON (`command`, `env`, `cwd`, `grace` in seconds), and is then held open by the runner: its end, which comes however
the runner ends, is what tells the guard to end the command. Standard output takes the reports, one line of JSON each:

    {"pid": 12}                               the command runs; or {"failed": "why it could not be started"}
    {"exit_code": -15, "by": "SIGTERM"}       it ended; negative for a signal; `by`: itself, SIGTERM, SIGKILL,
                                              or others, whose SIGKILL it was
    {"killed": [[13, "name"]], "alive": []}   all is over: who else was killed by SIGKILL, and who could not be

Standard error is the command's log: the command writes both its streams there. The command has a session of its own.
When the order ends, or the command does, its process group gets SIGTERM; what is left of the group after `grace`
seconds, and every other descendant wherever it hid, gets SIGKILL until nobody is left.

On Linux the guard is a subreaper: a descendant that has lost its parents, a daemon too, becomes its child. SIGINT,
SIGTERM and SIGHUP do not end it. If SIGKILL does, the kernel kills the command with it (PR_SET_PDEATHSIG). That does
not cover what the command had started, nor a command that is set-uid or has file capabilities (exec takes the setting
away), nor one that undoes the setting. Where there is neither prctl nor /proc (macOS), the group alone is ended, no
process is named, and a killed guard takes nobody along. What a service starts on the command's behalf (a container
engine, systemd) is nowhere a descendant of it.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

_KILL_SECONDS = 10.0  # from the first SIGKILL: one that hangs in a driver, or is another user's, is reported instead
_POLL = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PROC = Path("/proc")


class Process(NamedTuple):
    """One process as /proc shows it; `ended`: a zombie."""

    pid: int
    parent: int
    group: int
    name: str
    ended: bool


def has_proc() -> bool:
    """Whether this machine shows its processes."""
    return (_PROC / "self" / "stat").exists()


def descendants(root: int) -> list[Process]:
    """What `root` has started, at any depth, and what came back to it. Empty where there is no /proc."""
    children: dict[int, list[Process]] = {}
    if has_proc():
        with os.scandir(_PROC) as places:
            found = [_process(int(place.name)) for place in places if place.name.isdigit()]
        for process in found:
            if process is not None:
                children.setdefault(process.parent, []).append(process)
    reached, roots = [], [root]
    while roots:
        below = children.pop(roots.pop(), [])
        reached += below
        roots += [process.pid for process in below]
    return reached


def _process(pid: int) -> Process | None:
    try:
        # Not cmdline, which says more: reading it can hang with a process that hangs in the kernel.
        head, _, rest = (_PROC / str(pid) / "stat").read_bytes().decode(errors="replace").rpartition(")")
    except OSError:
        return None  # it has ended meanwhile
    state, parent, group = rest.split()[:3]
    return Process(pid, int(parent), int(group), head.partition("(")[2], state in "ZX")


class Command:
    """The command, started, and everything that comes from it. Raises what Popen raises."""

    def __init__(self, words: list[str], env: dict[str, str], cwd: str | None) -> None:
        guard = os.getpid()

        def follow_the_guard() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:  # it died before that
                os.kill(os.getpid(), signal.SIGKILL)

        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
            stderr=sys.__stderr__,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=follow_the_guard,  # noqa: PLW1509 - the guard has one thread
        )
        self.pid = self._process.pid
        self.ended = False
        self._sent = "itself"

    def reap(self) -> bool:
        """Take in who has ended, and report the command's end; whether nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.pid:
                self.ended = True
                code = os.waitstatus_to_exitcode(status)
                self._process.returncode = code  # the guard waits for it, Popen must not
                by = self._sent
                if by == "SIGKILL" and code != -signal.SIGKILL:
                    by = "SIGTERM"
                elif by == "SIGTERM" and code == -signal.SIGKILL:
                    by = "others"
                _report(exit_code=code, by=by)

    def terminate(self, grace: float, woken: int) -> None:
        """SIGTERM to the group; returns when it is gone, at the latest after `grace` seconds."""
        self.reap()
        if not self.ended:
            self._sent = "SIGTERM"
        deadline = time.monotonic() + grace
        if self._group_lives():
            self._signal_group(signal.SIGTERM)
        while self._group_lives() and time.monotonic() < deadline:
            _wait([woken], _POLL)
            self.reap()

    def kill(self) -> None:
        """SIGKILL to all, until there is nobody or `_KILL_SECONDS` are over; reports who it was."""
        if not self.ended:
            self._sent = "SIGKILL"
        killed: dict[int, str] = {}
        deadline = time.monotonic() + _KILL_SECONDS
        while not self.reap() and time.monotonic() < deadline:
            found = descendants(os.getpid())
            for process in found:
                # To zombies too: so looks a process whose first thread has ended before the others.
                with contextlib.suppress(PermissionError, ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                    if not process.ended:
                        killed[process.pid] = process.name
            if self._group_lives():
                self._signal_group(signal.SIGKILL)
            time.sleep(_POLL / 5)
        alive = {process.pid: process.name for process in descendants(os.getpid()) if not process.ended}
        others = [(pid, name) for pid, name in killed.items() if pid != self.pid and pid not in alive]
        _report(killed=others, alive=list(alive.items()))

    def _group_lives(self) -> bool:
        """The number is the group's until the command is reaped, and then as long as there is a member."""
        if not self.ended:
            return True
        if has_proc():
            return any(process.group == self.pid and not process.ended for process in descendants(os.getpid()))
        return self._signal_group(0)

    def _signal_group(self, number: int) -> bool:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.killpg(self.pid, number)
            return True
        return False


def main() -> None:
    """Read the order, start the command, and stay until there is nothing of it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, _hear)  # a handler and not SIG_IGN, which the command would inherit
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            return  # the runner died before it had said what to start
        text += part
    order = json.loads(text)
    try:
        command = Command(order["command"], order["env"], order["cwd"])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _report(failed=_why(error, order["command"][0], order["env"], order["cwd"]))
        return
    _report(pid=command.pid)
    while not command.ended and 0 not in _wait([0, woken], None):
        command.reap()
    command.terminate(order["grace"], woken)
    command.kill()


def _hear(*_: object) -> None:
    """The wakeup pipe has it."""


def _wait(readable: list[int], seconds: float | None) -> list[int]:
    ready = select.select(readable, [], [], seconds)[0]
    for one in ready:
        os.read(one, 4096)
    return ready


def _report(**said: Any) -> None:
    line = json.dumps(said).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):  # the runner is dead: the work is the same
        while line:
            line = line[os.write(1, line) :]


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _why(error: Exception, program: str, env: dict[str, str], cwd: str | None) -> str:
    """Plain words; Popen names the file that was in the way."""
    if not isinstance(error, OSError) or error.errno is None:
        return f"{program}: {error}"
    words = os.strerror(error.errno)
    if cwd is not None and error.filename == cwd:
        return f"bad working directory: {cwd}: {words}"
    if error.errno == errno.ENOENT:
        places = [""] if os.sep in program else os.get_exec_path(env)
        if any(Path(cwd or ".", place, program).exists() for place in places):
            return f"not executable: {program}: the interpreter in its first line does not exist"
        return f"executable not found: {program}"
    if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EPERM):
        return f"not executable: {program}: {words}"
    return f"{program}: {words}"


if __name__ == "__main__":
    main()
