"""What the report says of GPUs: whose they are, who else was on them, and why there is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from journals import Change, edit_events, make_record

from runner.checks.finding import Judgement
from runner.checks.registry import run_checks
from runner.record import events
from runner.record.record import Record
from runner.report.gaps import computed_gaps
from runner.report.provenance import provenance
from runner.report.result import render_result
from runner.report.table import TABLES, Source, Table, load_tables
from runner.report.words import Words

OTHER = events.OtherProcess(pid=4242, gpu=0, name="/usr/bin/python3", memory_mib=1234.0, before=False)


def source(record: Record, language: str = "en") -> Source:
    load_tables()
    return Source(record, run_checks(record), Words(language))


def tables(name: str, record: Record, language: str = "en") -> Table:
    of = source(record, language)
    [table] = TABLES[name](of)
    return table


def resources(record: Record, language: str = "en") -> Table:
    return tables("resources", record, language)


def row(table: Table, cell: str) -> list[str]:
    [found] = [one for one in table.rows if one[0].removesuffix(" †") == cell]
    return list(found)


def seen(arm: str, level: int, number: int, *others: events.OtherProcess, unknown: str | None = None) -> Change:
    return edit_events(
        events.OthersSeen,
        lambda event: event.model_copy(update={"others": list(others), "unknown": unknown}),
        lambda event: (event.arm, event.concurrency, event.round) == (arm, level, number),
    )


def gpus(**fields: Any) -> Change:
    return edit_events(events.GpusFound, lambda event: event.model_copy(update=fields))


def values(*of_one: tuple[float | None, float | None], error: str | None = None) -> Change:
    """Every sample has these GPUs, by utilization and memory."""
    each = [
        events.GpuValues(index=index, utilization=busy, memory_mib=used, error=error)
        for index, (busy, used) in enumerate(of_one)
    ]
    return edit_events(events.GpuSampled, lambda event: event.model_copy(update={"gpus": each}))


def both(*changes: Change) -> Change:
    def changed(journal: list[events.Event]) -> Iterable[events.Event]:
        for change in changes:
            journal = list(change(journal))
        return journal

    return changed


def marked(record: Record) -> list[str]:
    return [one[0] for one in resources(record).rows if "†" in one[0]]


def test_a_run_alone_on_its_gpu_has_no_mark_and_no_word_of_others(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    table = resources(record)
    assert row(table, "on C=16")[1:3] == ["30%", "5,400 MiB"]
    assert marked(record) == []
    assert [note for note in table.notes if "process" in note] == []
    assert "The GPUs were read every 0.154 to 2.308 s." in " ".join(table.notes)


def test_a_stranger_marks_the_cell_and_is_named(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=seen("on", 16, 1, OTHER))
    assert marked(record) == ["on C=16 †"]
    notes = [note for note in resources(record).notes if note.startswith("†")]
    assert notes == [
        "† on C=16: other processes were on the GPUs: pid 4242 on GPU 0 (/usr/bin/python3, 1,234 MiB). The GPUs' "
        "figures include them, and so may the times."
    ]
    cost = tables("memory-cost", record)
    assert [one[0] for one in cost.rows] == ["1", "4", "16 †", "32"]
    assert notes[0] in cost.notes


def test_who_is_there_when_a_round_ends_is_there_when_the_next_begins(tmp_path: Path) -> None:
    assert marked(make_record(tmp_path, change=seen("on", 16, 2, OTHER))) == ["on C=16 †", "on C=32 †"]
    # Whoever is there when the engine first answers is in its first round.
    assert marked(make_record(tmp_path, change=gpus(others=[OTHER]))) == ["off C=1 †", "on C=1 †"]


def test_who_came_and_went_within_a_round_marks_no_other(tmp_path: Path) -> None:
    gone = edit_events(
        events.OthersSeen,
        lambda event: event.model_copy(update={"gone": [OTHER]}),
        lambda event: (event.arm, event.concurrency, event.round) == ("on", 16, 2),
    )
    assert marked(make_record(tmp_path, change=gone)) == ["on C=16 †"]


@pytest.mark.parametrize(
    ("name", "memory", "words"),
    [(None, None, "(name not known, memory not known)"), ("<b>|`x`_y_", 1.0, "(&lt;b&gt;|\\`x\\`\\_y\\_, 1 MiB)")],
)
def test_what_is_not_known_of_a_stranger_and_what_it_calls_itself(
    tmp_path: Path, name: str | None, memory: float | None, words: str
) -> None:
    odd = OTHER.model_copy(update={"name": name, "memory_mib": memory})
    notes = " ".join(resources(make_record(tmp_path, change=seen("on", 16, 1, odd))).notes)
    assert f"pid 4242 on GPU 0 {words}" in notes


def test_strangers_that_cannot_be_excluded_are_said_once(tmp_path: Path) -> None:
    why = "the driver lists 0 processes there and none under an id of the engine's"
    unknown = edit_events(events.OthersSeen, lambda event: event.model_copy(update={"unknown": why}))
    record = make_record(tmp_path, change=unknown)
    assert marked(record) == []
    notes = [note for note in resources(record).notes if "excluded" in note]
    assert notes == [f"off, on: other processes on the GPUs cannot be excluded: {why}."]
    cost = tables("memory-cost", record)
    assert [note for note in cost.notes if "excluded" in note] == []


def test_a_record_in_which_nobody_looked_does_not_say_that_nobody_was_there(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=edit_events(events.OthersSeen, lambda _: None))
    assert "off, on: whether other processes were on the GPUs is not in the record." in resources(record).notes


@pytest.mark.parametrize(("fails", "shown"), [((10, 11), False), ((4, 5), True), ((11,), False)])
def test_a_round_whose_gpus_are_lost_before_its_end_has_no_figure(
    tmp_path: Path, fails: tuple[int, ...], shown: bool
) -> None:
    """Enough samples are left, but of a part of the round; one that fails between others leaves the whole."""

    def lose(journal: list[events.Event]) -> Iterable[events.Event]:
        number = 0
        for event in journal:
            if isinstance(event, events.GpuSampled) and (event.arm, event.concurrency, event.round) == ("on", 16, 2):
                yield event.model_copy(update={"gpus": [], "error": "NVML is gone"}) if number in fails else event
                number += 1
            else:
                yield event

    record = make_record(tmp_path, change=lose)
    why = "– (the GPU could not be read: NVML is gone)"
    assert row(resources(record), "on C=16")[1:3] == (["30%", "5,400 MiB"] if shown else [why, why])
    assert row(resources(record), "on C=4")[2] == "5,100 MiB"
    [memory] = [one for one in run_checks(record) if one.check == "memory-per-running"]
    assert memory.judgement is (Judgement.PASS if shown else Judgement.INCONCLUSIVE)


def test_several_gpus_are_a_sum_and_a_mean(tmp_path: Path) -> None:
    two = [events.GpuFound(index=n, uuid=f"GPU-{n}", name="H200", total_mib=1.0, before_mib=0.0) for n in (0, 1)]
    table = resources(make_record(tmp_path, change=both(gpus(gpus=two), values((10.0, 1000.0), (40.0, 500.0)))))
    assert row(table, "on C=16")[1:3] == ["25%", "1,500 MiB"]
    assert "on: 2 GPUs, of which memory is the sum and utilization the mean." in table.notes
    assert "GPUs, of which" not in " ".join(resources(make_record(tmp_path)).notes)


def test_a_sum_without_one_of_its_parts_is_absent(tmp_path: Path) -> None:
    table = resources(make_record(tmp_path, change=values((10.0, 1000.0), (None, None), error="GPU is lost")))
    assert row(table, "on C=16")[1:3] == ["– (the GPU could not be read: GPU is lost)"] * 2


def test_doubt_whose_gpu_it_is_stands_under_the_table(tmp_path: Path) -> None:
    assert (
        "on: it may be another one."
        in resources(make_record(tmp_path, change=gpus(doubt="it may be another one"))).notes
    )


NOT_SAMPLED = both(edit_events(events.GpuSampled, lambda _: None), edit_events(events.OthersSeen, lambda _: None))


def gap(record: Record) -> list[str]:
    return [one for one in computed_gaps(source(record), []) if "GPU" in one and "utilization" in one]


def test_the_gap_says_why(tmp_path: Path) -> None:
    reason = "NVML: NVML Shared Library Not Found; nvidia-smi: not on PATH"
    none = gpus(reason=reason, unknown=reason, gpus=[], source=None)
    assert gap(make_record(tmp_path)) == []
    assert gap(make_record(tmp_path, change=both(none, NOT_SAMPLED))) == [f"GPU utilization and memory: {reason}"]
    without = both(edit_events(events.GpusFound, lambda _: None), NOT_SAMPLED)
    assert gap(make_record(tmp_path, change=without)) == ["GPU utilization and memory: not sampled"]


def test_the_gap_says_whose_where_others_were_sampled(tmp_path: Path) -> None:
    only_on = edit_events(
        events.GpusFound, lambda e: e.model_copy(update={"reason": "why", "gpus": []}), lambda e: e.arm == "on"
    )
    record = make_record(
        tmp_path, change=both(only_on, edit_events(events.GpuSampled, lambda _: None, lambda e: e.arm == "on"))
    )
    assert gap(record) == ["GPU utilization and memory of `on`: why"]
    assert row(resources(record), "on C=16")[1] == "– (no GPU was sampled)"
    assert row(resources(record), "off C=16")[1] == "30%"


def test_where_the_figures_came_from(tmp_path: Path) -> None:
    facts = dict(provenance(source(make_record(tmp_path))))
    assert facts["`on` #1 GPUs"] == "0 H200 (GPU-1, 100,000 MiB), memory in use before the start 0 MiB; NVML, driver 1"
    unknown = [events.GpuFound(index=0, uuid="GPU-1", name=None, total_mib=None, before_mib=None)]
    facts = dict(provenance(source(make_record(tmp_path, change=gpus(gpus=unknown)))))
    assert facts["`on` #1 GPUs"] == "0 ? (GPU-1, unknown), memory in use before the start unknown; NVML, driver 1"


def result_gpu(record: Record, arm: str, level: int) -> Any:
    result = json.loads(render_result(record, run_checks(record)))
    [cell] = [one for one in result["cells"] if (one["condition"], one["concurrency"]) == (arm, level)]
    return cell["gpu"]


def test_the_result_for_programs_has_the_marks(tmp_path: Path) -> None:
    alone = result_gpu(make_record(tmp_path), "on", 16)
    assert alone["memory_mib"] == {"median": 5400.0, "low": 5400.0, "high": 5400.0, "samples": 24}
    assert alone["utilization"]["median"] == 30.0
    assert (alone["others"], alone["others_unknown"]) == ([], None)
    shared = make_record(tmp_path, change=seen("on", 16, 1, OTHER, unknown="ids differ"))
    assert result_gpu(shared, "on", 16)["others"] == [OTHER.model_dump()]
    assert result_gpu(shared, "on", 16)["others_unknown"] == {"absent": "gpu-others-unknown", "why": "ids differ"}
    unknown = result_gpu(make_record(tmp_path, change=seen("on", 16, 1, unknown="ids differ")), "on", 16)
    assert unknown["others"] == unknown["others_unknown"] == {"absent": "gpu-others-unknown", "why": "ids differ"}
    assert result_gpu(make_record(tmp_path, change=NOT_SAMPLED), "on", 16)["memory_mib"] == {
        "absent": "gpu-not-sampled"
    }


def test_in_korean_too(tmp_path: Path) -> None:
    table = resources(make_record(tmp_path, change=seen("on", 16, 1, OTHER)), "ko")
    assert "† on C=16: 같은 GPU에 다른 프로세스가 있었다: GPU 0의 pid 4242 (/usr/bin/python3, 1,234 MiB)." in " ".join(
        table.notes
    )


def test_a_tenant_that_is_known_by_its_name_alone_is_named(tmp_path: Path) -> None:
    tenant = OTHER.model_copy(update={"pid": None, "name": "pod other/trainer_1", "memory_mib": None})
    second = tenant.model_copy(update={"name": "pod other/second"})
    record = make_record(tmp_path, change=seen("on", 16, 1, OTHER, tenant, second, tenant))
    assert marked(record) == ["on C=16 †"]
    [note] = [note for note in resources(record).notes if note.startswith("†")]
    assert note.startswith(
        "† on C=16: other processes were on the GPUs: pid 4242 on GPU 0 (/usr/bin/python3, 1,234 MiB), "
        "pod other/trainer_1 on GPU 0 (memory not known), pod other/second on GPU 0 (memory not known). "
    )
    [result] = [one for one in run_checks(record) if one.check == "memory-per-running"]
    [finding] = [one for one in result.findings if one.subject == "on C=16"]
    assert finding.figures == {"who": "pid 4242, pod other/trainer_1, pod other/second"}
    named = make_record(tmp_path, change=seen("on", 16, 1, tenant))
    [result] = [one for one in run_checks(named) if one.check == "memory-per-running"]
    assert [one.figures for one in result.findings if one.reason == "gpu-shared"] == [{"who": "pod other/trainer_1"}]
    cells = json.loads(render_result(named, [result]))["cells"]
    [cell] = [one for one in cells if (one["condition"], one["concurrency"]) == ("on", 16)]
    assert [(one["pid"], one["name"]) for one in cell["gpu"]["others"]] == [(None, "pod other/trainer_1")]
