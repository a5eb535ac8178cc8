"""What surrounds a run: the cores, a process that spins on the client's, a way through network namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CLIENT_ADDRESS, SERVER_ADDRESS = "10.213.7.1", "10.213.7.2"
"""At the two ends of the pair, in namespaces of their own: they meet no other network."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The client's core and the server's; the benchmark itself is on the server's."""

    client: int
    server: int

    @property
    def apart(self) -> bool:
        """Whether they are two."""
        return self.client != self.server


def cores() -> Cores:
    """The first and the last that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[-1])


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This thread, and what it starts, on that core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Way:
    """How client and server reach each other: what is put before their commands, and the server's address."""

    host: str = "127.0.0.1"
    client: Sequence[str] = ()
    server: Sequence[str] = ()


DIRECT = Way()
"""Over the loopback."""


@contextlib.contextmanager
def spinning(core: int) -> Iterator[None]:
    """A process that never waits, on that core."""
    command = [sys.executable, "-c", "while True: pass"]
    with on_core(core):
        child = subprocess.Popen(command)
    try:
        yield
    finally:
        child.kill()
        child.wait()


class NoNamespaces(Exception):
    """There can be no way through network namespaces here; the text says why."""


@contextlib.contextmanager
def veth() -> Iterator[Way]:
    """Two network namespaces and a veth pair between them, as the way to a Pod has. Removed afterwards. Raises
    NoNamespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise NoNamespaces("it needs root, and the program ip (iproute2)")
    client, server = f"instrument-c{os.getpid()}", f"instrument-s{os.getpid()}"
    ends = (f"ic{os.getpid()}"[:15], f"is{os.getpid()}"[:15])
    try:
        for name in (client, server):
            _ip("netns", "add", name)
        _ip("link", "add", ends[0], "netns", client, "type", "veth", "peer", "name", ends[1], "netns", server)
        for name, end, address in ((client, ends[0], CLIENT_ADDRESS), (server, ends[1], SERVER_ADDRESS)):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", end)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", end, "up")
        yield Way(SERVER_ADDRESS, ("ip", "netns", "exec", client), ("ip", "netns", "exec", server))
    finally:
        for name in (client, server):  # the pair goes with them
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    ended = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if ended.returncode:
        raise NoNamespaces(f"ip {' '.join(words)}: {ended.stderr.strip()}")
