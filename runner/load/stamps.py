"""Stamps that the kernel takes of what it receives, however late the client gets round to reading it.

SO_TIMESTAMPNS gives, with each read, the wall clock's time at which the last segment of what was read came in (Linux,
TCP, no privileges needed). The wall clock is brought to the monotonic one by their difference, measured around a round.
"""

import socket
import struct
import sys
import time
from collections.abc import Sequence

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_LITTLE = struct.Struct("<qq")
_NONE = _LITTLE.pack(-1, -1)
_PAIRS = 200
"""Readings of both clocks of which the closest pair counts: an interruption between the two is no part of it."""

_BEGIN_SECONDS = 2.0

READ = 65_536
"""Bytes that one read takes at most. One that took so many was cut by its size: the kernel joins what waits, and gives
it the latest stamp, so that its stamp may be that of bytes that the next read has."""
ROOM = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
"""Bytes of ancillary data that a read must leave room for."""

Note = tuple[int, int, bytes]
"""One piece of ancillary data: level, type, content."""


def enable_stamps(sock: socket.socket) -> str | None:
    """Ask the kernel to stamp what this socket receives; why it does not, or None."""
    if sys.platform != "linux":
        return f"{sys.platform} has no kernel stamps for TCP"
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError as error:
        return f"the kernel takes no stamps: {error.strerror}"
    return None


def keep_stamping() -> socket.socket:
    """A socket that has the kernel stamp as long as it is open.

    The kernel begins some time after it was first asked, on a busy machine many milliseconds: so this waits for the
    first stamp, `_BEGIN_SECONDS` at most. Raises OSError.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.create_connection(server.getsockname())
        try:
            if enable_stamps(sock) is None:
                with server.accept()[0] as other:
                    _wait_for_a_stamp(sock, other)
        except BaseException:
            sock.close()
            raise
    return sock


def _wait_for_a_stamp(sock: socket.socket, other: socket.socket) -> None:
    until = time.monotonic() + _BEGIN_SECONDS
    while time.monotonic() < until:
        other.send(b"?")
        if sock.recvmsg(1, ROOM)[1]:
            return
        time.sleep(0.001)


def wall_offset() -> int:
    """The wall clock minus the monotonic clock, in nanoseconds."""
    closest, offset = sys.maxsize, 0
    for _ in range(_PAIRS):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < closest:
            closest, offset = after - before, wall - (before + after) // 2
    return offset


def raw_stamps(notes: Sequence[Sequence[Note]]) -> bytes:
    """The kernel's stamps of the reads that brought these notes, one after the other: seconds and nanoseconds of the
    wall clock, as two little-endian int64; -1 and -1 where a read has none."""
    # Nothing but stamps was asked for, so that a read has one note, or none.
    stamps = b"".join([note[0][2] if note else _NONE for note in notes])
    if sys.byteorder == "little" and len(stamps) == len(notes) * _TIMESPEC.size:
        return stamps
    return b"".join(map(_raw_stamp, notes))


def _raw_stamp(notes: Sequence[Note]) -> bytes:
    for level, kind, content in notes:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(content) == _TIMESPEC.size:
            return _LITTLE.pack(*_TIMESPEC.unpack(content))
    return _NONE
