"""The streamed run of a real GPU under `examples/ngram-h200-streamed`: what came over the wire gives its journal, its
journal gives its report, and what `examples/README.md` claims of it is what the record shows."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import struct
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from runner.execution.recapture import recaptured
from runner.record.record import read_record
from runner.report.write import make_report

RUN = Path(__file__).parents[2] / "examples" / "ngram-h200-streamed"
REQUESTS = {1: 40, 4: 128, 16: 128, 32: 128}


def test_report_and_result_are_made_again_byte_for_byte() -> None:
    made = make_report(RUN)
    assert made.report.encode() == (RUN / "report.md").read_bytes()
    assert made.result.encode() == (RUN / "result.json").read_bytes()


def test_the_captures_say_what_the_journal_says() -> None:
    found = recaptured(RUN)
    assert found.differences == []
    # 4 engine processes: one proof, two requests of warm-up at C=1 and one in each other cell
    assert found.requests == 4 * (1 + 2 + 3 + sum(REQUESTS.values()))


def test_the_spec_that_is_offered_is_the_one_that_was_run() -> None:
    text = (RUN / "spec.yaml").read_bytes()
    assert text == (RUN.parents[1] / "specs" / "ngram-h200-streamed.yaml").read_bytes()
    assert read_record(RUN).plan.spec_sha256 == hashlib.sha256(text).hexdigest()


def captured(path: Path) -> list[dict[str, Any]]:
    """A capture's requests, by its documented format alone: none of our readers."""
    data = gzip.decompress(path.read_bytes())
    line, _, rest = data.partition(b"\n")
    base = json.loads(line)
    found = []
    while True:
        line, _, rest = rest.partition(b"\n")
        one = json.loads(line)
        if "closing" in one:
            return found
        reads = one["reads"]
        numbers = struct.unpack(f"<{4 * reads}q", rest[: 32 * reads])
        wall = [numbers[2 * n] * 10**9 + numbers[2 * n + 1] - base["offset_ns"] for n in range(reads)]
        sizes = numbers[3 * reads :]
        body, rest = rest[32 * reads : 32 * reads + one["size"]], rest[32 * reads + one["size"] + 1 :]
        chunks, start = [], 0
        for at, size in zip(wall, sizes, strict=True):
            chunks.append((at, body[start : start + size]))
            start += size
        found.append({**one, "chunks": chunks})


def token_times(one: dict[str, Any]) -> tuple[list[int], list[int]]:
    """When events with tokens came, and the running count of tokens in each, by a search for vLLM's own words."""
    times, counts = [], []
    for at, data in one["chunks"]:
        for event in re.findall(rb"data: (\{.*?\})\r?\n", data):
            chunk = json.loads(event)
            if chunk["choices"] and chunk["usage"]["completion_tokens"] > (counts[-1] if counts else 0):
                times.append(at)
                counts.append(chunk["usage"]["completion_tokens"])
    return times, counts


@pytest.mark.parametrize("concurrency", REQUESTS)
@pytest.mark.parametrize("arm", ["off", "on"])
def test_the_medians_are_those_of_the_bytes(arm: str, concurrency: int) -> None:
    """TTFT, TPOT and end-to-end latency by a dozen lines that know nothing of the runner."""
    phase = "sequential" if concurrency == 1 else "load"
    ttft, tpot, e2e = [], [], []
    for replicate in (1, 2):
        path = RUN / "artifacts" / f"{arm}-{replicate}" / f"{phase}-c{concurrency}-r1.capture.gz"
        requests = captured(path)
        assert len(requests) == REQUESTS[concurrency]
        for one in requests:
            times, counts = token_times(one)
            assert counts[-1] == 68
            ttft.append((times[0] - one["sent_ns"]) / 1e9)
            tpot.append((times[-1] - times[0]) / (counts[-1] - counts[0]) / 1e9)
            e2e.append((one["chunks"][-1][0] - one["sent_ns"]) / 1e9)
    [cell] = [
        cell
        for cell in json.loads((RUN / "result.json").read_text("utf-8"))["cells"]
        if (cell["condition"], cell["concurrency"]) == (arm, concurrency)
    ]
    shown = cell["latency"]
    for name, values in (("ttft", ttft), ("tpot", tpot), ("e2e-latency", e2e)):
        assert shown[name]["p50"]["value"] == pytest.approx(median(values), rel=1e-9), name


def test_what_the_examples_page_claims() -> None:
    text = (RUN.parent / "README.md").read_text("utf-8")
    result = json.loads((RUN / "result.json").read_text("utf-8"))
    cells = {(cell["condition"], cell["concurrency"]): cell for cell in result["cells"]}

    def p50(arm: str, level: int, metric: str) -> float:
        return float(cells[arm, level]["latency"][metric]["p50"]["value"])

    assert "Exit code 1" in text and result["exit_code"] == 1
    ratios = [p50("off", level, "tpot") / p50("on", level, "tpot") for level in REQUESTS]
    assert "1.5 to 2.0 times shorter" in text and [f"{min(ratios):.1f}", f"{max(ratios):.1f}"] == ["1.5", "2.0"]
    assert "14.87 ms without and 8.54 ms" in text
    assert [round(p50(arm, 1, "tpot") * 1e3, 2) for arm in ("off", "on")] == [14.87, 8.54]
    assert [round(p50(arm, 1, "chunk-gap") * 1e3, 2) for arm in ("off", "on")] == [14.47, 16.20]
    assert all(p50("on", level, "chunk-gap") > p50("off", level, "chunk-gap") for level in REQUESTS)
    assert all(p50("on", level, "ttft") > p50("off", level, "ttft") for level in (1, 4))
    assert 1.7 < p50("off", 32, "ttft") / p50("on", 32, "ttft") < 2.2
    achieved = [cell["client"]["achieved_concurrency"] / cell["concurrency"] for cell in cells.values()]
    assert all(f"{share:.1%}" == "100.0%" for share in achieved)
