"""A program beside the engine, in its container, and what it prints."""

import contextlib
import json
import threading
import time

from runner.target.base import EndOfLines, Lines
from runner.target.kubernetes.channels import Channels, ChannelsClosed
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.cluster_error import ClusterError

_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_START_SECONDS = 15.0
_STOP_SECONDS = 5.0
_SLICE = 0.2
"""How soon `close` gets its turn while another thread reads."""
_STDERR_BYTES = 2000
_STARTED = "guard: started"
# Nothing ends a program in a container when its stream closes: its standard input ends, and no more. So a shell waits
# for that, or for a line, ends the program, and leaves neither an orphan nor a zombie to a container whose first
# process waits for no child.
_GUARD = f"""
exec 3<&0 </dev/null
echo "{_STARTED}"
own_group=
command -v setsid >/dev/null 2>&1 && own_group=setsid
$own_group "$@" 3<&- &
program=$!
(
  read -r _ <&3
  trap '' TERM
  kill -TERM "-$program" || kill -TERM "$program"
  tries=0
  while kill -0 "$program" && [ "$tries" -lt 20 ]; do
    sleep 0.1 || sleep 1
    tries=$((tries + 1))
  done
  kill -KILL "-$program" || kill -KILL "$program"
) >/dev/null 2>&1 &
guard=$!
exec 3<&-
wait "$program"
code=$?
kill "$guard" 2>/dev/null
wait "$guard" 2>/dev/null
exit "$code"
"""


def execute(cluster: Cluster, pod: str, container: str, command: list[str]) -> Lines:
    """Start `command` in a container of a Pod of the cluster's namespace. Blocks until it has started, 15 s at most.
    Raises OSError in plain words.

    It runs under a small `sh` of the container, which ends it on `close`, or when the connection is lost. In an image
    without a shell it runs by itself: it is then left behind if it does not end by itself once it can print no more.
    """
    try:
        return _Program(cluster, pod, container, ["sh", "-c", _GUARD, "guard", *command], guarded=True)
    except _NoShell:
        return _Program(cluster, pod, container, command, guarded=False)
    except ClusterError as error:
        raise OSError(str(error)) from error


class _NoShell(Exception):
    """The container has no `sh`."""


class _Program:
    """One exec. Calls may come from several threads."""

    def __init__(self, cluster: Cluster, pod: str, container: str, command: list[str], *, guarded: bool) -> None:
        query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in command]
        what = f"start a program in container {container} of Pod {cluster.namespace}/{pod}"
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/exec"
        self._channels = Channels(cluster, path, query, what)
        self._guarded = guarded
        self._lock = threading.Lock()
        self._closing = False
        self._unread = b""
        self._lines: list[bytes] = []
        self._stderr = b""
        self._end: str | None = None
        if guarded:
            try:
                self._wait_for_guard(what)
            except BaseException:
                self._channels.close()
                raise

    def read(self, timeout: float) -> str | None:
        """The next line without its end; None where none came within `timeout` seconds. Raises EndOfLines."""
        until = time.monotonic() + timeout
        while True:
            with self._lock:
                if self._closing:
                    raise EndOfLines("was closed")
                if self._lines:
                    return self._lines.pop(0).decode("utf-8", "replace")
                if self._end is not None:
                    raise EndOfLines(self._end)
                left = until - time.monotonic()
                self._take(max(0.0, min(left, _SLICE)))
                if left <= 0 and not self._lines and self._end is None:
                    return None

    def close(self) -> None:
        """End the program, as well as that can be done, and let go of the stream. Never raises, and takes 5 s at
        most."""
        self._closing = True
        with self._lock, contextlib.suppress(Exception):
            if self._guarded and self._end is None:
                self._channels.send(_STDIN, b"\n")
                until = time.monotonic() + _STOP_SECONDS
                while self._end is None and time.monotonic() < until:
                    self._take(until - time.monotonic())
            self._channels.close()
        self._channels.shut()

    def _wait_for_guard(self, what: str) -> None:
        until = time.monotonic() + _START_SECONDS
        while not self._lines:
            if self._end is not None:
                if '"sh"' in self._end and ("not found" in self._end or "no such file" in self._end):
                    raise _NoShell
                raise OSError(f"could not {what}: it {self._end}")
            if time.monotonic() >= until:
                raise OSError(f"could not {what}: nothing came from it within {_START_SECONDS:g} s")
            self._take(_SLICE)
        first = self._lines.pop(0).decode("utf-8", "replace")
        if first != _STARTED:
            raise OSError(f'could not {what}: its shell said "{first}"')

    def _take(self, seconds: float) -> None:
        """Take in the next message, if one comes in time."""
        try:
            message = self._channels.receive(seconds)
        except ChannelsClosed as closed:
            # No exit code came before: whatever is half a line was never finished.
            self._end = self._end or self._ended(f"was lost: {closed}")
            return
        if message is None:
            return
        channel, data = message
        if channel == _STDOUT:
            *lines, self._unread = (self._unread + data).split(b"\n")
            self._lines += lines
        elif channel == _STDERR:
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
        elif channel == _STATUS:
            self._hear_status(data)

    def _hear_status(self, data: bytes) -> None:
        try:
            status = json.loads(data)
            causes = (status.get("details") or {}).get("causes") or []
        except (ValueError, AttributeError):
            self._end = self._ended(f"was lost: {data.decode('utf-8', 'replace')}")
            return
        if status.get("status") == "Success":
            if self._unread:
                self._lines.append(self._unread)  # a last line may lack its end
            self._end = self._ended("ended with exit code 0")
            return
        code = next((cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"), None)
        self._end = self._ended(
            f"was lost: {status.get('message') or 'for no reason that was given'}"
            if code is None
            else f"ended with exit code {code}"
        )

    def _ended(self, how: str) -> str:
        said = " ".join(self._stderr.decode("utf-8", "replace").split())
        return f"{how}: {said}" if said else how
