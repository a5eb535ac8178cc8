"""The stand-in for nvidia-smi: as the recorded one where all is well, and each way of going wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.target.embedded import write_nvidia_smi

RECORDINGS = Path(__file__).parents[1] / "recordings"
FIELDS = "timestamp,index,name,uuid,driver_version,utilization.gpu,memory.used,memory.total,power.draw,clocks.sm,temperature.gpu,fan.speed,pstate,clocks_throttle_reasons.active"  # noqa: E501 -- as recorded
SAMPLER = ("--query-gpu=timestamp,memory.used,utilization.gpu", "--format=csv,noheader,nounits", "-lms", "20")
SAMPLE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, \d+, \d+")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_nvidia_smi(tmp_path)


def environment(script: Path, *faults: dict[str, Any], profile: str = "h200") -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(runner.__file__).parents[1]),
        "SIMULATOR_PROFILE": profile,
        "SIMULATOR_FAULTS": json.dumps(faults),
    }


def smi(script: Path, *words: str, profile: str = "h200", faults: tuple[dict[str, Any], ...] = ()) -> tuple[str, int]:
    """Stdout and exit code of `nvidia-smi`, found on PATH; its stderr is empty."""
    ended = subprocess.run(
        ["nvidia-smi", *words], env=environment(script, *faults, profile=profile), capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout, ended.returncode


def recorded(command: str) -> tuple[str, int]:
    """Stdout and exit code of a recorded command."""
    text = (RECORDINGS / "nvidia-smi" / "commands.txt").read_text("utf-8")
    block = text.split(f"$ {command}\n")[1].split("rc=")
    lines = [line.removeprefix("out|") for line in block[0].splitlines()]
    return "".join(f"{line}\n" for line in lines), int(block[1].split("\n")[0])


def shape(text: str) -> str:
    """Without the figures."""
    return re.sub(r"0x\d+|\d+\.\d+|\d+", "N", text)


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["-L"],
        *([f"--query-gpu={FIELDS}", f"--format={form}"]
          for form in ("csv", "csv,noheader", "csv,nounits", "csv,noheader,nounits")),
        ["--query-gpu=memory.used,bogus", "--format=csv"],
        ["--query-gpu=memory.used"],
        ["--query-gpu=memory.used", "--format=xml"],
        ["--bogus"],
        ["-i", "7", "--query-gpu=memory.used", "--format=csv"],
        ["--query-compute-apps=pid,process_name,used_memory", "--format=csv"],
        ["--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"],
    ],
    ids=lambda words: " ".join(words)[-40:],
)  # fmt: skip
def test_it_answers_as_recorded_but_for_the_figures(script: Path, words: list[str]) -> None:
    text, code = smi(script, *words)
    wanted, wanted_code = recorded("nvidia-smi " + " ".join(words))
    assert (shape(text), code) == (shape(wanted), wanted_code)


def test_the_header_of_the_recorded_series(script: Path) -> None:
    header = (RECORDINGS / "h200" / "q3b-on" / "nvidia-smi.csv").read_text("utf-8").splitlines()[0]
    fields = ",".join(name.split(" ")[0] for name in header.split(", "))
    assert smi(script, "--query-gpu", fields, "--format", "csv")[0].splitlines()[0] == header


def test_the_memory_is_the_profiles(script: Path) -> None:
    query = ("--query-gpu=memory.used,memory.free,memory.total", "--format=csv,noheader,nounits")
    for profile, total in (("h200", 143155), ("article", 23033)):
        used, free, found = map(int, smi(script, *query, profile=profile)[0].split(", "))
        assert used + free == found and abs(found - total) <= 1 and 0.9 < used / found < 0.95
    assert smi(script, *query, profile="cpu") == ("No devices were found\n", 6)


class Sampler:
    """A sampler that runs until it is stopped."""

    def __init__(self, script: Path, *faults: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            ["nvidia-smi", *SAMPLER], env=environment(script, *faults), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.lines = self.process.stdout

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()


def broken(how: str, at: int = 3) -> dict[str, Any]:
    return {"kind": "nvidia-smi", "at_sample": at, "how": how}


def test_samples_come_one_a_line_and_at_once(script: Path) -> None:
    with Sampler(script) as sampler:
        lines = [sampler.lines.readline().rstrip("\n") for _ in range(6)]
        assert all(SAMPLE.fullmatch(line) for line in lines)
        assert len({line.split(", ")[0] for line in lines}) == 6
        assert len({line.split(", ")[2] for line in lines}) > 1  # it is not one canned line
        assert sampler.process.poll() is None


@pytest.mark.parametrize(
    ("how", "words", "code"),
    [
        ("exit", "Failed to initialize NVML: Unknown Error", 255),
        ("device-lost", "Unable to determine the device handle for GPU0: 00000000:00:06.0: GPU is lost.  "
         "Reboot the system to recover this GPU", 15),
    ],
)  # fmt: skip
def test_it_ends_at_the_sample_with_its_words_on_stdout(script: Path, how: str, words: str, code: int) -> None:
    text, found = smi(script, *SAMPLER, faults=(broken(how),))
    *samples, last = text.splitlines()
    assert len(samples) == 2 and all(SAMPLE.fullmatch(line) for line in samples)
    assert (last, found) == (words, code)


def test_the_words_for_a_lost_driver_are_recorded_ones() -> None:
    command = "env LD_PRELOAD=/fail.so EO=1 nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu "
    assert recorded(command + "--format=csv,noheader -lms 400") == ("Failed to initialize NVML: Unknown Error\n", 255)


def test_it_hangs_at_the_sample(script: Path) -> None:
    with Sampler(script, broken("hang")) as sampler:
        assert all(SAMPLE.fullmatch(sampler.lines.readline().rstrip("\n")) for _ in range(2))
        time.sleep(0.3)  # fifteen samples' time
        assert sampler.process.poll() is None
        sampler.process.kill()
        assert sampler.lines.read() == ""


def test_it_is_torn_at_the_sample(script: Path) -> None:
    text, code = smi(script, *SAMPLER, faults=(broken("torn"),))
    *samples, last = text.split("\n")
    assert len(samples) == 2 and all(SAMPLE.fullmatch(line) for line in samples)
    assert last and not SAMPLE.fullmatch(last)
    assert code == -9


@pytest.mark.parametrize(
    ("how", "words", "utilisation", "lasts"),
    [
        ("blocked", "[GPU access blocked by the operating system]", "0", True),
        ("not-available", "[N/A]", "[N/A]", False),
        ("unknown-error", "[Unknown Error]", "[Unknown Error]", False),
    ],
)
def test_fields_say_so(script: Path, how: str, words: str, utilisation: str, lasts: bool) -> None:
    with Sampler(script, broken(how)) as sampler:
        lines = [sampler.lines.readline().rstrip("\n") for _ in range(5)]
        assert sampler.process.poll() is None
    assert [SAMPLE.fullmatch(line) is not None for line in lines] == [True, True, False, not lasts, not lasts]
    assert lines[2].split(", ")[1:] == [words, utilisation]


def test_a_lost_driver_looks_as_recorded(script: Path) -> None:
    query = ("--query-gpu=timestamp,memory.used,utilization.gpu", "--format=csv,noheader")
    command = "env LD_PRELOAD=/fail.so EI=5 AT=1 nvidia-smi " + " ".join(query) + " -lms 400"
    assert shape(smi(script, *query, faults=(broken("blocked", 1),))[0]) == shape(
        recorded(command)[0].splitlines(keepends=True)[-1]
    )


def test_samples_are_counted_over_the_processes_of_one_script(script: Path) -> None:
    query = ("--query-gpu=memory.used", "--format=csv,noheader")
    codes = [smi(script, *query, faults=(broken("exit"),))[1] for _ in range(4)]
    assert codes == [0, 0, 255, 0]


def test_the_engines_faults_are_no_business_of_it_and_bad_ones_are(script: Path) -> None:
    assert smi(script, "-L", faults=({"kind": "hang", "after_requests": 1},))[1] == 0
    ended = subprocess.run(
        ["nvidia-smi", "-L"], env=environment(script, {"kind": "nvidia-smi", "at_sample": 0, "how": "exit"}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and "at_sample must be a whole number, 1 or more" in ended.stderr
