"""The capture: what every request brought, byte for byte, each read with its stamps. All figures are read from it.

A file begins with one line of JSON about itself. For each request that is over it has a line of JSON, which says how
many `reads` there were and how many bytes in all (`size`), and then, without anything between them, of each read: the
kernel's stamp (two int64: seconds and nanoseconds of the wall clock; -1 and -1 where it took none), the monotonic time
after it (int64, nanoseconds), and its length (int64), each an array of all reads; and the bytes as they came over the
wire, HTTP's framing included. All numbers are little-endian. It ends with a line of JSON about the process that wrote
it; a file that was cut off lacks that. It may be compressed with gzip.

So little is made of it in the round that writing it costs a fraction of a microsecond for each read.
"""

import gzip
import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any, cast

from runner.load.arrival import OUTCOMES, Arrival
from runner.load.stamps import raw_stamps

_FORMAT = 1
_GZIP = b"\x1f\x8b"
_REQUEST = (
    b'{"index":%d,"planned_ns":%d,"connect_ns":%b,"sent_ns":%b,"ended_ns":%d,"outcome":"%b","detail":%b,"reads":%d,'
    b'"size":%d}\n'
)
"""Written out: json takes ten times as long for it, in the round."""
_READ_BYTES = 4 * 8
"""What is kept of a read beside its bytes."""
_BUFFER = 128 << 10
"""Bytes that are gathered for one write to the file: many are seldom, and each is short."""


_UNREADABLE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, MemoryError, RecursionError, zlib.error),
)
"""What reading something else raises."""


class CaptureError(Exception):
    """A file that is no capture, or not a whole one; the text names it."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One request that is over; times are nanoseconds of the run's clock. `reads` are (kernel's stamp or None, time
    after the read, bytes); the stamps by the wall clock as it stood to the monotonic one before the round."""

    index: int
    planned_ns: int
    connect_ns: int | None
    sent_ns: int | None
    ended_ns: int
    outcome: str
    detail: str
    reads: Sequence[tuple[int | None, int, bytes]]

    @property
    def lags(self) -> list[int]:
        """How long after the kernel's stamp each read came, in nanoseconds, where it has one."""
        return [seen - at for at, seen, _ in self.reads if at is not None]


@dataclass(frozen=True, slots=True)
class Closing:
    """What a process says of itself after its round; times in nanoseconds, as `record.parts.ProcessWatched`'s."""

    slots: int
    requests: int
    seconds: float
    cpu_seconds: float
    queued_seconds: float | None
    loop: str
    loop_lag_p99_ns: int | None
    loop_lag_max_ns: int | None
    why_user: str | None
    drift_ns: int
    peak_memory_bytes: int
    address: str


class CaptureWriter:
    """Writes one process's capture of one round. `origin_ns` is the run's start by the monotonic clock, `offset_ns` the
    wall clock minus it before the round."""

    def __init__(self, path: Path, origin_ns: int, offset_ns: int) -> None:
        self._file = path.open("wb", buffering=_BUFFER)
        self._line({"capture": _FORMAT, "origin_ns": origin_ns, "offset_ns": offset_ns})

    def __call__(self, arrival: Arrival) -> None:
        """Put one request away."""
        sizes = list(map(len, arrival.data))
        line = _REQUEST % (
            arrival.index,
            arrival.planned_ns,
            b"null" if arrival.connect_ns is None else b"[%d,%d]" % arrival.connect_ns,
            b"null" if arrival.sent_ns is None else b"%d" % arrival.sent_ns,
            arrival.ended_ns,
            arrival.outcome.encode(),
            json.dumps(arrival.detail).encode() if arrival.detail else b'""',
            len(sizes),
            sum(sizes),
        )
        head = (line, raw_stamps(arrival.notes), _numbers(arrival.seen), _numbers(sizes))
        self._file.write(b"".join([*head, *arrival.data, b"\n"]))

    def _line(self, value: dict[str, Any]) -> None:
        self._file.write(_packed(value))

    def close(self, closing: Closing | None) -> None:
        """End the file, with what the process says of itself where the round came to its end."""
        try:
            if closing is not None:
                self._line({"closing": asdict(closing)})
        finally:
            self._file.close()


class CaptureReader:
    """Reads a capture from its begin; `closing` is there once all requests were read, None where the file lacks it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closing: Closing | None = None

    def __iter__(self) -> Iterator[Captured]:
        """The requests in the order in which they ended. Raises CaptureError."""
        with self._readable() as file:
            yield from self._requests(file)

    def read_closing(self) -> Closing | None:
        """What the process said of itself; None where the file was cut off. The reads are passed over, and what is
        wrong with them is not seen. Raises CaptureError."""
        with self._readable() as file:
            self._opening(file)
            for value in self._heads(file):
                file.seek(value["reads"] * _READ_BYTES + value["size"], os.SEEK_CUR)
                if file.read(1) != b"\n":
                    break
        return self.closing

    @contextmanager
    def _readable(self) -> Iterator[IO[bytes]]:
        try:
            with _opened(self.path) as file:
                yield file
        except _UNREADABLE as error:
            raise CaptureError(f"{self.path} cannot be read: {error or type(error).__name__}") from None

    def _opening(self, file: IO[bytes]) -> tuple[int, int]:
        """Where the run's clock begins, by the monotonic clock and by the wall clock."""
        first = json.loads(file.readline())
        if first.get("capture") != _FORMAT:
            raise CaptureError(f"{self.path} is no capture of this version")
        return first["origin_ns"], first["origin_ns"] + first["offset_ns"]

    def _heads(self, file: IO[bytes]) -> Iterator[dict[str, Any]]:
        """The line of each request; the file then stands at its reads, and goes on behind the line end after them."""
        while line := file.readline():
            if not line.endswith(b"\n"):
                return  # the process ended while it wrote
            value = json.loads(line)
            if (closing := value.get("closing")) is not None:
                self.closing = Closing(**closing)
                return
            if value["reads"] < 0 or value["size"] < 0:
                raise ValueError(f"request {value['index']} has {value['reads']} reads of {value['size']} bytes")
            if value["outcome"] not in OUTCOMES:
                raise ValueError(f"request {value['index']} ended as {value['outcome']}")
            yield value

    def _requests(self, file: IO[bytes]) -> Iterator[Captured]:
        origin, wall_origin = self._opening(file)
        for value in self._heads(file):
            count, size = value["reads"], value["size"]
            stamps = _read_numbers(file, 2 * count)
            seen, sizes = _read_numbers(file, count), _read_numbers(file, count)
            data = file.read(size)
            if len(data) < size or file.read(1) != b"\n":
                return
            ends = list(accumulate(sizes, initial=0))
            if ends[-1] != size:
                raise ValueError(f"request {value['index']} has reads of {ends[-1]} bytes, and {size} bytes")
            kernel = [
                None if seconds < 0 else seconds * 1_000_000_000 + nanoseconds - wall_origin
                for seconds, nanoseconds in zip(stamps[::2], stamps[1::2], strict=True)
            ]
            after = [at - origin for at in seen]
            pieces = [data[start:end] for start, end in pairwise(ends)]
            connect, sent = value["connect_ns"], value["sent_ns"]
            yield Captured(
                value["index"],
                value["planned_ns"] - origin,
                None if connect is None else connect[1] - connect[0],
                None if sent is None else sent - origin,
                value["ended_ns"] - origin,
                value["outcome"],
                value["detail"],
                list(zip(kernel, after, pieces, strict=True)),
            )


def _packed(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _numbers(values: Sequence[int]) -> bytes:
    numbers = array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _read_numbers(file: IO[bytes], count: int) -> Sequence[int]:
    data = file.read(count * 8)
    numbers = array("q", data[: len(data) // 8 * 8])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else path.open("rb")


def compress(path: Path) -> Path:
    """Compress a capture; what is returned takes its place."""
    packed = path.with_name(path.name + ".gz")
    with path.open("rb") as plain, gzip.GzipFile(packed, "wb", compresslevel=4, mtime=0) as file:
        while piece := plain.read(1 << 20):
            file.write(piece)
    path.unlink()
    return packed
