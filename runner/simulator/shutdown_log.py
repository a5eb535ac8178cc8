"""The lines between SIGTERM and uvicorn's farewell, by release and by the number of processes that vLLM would have."""

from __future__ import annotations

import os
from collections.abc import Mapping

from runner.simulator import log
from runner.simulator.configuration import Configuration
from runner.simulator.log import Level

# One line: process, level, file, line number in 0.26.0 and from 0.32.0 on (0: the line does not exist), text.
# "mp" before the process: only where the worker is a process of its own.
_LINES: tuple[tuple[str, Level, str, int, int, str], ...] = (
    ("APIServer", "INFO", "launcher.py", 100, 254, "API server: shutdown triggered"),
    ("APIServer", "INFO", "launcher.py", 116, 270, "API server: stopping engine client mode=abort timeout=0s"),
    ("APIServer", "INFO", "core_client.py", 655, 770, "MPClient: start timeout=0s"),
    ("APIServer", "INFO", "core_client.py", 657, 772, "MPClient: stopping engine manager"),
    ("APIServer", "INFO", "utils.py", 0, 628, "Process manager: send sigterm to process EngineCore"),
    ("APIServer", "WARNING", "utils.py", 626, 648, "Process manager: force killing remaining processes count=1"),
    ("APIServer", "WARNING", "utils.py", 0, 653,
     "Process manager: force killing remaining process EngineCore pid {pid}"),
    ("EngineCore", "INFO", "core.py", 1313, 1454, "EngineCore: trigger received signal=SIGTERM"),
    ("EngineCore", "INFO", "core.py", 1432, 1635, "EngineCore: start mode=abort timeout=0s"),
    ("EngineCore", "INFO", "core.py", 1463, 1666,
     "EngineCore: request processing complete; starting resource teardown"),
    ("EngineCore", "INFO", "core.py", 1326, 1499, "EngineCore: exiting busy loop"),
    ("mp EngineCore", "INFO", "multiproc_executor.py", 429, 479, "Executor: waiting for worker exit count=1"),
    ("mp APIServer", "WARNING", "system_utils.py", 0, 225, "force killing sub process VLLM::Worker pid {pid}"),
    ("APIServer", "INFO", "core_client.py", 659, 774, "MPClient: engine manager stopped"),
    ("APIServer", "INFO", "core_client.py", 660, 775, "MPClient: cleaning up background resources"),
    ("APIServer", "INFO", "core_client.py", 662, 777, "MPClient: complete"),
    ("APIServer", "INFO", "launcher.py", 125, 279, "API server: engine client stopped"),
    ("APIServer", "INFO", "launcher.py", 128, 282, "API server: signalling HTTP server shutdown"),
    ("APIServer", "INFO", "launcher.py", 149, 304, "API server: shutting down FastAPI HTTP server"),
)  # fmt: skip
_WORKER: Mapping[bool, str] = {True: "multiproc_executor.py:793", False: "multiproc_executor.py:843"}


def shutdown(configuration: Configuration) -> None:
    """Print them."""
    first = configuration.version == "0.26.0"
    worker = configuration.host.worker
    for process, level, file, old, new, text in _LINES:
        number = old if first else new
        several, _, name = process.rpartition(" ")
        if not number or (several and worker == "EngineCore"):
            continue
        log.write(name, level, f"{file}:{number}", f"[shutdown] {text.format(pid=os.getpid())}")
        if several and name == "EngineCore":
            log.write(worker, "INFO", _WORKER[first], "Parent process exited, terminating worker queues")
