"""`run read PATH...`: what the readers find in recordings of real engines. No network, nothing is written."""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runner.cli.pipe import say, tell
from runner.engine.exposition import Exposition
from runner.engine.facts import window_facts
from runner.engine.recording import MAX_RECORDING, Reading, read_recording
from runner.exit_code import ExitCode
from runner.report.recordings import fact_lines, fault_lines, reading_lines


def main(argv: list[str]) -> int:
    """0 when everything was read completely, 2 otherwise."""
    parser = ArgumentParser(
        prog="run read",
        description="Say what the readers find in recordings of an engine: its log, scrapes of /metrics, replies, "
        "streams, server info. What a file does not say is absent. Two scrapes in a row are read as a window.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a file, or a folder of files")
    code: int = 0
    scrapes: dict[Path, Exposition] = {}
    named: list[Path] = []
    paths: list[Path] = parser.parse_args(argv).paths
    for path in paths:
        if path.is_dir() and not any(inner.is_file() for inner in path.rglob("*")):
            tell(f"{path}: there is no file in this folder")
            code = ExitCode.INVALID
    for path, asked in _files(paths):
        reading = _read(path)
        if isinstance(reading, str):
            # a folder may hold notes and tables; a file that was named is meant
            if asked:
                tell(f"{path}:1: {reading}")
                code = ExitCode.INVALID
            else:
                say(f"{path}: {reading}")
            continue
        say(*reading_lines(str(path), reading))
        if reading.faults:
            tell(*fault_lines(str(path), reading))
            code = ExitCode.INVALID
        if reading.scrape is not None:
            scrapes[path] = reading.scrape
            named += [path] if asked else []
    for before, after in _windows(scrapes, named):
        say(f"{before} to {after}: window", *fact_lines(window_facts(scrapes[before], scrapes[after])))
    return code


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was named itself."""
    for path in paths:
        if path.is_dir():
            yield from ((inner, False) for inner in sorted(path.rglob("*")) if inner.is_file())
        else:
            yield path, True


def _read(path: Path) -> Reading | str:
    try:
        size = path.stat().st_size
        if size > MAX_RECORDING:
            return f"{size} bytes, more than the {MAX_RECORDING} that are read; cut out the part that matters"
        return read_recording(path.read_bytes()) or "no reader: nothing in it is an engine's"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _windows(scrapes: Mapping[Path, Exposition], named: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """`NAME-before` with `NAME-after` of one folder, and two scrapes that were named themselves, in their order."""
    for path in scrapes:
        after = path.with_name(path.name.replace("before", "after"))
        if after != path and after in scrapes:
            yield path, after
    if len(named) == 2 and not any("before" in path.name for path in named):
        yield named[0], named[1]
