"""`run SPEC`: validate, plan, measure, check, report."""

import asyncio
import os
import platform
import signal
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from runner import __version__
from runner.cli.inputs import Inputs, add_inputs, read_inputs
from runner.cli.pipe import say, tell
from runner.cli.progress import Progress
from runner.cli.survey import consent, survey_lines
from runner.execution.context import Context
from runner.execution.run import execute
from runner.exit_code import ExitCode
from runner.load.generator import LoadError
from runner.record.directory import JOURNAL, PLAN, SPEC, create_run_directory, write_whole
from runner.record.events import Event, Interrupted, RunFinished, RunnerFailed, RunStarted
from runner.record.journal import JournalError, JournalWriter
from runner.report.summary import terminal_summary
from runner.report.write import write_report
from runner.target.base import Target
from runner.target.choose import found_kubeconfig

_BOUNCE = 1.0
"""Seconds within which signals that follow the first one are the same wish: a hang-up comes from the terminal and from
the shell, and a key is held a moment."""


def main(argv: list[str]) -> int:
    """The run's exit code; the last line on stdout is the run's directory."""
    parser = ArgumentParser(prog="run", description="Run an experiment and report what it shows.")
    add_inputs(parser)
    parser.add_argument("--yes", action="store_true", help="agree to what will be changed of what was there before")
    options = parser.parse_args(argv)
    inputs = read_inputs(options)
    if inputs is None:
        return ExitCode.INVALID
    if inputs.refused:
        tell(*inputs.refused)
        return ExitCode.INVALID
    target = inputs.target
    for number in _heeded():
        signal.signal(number, signal.default_int_handler)  # until the run has begun, each is as Ctrl-C
    try:
        _say_target(inputs)
        code = _surveyed(inputs, agreed=options.yes)
    except KeyboardInterrupt:
        tell("run: interrupted; nothing was started or changed")
        return ExitCode.INTERRUPTED
    if code is not None:
        return code
    try:
        directory = create_run_directory(Path(inputs.site.runs), inputs.plan.name, datetime.now(UTC))
        write_whole(directory / SPEC, inputs.spec.text)
        write_whole(directory / PLAN, inputs.plan.model_dump_json(by_alias=True, indent=2) + "\n")
    except OSError as error:
        tell(f"run: cannot write {error.filename}: {error.strerror}; nothing was started")
        return ExitCode.REFUSED
    failed = _carry_out(inputs, target, directory)
    if failed:
        tell(failed)
    try:
        reported = write_report(directory)
    except (OSError, JournalError) as error:
        tell(f"run: no report: {error}; once that is mended, `run report {directory}` makes it")
        say(str(directory))
        return ExitCode.INTERNAL
    say(terminal_summary(reported), str(directory))
    return int(reported.code)


def _surveyed(inputs: Inputs, *, agreed: bool) -> ExitCode | None:
    """Look at the place and tell; the exit code where the run must not begin."""
    name = inputs.target.name
    survey = inputs.target.survey(inputs.plan)
    lines = list(survey_lines(survey, inputs.plan.arm(inputs.plan.baseline).label))
    if lines:
        tell(*lines)
    for found, code in ((survey.problems, ExitCode.INVALID), (survey.refusals, ExitCode.REFUSED)):
        if found:
            tell(*(f"run: target {name}: {one}" for one in found))
            return code
    refused = consent(survey, given=agreed)
    if refused is not None:
        tell(f"run: target {name}: {refused}")
        return ExitCode.REFUSED
    return None


def _say_target(inputs: Inputs) -> None:
    tell(f"target: {inputs.target.name} (named by: {inputs.origin})")
    kubeconfig = found_kubeconfig(os.environ)
    if inputs.origin == "default" and kubeconfig is not None:
        tell(
            f"note: there is a kubeconfig at {kubeconfig}, but no target was named: this run is simulated. "
            f"To measure the cluster: run {inputs.spec.path} --target kubernetes",
        )
    if proxies := inputs.client["proxies-ignored"]:
        tell(f"note: no request to an engine goes through a proxy; ignored: {', '.join(proxies)}")


def _carry_out(inputs: Inputs, target: Target, directory: Path) -> str | None:
    """Run the plan, journal and terminal listening; returns the traceback of a bug of ours."""
    progress = Progress(inputs.plan)
    with JournalWriter(directory / JOURNAL) as journal:

        def emit(event: Event) -> None:
            journal(event)
            progress(event)

        context = Context(
            inputs.plan, directory, emit, asyncio.Event(), in_flight=progress.in_flight, access=inputs.access
        )
        emit(
            RunStarted(
                run=directory.name,
                started_at=datetime.now(UTC).isoformat(timespec="seconds"),
                runner_version=__version__,
                target=target.name,
                simulated=target.simulated,
                client=inputs.client,
                target_settings=target.settings(),
                host={
                    "python": platform.python_version(),
                    "system": f"{platform.system()} {platform.release()} {platform.machine()}",
                    "cpus": str(os.cpu_count()),
                },
            )
        )
        failed = None
        try:
            asyncio.run(_until_done_or_stopped(context, target))
        except (asyncio.CancelledError, KeyboardInterrupt):
            pass  # a second signal: the first one is journaled, what could be put in order has been
        except LoadError as error:
            failed = f"run: {error}; what it had under way is lost, and nothing more was measured"
            _recorded(emit, RunnerFailed(error=str(error)))
        except Exception as error:
            failed = traceback.format_exc()
            _recorded(emit, RunnerFailed(error=f"{type(error).__name__}: {error}"))
        _recorded(emit, RunFinished(seconds=round(context.clock.now() / 1e9, 3)))
    return failed


def _recorded(emit: Callable[[Event], None], event: Event) -> None:
    """Where nothing can be recorded any more, what is recorded stands, and the run comes to its end all the same."""
    try:
        emit(event)
    except OSError as error:
        tell(f"run: this could not be recorded: {event.event}: {error}")


def _heeded() -> tuple[signal.Signals, ...]:
    """The signals that end a run in good order: a lost ssh session's too, unless it is to be outlived (nohup)."""
    outlived = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if outlived else (signal.SIGHUP,)))


async def _until_done_or_stopped(context: Context, target: Target) -> None:
    """The first signal ends the measurement, in good order; each one after it what is under way then, be it the putting
    in order."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(execute(context, target))
    signals = _heeded()
    first = 0.0

    def stop(number: signal.Signals) -> None:
        nonlocal first
        if not context.stop.is_set():
            first = loop.time()
            context.stop.set()
            _recorded(context.emit, Interrupted(signal=number.name))
        elif loop.time() - first >= _BOUNCE:
            work.cancel()

    for number in signals:
        loop.add_signal_handler(number, stop, number)
    try:
        await work
    finally:
        for number in signals:
            loop.remove_signal_handler(number)  # what is left may be ended the ordinary way
