"""The process: arguments, start-up log, the engine, uvicorn, and a quiet end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Generator, Mapping, Sequence

import uvicorn
import uvloop

from runner.simulator import (
    admission,
    arguments,
    configuration,
    crashes,
    drafting,
    faults,
    log,
    profile,
    shutdown_log,
    simulated,
    startup_log,
    step_time,
    wording,
)
from runner.simulator import release as releases
from runner.simulator.application import Api
from runner.simulator.arguments import Arguments
from runner.simulator.configuration import Configuration
from runner.simulator.connection import Http
from runner.simulator.engine import Engine
from runner.simulator.faults import Faults
from runner.simulator.kv_cache import BlockPool
from runner.simulator.monitoring import Monitoring
from runner.simulator.refusal import NotSimulated
from runner.simulator.scheduler import Limits, Scheduler

GRACE_SECONDS = 0.5  # from SIGTERM to leaving open connections behind


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until a signal; the exit code. An argparse error raises SystemExit(2)."""
    try:
        active = faults.parse(environment.get("SIMULATOR_FAULTS", ""))
        scale, seconds = _pace(environment)
        release = releases.named(environment.get("SIMULATOR_VERSION", releases.DEFAULT))
        imitated = profile.load(environment.get("SIMULATOR_PROFILE", profile.DEFAULT))
    except ValueError as error:
        sys.stderr.write(f"embedded engine: bad SIMULATOR_ variable: {error}\n")
        return 2
    seconds += float(active.parameter("slow-start", "seconds") or 0)
    given = arguments.parse(argv, release.version, log.early_warning)
    unknown = [name for name in active.all_ignored_flags if name not in given.values]
    if unknown:
        sys.stderr.write(f"embedded engine: bad SIMULATOR_FAULTS: no such flag: {', '.join(unknown)}\n")
        return 2
    crash = active.parameter("crash-at-start", "with")
    if crash == "bad-flag":
        return crashes.bad_flag()
    given = given.without(active.ignored_flags("neither"), shown=False)
    try:
        listening = _bind(given)
    except (OSError, OverflowError) as error:
        return crashes.crash(f"{type(error).__name__}: {error}", release)
    startup_log.banner(release, imitated, given.values["model"])
    startup_log.non_default_arguments(release, imitated, given.non_default)
    given = given.without(active.ignored_flags("parsed-only"), shown=True)
    if crash in ("bad-model", "bad-config"):
        return crashes.crash_at_start(crash, given.values["model"], imitated.host, release)
    for remark in simulated.remarks(given):
        sys.stderr.write(f"{remark}\n")
    try:
        simulated.refuse(given)
        effective = configuration.build(given.values, environment, release, imitated)
    except NotSimulated as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except ValueError as error:
        return crashes.crash(crashes.raised(str(error)), release)
    startup_log.resolved(effective)
    time.sleep(seconds / 2)
    startup_log.engine(effective, environment)
    if crash:
        return crashes.crash_at_start(crash, given.values["model"], imitated.host, release)
    time.sleep(seconds / 2)
    startup_log.memory(effective, seconds)
    _serve(effective, active, scale, listening)
    return 0


def make_scheduler(effective: Configuration, *, drafts: bool = True) -> Scheduler:
    """The scheduler of a configuration, with an empty cache. `drafts` False: it never drafts, whatever was asked."""
    asked = effective.speculation if drafts else None
    limits = Limits(
        max_num_seqs=effective.max_num_seqs,
        max_num_scheduled_tokens=effective.max_num_scheduled_tokens,
        max_model_len=effective.max_model_len,
        drafting=drafting.of(asked, effective.runner, effective.max_model_len) if asked else None,
        admission=admission.of(effective.release),
        long_prefill_token_threshold=effective.values["long_prefill_token_threshold"],
        chunked_prefill=effective.chunked_prefill,
    )
    pool = BlockPool(effective.num_gpu_blocks, effective.block_size, prefix_caching=effective.prefix_caching)
    return Scheduler(limits, pool)


def make_engine(effective: Configuration, active: Faults, scale: float, monitoring: Monitoring) -> Engine:
    """The engine of a configuration."""
    asked = effective.speculation
    timing = step_time.of(
        effective.profile.step_time,
        runner=effective.runner,
        asynchronous=effective.async_in_force,
        proposes_on_cpu=asked is not None and asked.method == "ngram" and effective.runner == "V1",
    )
    scheduler = make_scheduler(effective, drafts=not active.without_drafts)
    return Engine(scheduler, timing, scale, monitoring.record)


def _pace(environment: Mapping[str, str]) -> tuple[float, float]:
    scale = float(environment.get("SIMULATOR_TIME_SCALE", "1"))
    seconds = float(environment.get("SIMULATOR_STARTUP_SECONDS", "0"))
    if not 0 < scale < float("inf") or not 0 <= seconds < float("inf"):
        raise ValueError("SIMULATOR_TIME_SCALE must be > 0 and SIMULATOR_STARTUP_SECONDS >= 0")
    return scale, seconds


def _bind(given: Arguments) -> socket.socket:
    """The port is taken at once but only listened to when the engine is ready, as vLLM does."""
    host = given.values["host"] or ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, given.values["port"]))
    return listening


def _serve(effective: Configuration, active: Faults, scale: float, listening: socket.socket) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_server(effective, active, scale, listening))


async def _run_server(effective: Configuration, active: Faults, scale: float, listening: socket.socket) -> None:
    values = effective.values
    api = Api(effective, lambda monitoring: make_engine(effective, active, scale, monitoring), active)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    startup_log.serving(
        effective, f"http://{shown}:{port}", [(route.path, _methods(route.methods)) for route in api.routes()]
    )
    config = uvicorn.Config(
        api.application(),
        http=Http,
        ws="none",
        lifespan="on",
        log_config=log.uvicorn_logging(
            access=not values["disable_uvicorn_access_log"],
            prefixed=wording.of(effective.release).prefixes_streams,
        ),
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    quiet = (values["disable_access_log_for_endpoints"] or "").split(",")
    if quiet != [""]:
        logging.getLogger("uvicorn.access").addFilter(
            lambda record: str(record.args[2] if isinstance(record.args, tuple) else "").split("?")[0] not in quiet
        )
    server = _Server(config)

    def stop() -> None:
        shutdown_log.shutdown(effective)
        api.engine.abort_all()
        server.should_exit = True
        asyncio.get_running_loop().call_later(GRACE_SECONDS, server.leave_connections)

    loop = asyncio.get_running_loop()
    if active.of_kind("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, stop)
    await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own, which would end the process by the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def leave_connections(self) -> None:
        self.force_exit = True


def _methods(methods: set[str] | None) -> str:
    return ", ".join(sorted((methods or set()) - {"HEAD"}))
