"""What a container prints, followed from its start and kept in a file."""

import contextlib
import threading
import time
from collections import Counter, deque
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.cluster_error import ClusterError, refusal
from runner.target.kubernetes.connection import address, credentials, dial, shut

_POLL = 0.5
_SILENCE = 30.0
"""Seconds without a line after which the stream is asked for anew: one that stalled says nothing, like a container
that prints nothing."""
_JOIN_SECONDS = 5.0
_REFUSED_BEFORE_GONE = 6
"""Answers that there is no log of the container before, half a second apart."""
_OVERLAP = 1
"""Seconds that are asked for again on resuming: the API knows only whole ones, and the lines of two streams may stand
in another order than their times."""


class PodLog:
    """Follows one container of one Pod, by a thread of its own, from its first line until `close`.

    The file has what the container wrote, byte for byte. A stream that breaks off is resumed without gap or repetition,
    a container that was restarted is followed on. `problem` says why nothing is read, None while all is well.
    """

    def __init__(self, cluster: Cluster, pod_name: str, container: str, path: Path) -> None:
        self.problem: str | None = None
        self._cluster, self._pod, self._container = cluster, pod_name, container
        self._path = path
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._connection: Any = None
        self._thread = threading.Thread(target=self._run, name=f"log of {pod_name}", daemon=True)
        self._written: _Written | None = None
        self._refused = 0

    def start(self) -> None:
        """Begin; the container need not have started. Raises OSError where the file cannot be written."""
        self._written = _Written(self._path.open("wb", buffering=0))
        self._thread.start()

    def close(self) -> None:
        """End, whatever the container does. Takes 5 s at most; safe to call twice."""
        self._closing.set()
        with self._lock:
            if self._connection is not None:
                shut(self._connection)
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def lines(self) -> list[str]:
        """What it printed so far, as lines."""
        return self._path.read_text(encoding="utf-8", errors="replace").split("\n")

    def catch_up(self, seconds: float) -> bool:
        """Wait until the file has all that the container has printed by now; whether it has, within `seconds`. Blocks.
        A stream comes a moment after what it tells of, and what is not there yet is not absent."""
        deadline = time.monotonic() + seconds
        try:
            printed = self._printed()
        except (OSError, HTTPException):
            return False
        while self._path.stat().st_size < printed:
            if time.monotonic() > deadline or not self._thread.is_alive():
                return False
            time.sleep(_POLL / 10)
        return True

    def _printed(self) -> int:
        """How many bytes the server has of the log now. Raises OSError, HTTPException."""
        connection = dial(self._cluster.configuration, _SILENCE)
        try:
            answer = self._get(connection, [("container", self._container)])
            with answer:
                return len(answer.read()) if answer.status == 200 else 0
        finally:
            connection.close()

    def _run(self) -> None:
        assert self._written is not None
        try:
            self._follow_all(self._written)
        except _Unwritable as error:
            self.problem = f"the log of Pod {self._pod} cannot be kept in {self._path}: {error}"
        finally:
            self._written.close()

    def _follow_all(self, written: "_Written") -> None:
        uid = None
        heard, ended = 0, -1  # the container, by the restarts before it, that is followed; that was read to its end
        while not self._closing.is_set():
            try:
                pod = self._cluster.get("Pod", self._pod)
            except ClusterError as error:
                self.problem = str(error)
                self._closing.wait(_POLL)
                continue
            if uid is not None and (pod is None or pod["metadata"]["uid"] != uid):
                written.finish()
                return
            status = {} if pod is None else _status(pod, self._container)
            if pod is not None and _has_started(status):
                uid = pod["metadata"]["uid"]
                now, running = int(status.get("restartCount") or 0), "running" in (status.get("state") or {})
                if now > heard:
                    # What the container before it printed after we last heard of it, or all of it.
                    if ended == now - 1 or self._read(written, previous=True):
                        written.finish()
                        heard = now
                elif ended < now and self._read(written, follow=running) and not running:
                    written.finish()
                    ended = now
                if ended == now and _is_over(pod):
                    return
            self._closing.wait(_POLL)

    def _read(self, written: "_Written", *, follow: bool = False, previous: bool = False) -> bool:
        """One request for the log; whether it was answered to its end."""
        query = [("container", self._container), ("timestamps", "true")]
        query += [("follow", "true")] * follow + [("previous", "true")] * previous
        since = written.since
        if since is not None:
            query.append(("sinceTime", since))
        written.resume()
        try:
            answer = self._ask(query)
            if answer is None:
                # A container whose log is gone has none; just after a restart the kubelet may not have it yet.
                self._refused += previous
                return previous and self._refused > _REFUSED_BEFORE_GONE
            self.problem = None
            with answer:
                while part := answer.read1(65536):
                    written.take(part)
            return not self._closing.is_set()
        except _Unwritable:
            raise
        except (OSError, HTTPException):
            return False  # lost, silent for long, or shut by `close`: resumed where it was
        finally:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None

    def _ask(self, query: list[tuple[str, str]]) -> HTTPResponse | None:
        """The answer; None where the server has no such log. Raises OSError."""
        for renewed in (False, True):
            answer = self._send(query)
            self._cluster.heard(f"log of Pod {self._pod}", answer.headers)
            if answer.status == 200:
                return answer
            with answer:
                found = refusal(answer.status, answer.reason, answer.read())
            if found.status != 401 or renewed:
                break
            with self._lock:
                self._connection.close()
            with contextlib.suppress(ClusterError):
                self._cluster.renew()
        if found.status in {400, 404}:
            return None  # the container is not there yet, or no longer
        self.problem = self._cluster.refused(f"read the log of Pod {self._cluster.namespace}/{self._pod}", found)
        raise OSError(self.problem)

    def _send(self, query: list[tuple[str, str]]) -> HTTPResponse:
        configuration = self._cluster.configuration
        connection = dial(configuration, _SILENCE)
        with self._lock:
            self._connection = connection
            if self._closing.is_set():
                raise OSError("closed")
        return self._get(connection, query)

    def _get(self, connection: Any, query: list[tuple[str, str]]) -> HTTPResponse:
        configuration = self._cluster.configuration
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods/{self._pod}/log"
        url = urlsplit(address(configuration, path, query))
        request = HTTPConnection(url.netloc)
        request.sock = connection
        request.request("GET", f"{url.path}?{url.query}", headers=credentials(configuration))
        return request.getresponse()


class _Unwritable(OSError):
    """The file, not the stream, failed."""


class _Written:
    """The file, and which of its last lines would come again when the stream is asked for anew."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._half = b""
        self._newest: int | None = None
        self._recent: deque[tuple[int, bytes]] = deque()
        self._open_line = False
        self._again: Counter[bytes] = Counter()

    @property
    def since(self) -> str | None:
        """From when on to ask, as the API writes times; None where nothing was written."""
        if self._newest is None:
            return None
        return datetime.fromtimestamp(self._newest - _OVERLAP, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def resume(self) -> None:
        """A new answer begins, which repeats what is `since`."""
        self._half = b""
        self._again = Counter(line for _, line in self._recent)

    def take(self, part: bytes) -> None:
        """Keep the lines of a part of the answer; a half one waits for its other half. Raises OSError."""
        *lines, self._half = (self._half + part).split(b"\n")
        for line in lines:
            self._keep(line, b"\n")

    def finish(self) -> None:
        """The container has ended: what it left without an end of line is kept so."""
        if self._half:
            self._keep(self._half, b"")
            self._half = b""

    def close(self) -> None:
        self._file.close()

    def _keep(self, line: bytes, end: bytes) -> None:
        if self._again[line]:
            self._again[line] -= 1
            return
        stamp, _, text = line.partition(b" ")
        second = _second(stamp)
        if second is None:
            text = line  # the kubelet's own words, which have no time
        else:
            self._newest = max(second, self._newest or second)
            self._recent.append((second, line))
            while self._recent[0][0] < self._newest - _OVERLAP:
                self._recent.popleft()
        # A container that ended within a line is followed by the next one's first.
        content = (b"\n" if self._open_line else b"") + text + end
        try:
            self._file.write(content)
        except OSError as error:
            raise _Unwritable(error.strerror) from error
        self._open_line = not end


def _status(pod: dict[str, Any], container: str) -> dict[str, Any]:
    parts = pod.get("status") or {}
    both = [*(parts.get("containerStatuses") or []), *(parts.get("initContainerStatuses") or [])]
    return next((status for status in both if status.get("name") == container), {})


def _has_started(status: dict[str, Any]) -> bool:
    state = status.get("state") or {}
    return bool(state.get("running") or state.get("terminated") or status.get("restartCount"))


def _is_over(pod: dict[str, Any]) -> bool:
    """Whether none of its containers will run again."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _second(stamp: bytes) -> int | None:
    """The whole second of a time as the kubelet writes it, 2026-01-31T10:00:00.123456789+09:00; None for other text."""
    text = stamp.decode("ascii", "replace")
    head, zone = text[:19], text[19:].lstrip(".0123456789")
    try:
        return int(datetime.fromisoformat(f"{head}{zone.replace('Z', '+00:00')}").timestamp()) if zone else None
    except ValueError:
        return None
