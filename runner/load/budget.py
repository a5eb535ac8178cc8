"""The requests that are still to be sent, shared by all processes of the load generator.

A file of numbers whose offset its holders share: each read takes the next number, and the kernel sees to it that no two
take the same one. So a slot is idle only when nothing is left, whichever process it belongs to.
"""

import os
import struct
import tempfile
from collections.abc import Sequence

_NUMBER = struct.Struct("<q")


class Budget:
    """Made by one process and inherited by the others, by its file descriptor."""

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        self.fd = fd

    def fill(self, numbers: Sequence[int]) -> None:
        """Put these in, in this order, in place of what is left. Nobody may take meanwhile."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        data = b"".join(map(_NUMBER.pack, numbers))
        while data:
            data = data[os.write(self.fd, data) :]
        os.lseek(self.fd, 0, os.SEEK_SET)

    def take(self) -> int | None:
        """The next one; None when nothing is left."""
        data = os.read(self.fd, _NUMBER.size)
        return None if len(data) < _NUMBER.size else int(_NUMBER.unpack(data)[0])

    def close(self) -> None:
        """Give the file back."""
        os.close(self.fd)
