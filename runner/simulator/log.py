"""Log lines in vLLM's form: ``(Process pid=N) LEVEL MM-DD HH:MM:SS [file.py:LINE] message``.

Each line is flushed at once. vLLM 0.26.0 prefixes everything that its processes write to stdout and stderr,
uvicorn's lines included; :class:`Prefixed` does the same. Here one process plays all roles, so all
prefixes carry the same pid.
"""

from __future__ import annotations

import os
import sys
import time
from typing import IO, Any, Literal

Role = str  # APIServer, EngineCore, Worker
Level = Literal["INFO", "WARNING", "ERROR"]


def write(role: Role, level: str, source: str, message: str) -> None:
    """Write a message to stdout; every line of a longer message repeats the header, after a carriage return too.

    Without `role` the line has no process, without `level` it is not a logger's line.
    """
    process = f"({role} pid={os.getpid()}) " if role else ""
    header = f"{level} {time.strftime('%m-%d %H:%M:%S')} [{source}] " if level else ""
    text = "\r\n".join(f"{process}{header}{line}" for line in message.split("\n"))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def api(level: Level, source: str, message: str) -> None:
    """A line of the API server."""
    write("APIServer", level, source, message)


def core(level: Level, source: str, message: str) -> None:
    """A line of the engine core."""
    write("EngineCore", level, source, message)


def early_warning(message: str) -> None:
    """A line of vLLM's argument parser, from before its processes have names."""
    sys.stdout.write(f"WARNING {time.strftime('%m-%d %H:%M:%S')} [argparse_utils.py:422] {message}\n")
    sys.stdout.flush()


class Prefixed:
    """A stream for ``logging`` handlers that puts the API server's prefix before every line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        prefix = f"(APIServer pid={os.getpid()}) "
        body = text.removesuffix("\n")
        self._stream.write("".join(f"{prefix}{line}\n" for line in body.split("\n")) if body else "")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def uvicorn_logging(*, access: bool, prefixed: bool) -> dict[str, Any]:
    """Configuration for uvicorn: lifecycle on stderr, access lines on stdout, both with the process if `prefixed`."""
    formats = {
        "default": {
            "()": "uvicorn.logging.DefaultFormatter",
            "fmt": "%(levelprefix)s %(message)s",
            "use_colors": False,
        },
        "access": {
            "()": "uvicorn.logging.AccessFormatter",
            "fmt": '%(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s',
            "use_colors": False,
        },
    }
    handlers = {
        "default": {
            "class": "logging.StreamHandler",
            "formatter": "default",
            "stream": Prefixed(sys.stderr) if prefixed else sys.stderr,
            "filters": ["shape"],
        },
        "access": {
            "class": "logging.StreamHandler",
            "formatter": "access",
            "stream": Prefixed(sys.stdout) if prefixed else sys.stdout,
        },
    }
    loggers = {
        "uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False},
        "uvicorn.access": {
            "handlers": ["access"] if access else [],
            "level": "INFO" if access else "CRITICAL",
            "propagate": False,
        },
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"shape": {"()": "runner.simulator.log.NotPrintedByVllm"}},
        "formatters": formats,
        "handlers": handlers,
        "loggers": loggers,
    }


class NotPrintedByVllm:
    """Drops the uvicorn lines that vLLM's way of running uvicorn never reaches."""

    def filter(self, record: Any) -> bool:
        return not str(record.msg).startswith("Finished server process")
