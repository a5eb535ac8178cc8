"""The benchmark of load generators: its clients and its readers on tiny runs, its figures on records made by hand."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from instrument.bars import bars
from instrument.cell import Cell, Task, prompt
from instrument.clients.job import event_stamps
from instrument.collected import Point
from instrument.conditions import cores
from instrument.figures import achieved, cpu, figures, quantile_errors, stamp_errors
from instrument.measure import Results, measure, rotated
from instrument.oracle import Served, read_truth
from instrument.page import Outcome, json_of, markdown_of
from instrument.programs.aiperf import AIPerf
from instrument.programs.bench_serve import BenchServe
from instrument.programs.catalogue import PROGRAMS, short
from instrument.programs.environments import PINS
from instrument.programs.guidellm import GuideLLM
from instrument.programs.inference_perf import InferencePerf
from instrument.programs.plain import CLIENTS
from instrument.programs.program import Program
from instrument.quantiles import quantile
from instrument.reported import Reported, Unreadable
from instrument.table import BARE, OURS, short_run, slope_table
from instrument.watched import Sample

TINY = Cell(2, 5, events=4, gap_s=0.005, first_after_s=0.005)
EVENT = b'data: {"choices":[{"delta":{"content":" one"}}]}\n\n'
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'


def client(name: str) -> Program:
    return next(one for one in CLIENTS if one.name == name)


@pytest.mark.parametrize("name", [OURS, BARE, "protocol + httptools", "httpx"])
def test_a_tiny_run_of_a_client_yields_every_figure(name: str) -> None:
    # Longer than the CPU clocks' reading interval, so that there are two readings at least.
    cell = Cell(2, 5, events=20, gap_s=0.01)
    found, _ = measure(client(name), cell, cores())
    counts = {key: found[key] for key in ("requests", "answered", "reported", "failed", "unmatched")}
    assert counts == {"requests": 5, "answered": 5, "reported": 5, "failed": 0, "unmatched": 0}
    assert {key for key, value in found.items() if value is None} <= {"after_chunk_us"}
    assert 0 < (found["achieved"] or 0) <= 2
    assert 0 < (found["achieved_own"] or 0) <= 2
    assert (found["cpu_chunk_us"] or 0) > 0
    assert (found["server_share"] or 0) > 0
    assert abs(found["stamp_p50_us"] or 0) < 1e6  # of one clock: another's would be off by the machine's uptime


def test_the_page_names_each_program_and_what_was_not_measured() -> None:
    results = Results()
    results.take(client(BARE), TINY, cores())
    results.troubles[("guidellm 0.8.1", 2)] = ["it did not end"]
    outcome = Outcome([TINY], [client(BARE), GuideLLM()], results.points(), [], ["aiperf: no Python"], 60)
    page = markdown_of(outcome)
    assert f"| {BARE} (1) |" in page
    assert "| guidellm 0.8.1 (0) | – |" in page
    assert "- guidellm 0.8.1: it did not end" in page
    assert "- aiperf: no Python" in page
    assert {point["program"] for point in json.loads(json_of(outcome))["points"]} == {BARE, "guidellm 0.8.1"}


def test_a_program_that_fails_leaves_its_words() -> None:
    class Failing:
        name, rival, remark = "failing", False, ""

        def missing(self) -> str | None:
            return None

        def command(self, _: Task) -> tuple[list[str], dict[str, str]]:
            return ["sh", "-c", "echo it is broken; exit 3"], {"PATH": "/usr/bin:/bin"}

        def read(self, _: Task) -> Reported:
            raise AssertionError

    with pytest.raises(Unreadable, match="exit code 3: it is broken"):
        measure(Failing(), TINY, cores())


# Clients ----------------------------------------------------------------------------------------------


def chunked(*pieces: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_an_event_has_the_stamp_of_the_read_that_completed_it() -> None:
    wire = chunked(ROLE + EVENT, EVENT, b"data: [DONE]\n\n")
    every_byte = [bytes([byte]) for byte in wire]
    ends = [wire.find(EVENT) + len(EVENT), wire.rfind(EVENT) + len(EVENT)]
    # An event is there with the chunk's last byte, at offset end - 1.
    assert event_stamps(range(len(wire)), every_byte, framed=True) == [end - 1 for end in ends]
    assert event_stamps([7], [wire], framed=True) == [7, 7]
    assert event_stamps([1, 2, 3], [ROLE + EVENT[:9], EVENT[9:-1], EVENT[-1:] + EVENT], framed=False) == [3, 3]


def test_the_oracles_page_holds_the_stamps_before_and_after_each_send() -> None:
    row = {"last_words": "a", "arrived_ns": None, "received_ns": 5, "last_after_ns": 9, "sent": 2}
    later = {**row, "arrived_ns": 4, "sent": 1}
    stamps = array("q", [10, 20, 11, 21, 30, 31])
    first, second = read_truth(json.dumps([row, later]).encode() + b"\n" + stamps.tobytes())
    assert (first.arrived_ns, first.first_ns, list(first.sent_ns)) == (5, 10, [11, 21])
    assert (second.arrived_ns, second.first_ns, list(second.sent_ns)) == (4, 30, [31])


# Figures ----------------------------------------------------------------------------------------------


def served(number: int, arrived: int, sent: list[int], ended: int | None = None) -> Served:
    before = [at - 1 for at in sent]
    return Served(prompt(number), arrived, before, sent, sent[-1] + 1 if ended is None else ended)


def test_a_quantile_interpolates_between_ranks() -> None:
    assert [quantile([4, 1, 3, 2], share) for share in (0, 0.5, 0.9, 1)] == [1, 2.5, pytest.approx(3.7), 4]


def test_achieved_concurrency_is_time_in_flight_between_the_first_and_the_last_sending() -> None:
    assert achieved([(0, 10), (0, 10), (10, 20), (10, 20)]) == 2
    assert achieved([(0, 8), (0, 8), (10, 20)]) == pytest.approx(1.6)
    assert achieved([(0, 10)]) is None


def test_cpu_is_that_within_the_round_alone() -> None:
    asked = [served(0, 1000, [2000, 3000, 4000]), served(1, 1500, [2500, 3500, 4500])]
    samples = [Sample(at, used, at / 1e9) for at, used in ((500, 5.0), (1800, 6.0), (4200, 6.5), (9000, 9.0))]
    found = cpu(asked, samples, 3)
    # Within: the readings at 1800 and 4200, and between them all events but the one at 4500.
    assert found["cpu_chunk_us"] == pytest.approx(0.5 / 5 * 1e6)
    assert found["cpu_request_us"] == pytest.approx(0.5 / 5 * 3 * 1e6)
    assert found["server_share"] == pytest.approx(1.0)
    assert cpu(asked, samples[:2], 3)["cpu_chunk_us"] is None


def test_errors_have_their_sign_and_stamps_their_amount() -> None:
    found = quantile_errors("ttft", [0.052, 0.053], [0.050, 0.050])
    assert found["ttft_p50_ms"] == pytest.approx(2.5)
    asked = [served(0, 0, [1_000_000, 2_000_000]), served(1, 0, [1_000_000])]
    stamps = {prompt(0): [997_000, 2_009_000], prompt(1): [1_000_000, 1_000_001], "another": [5]}
    errors = stamp_errors(asked, stamps, {prompt(0): [1]})
    assert errors["stamp_p50_us"] == pytest.approx(6)
    assert errors["beyond_p50_us"] == pytest.approx((2.999 + 9) / 2)  # the send began 1 ns before its end
    inside = stamp_errors(asked, {prompt(1): [999_999]}, {})
    assert (inside["stamp_p99_us"], inside["beyond_p99_us"]) == (pytest.approx(0.001), 0)
    assert errors["stamp_signed_us"] == pytest.approx(3)
    assert errors["first_p99_us"] == pytest.approx(3)
    assert errors["unmatched"] == 2
    assert (errors["exact_p99_us"], errors["bound_share"]) == (pytest.approx(3), 0.5)


def test_a_probe_before_the_round_does_not_count() -> None:
    cell = Cell(1, 2, events=1)
    truth = [served(9, 0, [90_000_000]), served(0, 1_000_000_000, [1_050_000_001]), served(1, 2e9, [2_050_000_001])]
    found = figures(cell, truth, Reported([0.05, 0.05], [0.06, 0.06]), [])
    assert found["requests"] == 2
    assert found["ttft_p99_ms"] == pytest.approx(0)
    assert found["stamp_p50_us"] is None


def test_the_turns_change() -> None:
    turns = [rotated([client(OURS), client(BARE)], by) for by in range(3)]
    assert [[one.name for one in turn] for turn in turns] == [[OURS, BARE], [BARE, OURS], [OURS, BARE]]


def test_the_slope_is_between_the_two_lengths() -> None:
    cell = Cell(2, 12, events=100)
    points = dict([point("slow", 2, whole_cpu_s=7.0), point(short_run("slow"), 2, whole_cpu_s=6.0)])
    assert "| slow | 1000.0 |" in slope_table(points, ["slow", "other"], [cell])
    assert slope_table({("slow", 2): points["slow", 2]}, ["slow"], [cell]) == ""


# Bars -------------------------------------------------------------------------------------------------


def point(name: str, cell: int, **figures_of: float) -> tuple[tuple[str, int], Point]:
    return (name, cell), Point(name, cell, [dict(figures_of)], [])


def verdicts(*points: tuple[tuple[str, int], Point]) -> dict[str, bool | None]:
    return {bar.asked: bar.met for bar in bars(dict(points), ["slow"], [16, 128, 256])}


@pytest.mark.parametrize(("used", "met"), [(15.0, True), (15.2, False)])
def test_the_bar_against_the_bare_protocol(used: float, met: bool) -> None:
    found = verdicts(point(OURS, 16, cpu_chunk_us=used), point(BARE, 16, cpu_chunk_us=10.0))
    assert found == {"CPU per chunk at most 1.5× the bare protocol's, C = 16": met}


@pytest.mark.parametrize(
    ("cell", "used", "met"), [(16, 30.0, True), (16, 29.0, False), (128, 49.0, False), (256, 10.1, True)]
)
def test_the_bars_against_a_rival(cell: int, used: float, met: bool) -> None:
    found = verdicts(point(OURS, cell, cpu_chunk_us=10.0), point("slow", cell, cpu_chunk_us=used))
    assert list(found.values()) == [met]


@pytest.mark.parametrize(("ours", "met"), [(0.5, True), (-0.5, True), (2.0, False)])
def test_the_bar_of_the_ttft_tail(ours: float, met: bool) -> None:
    found = verdicts(point(OURS, 128, ttft_p99_ms=ours), point("slow", 128, ttft_p99_ms=6.0))
    assert found == {"TTFT p99 at least 10× closer than slow's, C = 128": met}


# Readers ----------------------------------------------------------------------------------------------


def task(folder: Path) -> Task:
    return Task(Cell(1, 2, events=2), "http://127.0.0.1:1", folder, folder)


def written(folder: Path, name: str, value: Any) -> Task:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return task(folder)


def test_bench_serve_is_read_in_the_order_of_the_prompts(tmp_path: Path) -> None:
    told = {
        "errors": ["", "refused"],
        "start_times": [10.0, 11.0],
        "ttfts": [0.05, 0.0],
        "itls": [[0.0, 0.25], []],
        "latencies": [0.5, 0.0],
    }
    found = BenchServe().read(written(tmp_path, "result.json", told))
    assert (found.ttft_s, found.e2e_s, found.failed) == ([0.05], [0.5], 1)
    assert found.stamps == {prompt(0): [10_050_000_000, 10_300_000_000]}  # the role's chunk is none of them


def test_inference_perf_is_read_by_the_prompt_of_each_request(tmp_path: Path) -> None:
    row = {
        "error": None,
        "start_time": 10.0,
        "end_time": 10.5,
        "request": json.dumps({"messages": [{"content": "."}, {"content": prompt(1)}]}),
        "info": {"response_metrics": {"chunk_times": [10.25, 10.5]}},
        "computed_metrics": {"time_to_first_token": 0.25, "request_latency": 0.5},
    }
    rows = [row, {"error": {"error_type": "x"}}]
    found = InferencePerf().read(written(tmp_path, "result/per_request_lifecycle_metrics.json", rows))
    assert (found.ttft_s, found.e2e_s, found.failed) == ([0.25], [0.5], 1)
    assert found.stamps == {prompt(1): [10_250_000_000, 10_500_000_000]}


def test_guidellm_is_read_from_its_successful_requests(tmp_path: Path) -> None:
    good = {"time_to_first_token_ms": 51.0, "request_latency": 1.5}
    told = {"benchmarks": [{"requests": {"successful": [good], "errored": [{}], "incomplete": []}}]}
    found = GuideLLM().read(written(tmp_path, "result.json", told))
    assert (found.ttft_s, found.e2e_s, found.failed) == ([0.051], [1.5], 1)


def test_aiperf_is_read_from_its_records(tmp_path: Path) -> None:
    record = {
        "metadata": {"session_num": 1, "request_start_ns": 5_000_000_000},
        "metrics": {
            "time_to_first_token": {"value": 50.0},
            "request_latency": {"value": 80.0},
            "inter_chunk_latency": {"value": [10.0]},
        },
    }
    lines = json.dumps(record) + "\n" + json.dumps({"error": {"code": 500}}) + "\n"
    found = AIPerf().read(written(tmp_path, "result/profile_export.jsonl", lines))
    assert (found.ttft_s, found.e2e_s, found.failed) == ([0.05], [0.08], 1)
    first, second = found.stamps[prompt(1)]
    ((sent, ended),) = found.flights
    assert (first - sent, second - sent, ended - sent) == (50_000_000, 60_000_000, 80_000_000)


@pytest.mark.parametrize("program", [one for one in PROGRAMS if one.rival], ids=short)
def test_a_rival_without_a_result_is_unreadable(program: Program, tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        program.read(task(tmp_path))


@pytest.mark.parametrize("program", [one for one in PROGRAMS if one.rival], ids=short)
def test_the_tables_name_the_version_that_is_pinned(program: Program) -> None:
    words = program.name.split()
    (pins,) = PINS.glob(f"{words[-2] if words[0] != 'vllm' else 'bench-serve'}-{words[-1]}.txt")
    if words[0] != "vllm":  # its version is that of the real engine, the pins are what its command needs more
        assert f"{words[0]}=={words[-1]}" in pins.read_text("utf-8").splitlines()
