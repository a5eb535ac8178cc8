"""Ports of this machine: a free one, and who listens on one that is not.

vLLM binds its port with SO_REUSEPORT: beside a server that is still there it starts without a word, and the kernel
deals the requests out to both. So a port is looked at before, and its listeners again once the engine answers.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and the processes that hold it, by id with their names; none where they cannot be seen from
    here."""

    holders: dict[int, str]

    @property
    def pids(self) -> frozenset[int]:
        """The holders' ids."""
        return frozenset(self.holders)

    def __str__(self) -> str:
        named = [f"pid {pid} ({name})" for pid, name in sorted(self.holders.items())]
        return " and ".join(named) or "a process that cannot be seen from here"


def free_port(host: str) -> int:
    """A port of `host` that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    """Whether the port could be had alone: a connection that is still closing does not count, a listener does."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError:
            return False
    return True


def listeners(port: int) -> list[Listener]:
    """Every socket of this machine that listens on the port, on any address; empty where that cannot be known."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(_PROC / "net" / table, port)}
    if not inodes:
        return []
    holders = _holders(inodes)
    return [Listener(holders[inode]) for inode in sorted(inodes)]


def _listening(table: Path, port: int) -> list[str]:
    """The inodes of a table of /proc/net."""
    try:
        rows = [line.split() for line in table.read_text("ascii").splitlines()[1:]]
    except (OSError, UnicodeDecodeError):
        return []
    return [row[9] for row in rows if len(row) > 9 and row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]


def _holders(inodes: set[str]) -> dict[str, dict[int, str]]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, dict[int, str]] = {inode: {} for inode in inodes}
    for process in _PROC.iterdir():
        if not process.name.isdigit():
            continue
        try:
            name = (process / "comm").read_text("utf-8", errors="replace").strip()
            for descriptor in (process / "fd").iterdir():
                inode = wanted.get(str(descriptor.readlink()))
                if inode is not None:
                    found[inode][int(process.name)] = name
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found
