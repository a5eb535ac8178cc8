"""The journal: every event survives the way to the disk and back, and damage is named by its line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from journals import WHAT, around, make_events, make_plan, make_record, restored, saved

from runner.record import events
from runner.record.directory import JOURNAL, PLAN, write_whole
from runner.record.journal import JournalError, JournalWriter, read_journal
from runner.record.record import build_record, read_record

Damage = Callable[[list[bytes]], list[bytes]]


def written(folder: Path) -> tuple[Path, list[events.Event]]:
    plan = make_plan(folder)
    journal = list(make_events(plan))
    path = folder / JOURNAL
    with JournalWriter(path) as writer:
        for event in journal:
            writer(event)
    (folder / PLAN).write_text(plan.model_dump_json(by_alias=True))
    return path, journal


def test_every_event_comes_back_as_it_went(tmp_path: Path) -> None:
    path, journal = written(tmp_path)
    assert list(read_journal(path)) == journal
    assert all(json.loads(line)["n"] == number for number, line in enumerate(path.read_text().splitlines()))


def test_each_event_is_on_disk_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    with JournalWriter(path) as writer:
        for number in range(3):
            writer(events.Interrupted(signal="SIGINT"))
            assert len(path.read_text().splitlines()) == number + 1


def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    with pytest.raises(FileExistsError):
        JournalWriter(path)


def test_a_last_line_cut_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    path, journal = written(tmp_path)
    text = path.read_bytes()
    path.write_bytes(text[:-20])
    assert list(read_journal(path)) == journal[:-1]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [*lines[:5], b'{"n":5,"event":"no-such-event"}', *lines[6:]], r"journal\.jsonl:6: not an event"),
        (lambda lines: [*lines[:5], b"\xff\xfe", *lines[6:]], r"journal\.jsonl:6: not an event"),
        (lambda lines: [*lines[:5], *lines[6:]], r"journal\.jsonl:6: event 6 where event 5 was expected"),
        (lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]], r"journal\.jsonl:6: event 6 where event 5"),
        (lambda lines: [*lines[:5], b"[]", *lines[6:]], r"journal\.jsonl:6: not an event"),
    ],
    ids=["unknown", "bytes", "gap", "order", "shape"],
)
def test_damage_is_named_by_its_line(tmp_path: Path, damage: Damage, words: str) -> None:
    path, _ = written(tmp_path)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(damage(lines)) + b"\n")
    with pytest.raises(JournalError, match=words):
        list(read_journal(path))


def test_half_a_surrogate_pair_does_not_end_a_run(tmp_path: Path) -> None:
    odd = events.OutputSeen(output_id="x", text="half \ud800 pair", reasoning="", token_ids=None)
    korean = events.OutputSeen(output_id="y", text="한국어", reasoning="", token_ids=None)
    path = tmp_path / JOURNAL
    with JournalWriter(path) as writer:
        writer(odd)
        writer(korean)
    assert list(read_journal(path)) == [odd, korean]
    assert "한국어" in path.read_text(encoding="utf-8")
    write_whole(tmp_path / "report.md", "half \ud800 pair")
    assert (tmp_path / "report.md").read_text() == "half \\ud800 pair"


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"plan\.json cannot be read: No such file .* is .* a run directory\?"):
        read_record(tmp_path)
    (tmp_path / PLAN).write_text("{}")
    with pytest.raises(JournalError, match="is not a plan of this version"):
        read_record(tmp_path)


def test_a_record_needs_a_beginning_and_has_one(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    journal = list(make_events(plan))
    with pytest.raises(JournalError, match="empty"):
        build_record(plan, [])
    with pytest.raises(JournalError, match="does not begin with run-started"):
        build_record(plan, journal[1:])
    with pytest.raises(JournalError, match="begins twice"):
        build_record(plan, [journal[0], journal[0]])
    with pytest.raises(JournalError, match="on #1 was never started"):
        build_record(plan, [journal[0], events.EngineStopped(arm="on", replicate=1, how="", exit_code=0)])


def test_the_record_holds_what_the_journal_said(tmp_path: Path) -> None:
    written(tmp_path)
    record = read_record(tmp_path)
    assert [(one.arm, len(one.rounds)) for one in record.engines] == [("off", 7), ("on", 7)]
    [first] = record.rounds("on", "sequential", 1)
    assert [len(first.of_role(role)) for role in ("excluded", "measured", "warm-up")] == [1, 9, 0]
    assert len(record.rounds("off", "load", 16)) == 2
    assert all(one.before and one.after and one.finished and one.samples for one in record.all_rounds())


def test_what_was_saved_put_back_and_warned_of_survives_the_disk(tmp_path: Path) -> None:
    warned = events.Warned(source="API server", about="deployments/qwen", text="managed with kubectl apply")
    other = saved(what="Service demo/qwen", existed=False, facts={}, artifact=None)
    plan = make_plan(tmp_path)
    journal = list(around([saved(), other, warned], [restored()])(list(make_events(plan))))
    with JournalWriter(tmp_path / JOURNAL) as writer:
        for event in journal:
            writer(event)
    (tmp_path / PLAN).write_text(plan.model_dump_json(by_alias=True))
    record = read_record(tmp_path)
    assert [(one.saved, one.restored) for one in record.baselines] == [(saved(), restored()), (other, None)]
    assert record.warnings == [warned] and record.finished is not None
    assert make_record(tmp_path).baselines == make_record(tmp_path).warnings == []


def test_the_last_restore_counts_and_one_without_a_beginning_is_damage(tmp_path: Path) -> None:
    failed = restored(restored=False, reason="Conflict", by_hand="by this")
    record = make_record(tmp_path, change=around([saved()], [failed]))
    assert record.baselines[0].by_hand == "by this"
    record = make_record(tmp_path, change=around([saved()], [failed, restored()]))
    assert record.baselines[0].restored == restored()
    with pytest.raises(JournalError, match=f"{WHAT} was restored and had never been saved"):
        make_record(tmp_path, change=around([], [restored()]))


def test_probes_and_the_proof_are_no_measurements(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    journal = list(make_events(plan))
    place = next(index for index, event in enumerate(journal) if isinstance(event, events.RoundStarted))
    model = next(event for event in journal if isinstance(event, events.RequestDone))
    for role in ("probe", "proof"):
        journal.insert(place, model.model_copy(update={"role": role, "phase": "start", "concurrency": 1, "round": 0}))
    record = build_record(plan, journal)
    assert {round_.phase for round_ in record.all_rounds()} == {"sequential", "load"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"body_id": "zzz"}, "names the body zzz, which the journal does not hold"),
        ({"output_id": "zzz"}, "names the output zzz, which the journal does not hold"),
    ],
)
def test_a_request_names_what_the_journal_holds(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    plan = make_plan(tmp_path)
    journal = [
        event.model_copy(update=fields) if isinstance(event, events.RequestDone) else event
        for event in make_events(plan)
    ]
    with pytest.raises(JournalError, match=words):
        build_record(plan, journal)


def test_a_verdict_that_does_not_exist_is_damage(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    path.write_text(path.read_text().replace('"verdict":"ok"', '"verdict":"nice"', 1))
    with pytest.raises(JournalError, match="not an event"):
        list(read_journal(path))


AT = {"arm": "on", "replicate": 1, "phase": "load", "concurrency": 4, "round": 1, "engine": "pid 1"}


def gpu_sample(*gpus: tuple[float | None, float | None], error: str | None = None) -> events.GpuSampled:
    values = [
        events.GpuValues(index=index, utilization=busy, memory_mib=used) for index, (busy, used) in enumerate(gpus)
    ]
    return events.GpuSampled.model_validate({**AT, "at_ns": 5, "gpus": values, "error": error})


def test_of_several_gpus_memory_is_the_sum_and_utilization_the_mean() -> None:
    sample = gpu_sample((10, 100), (0, 50))
    assert (sample.utilization, sample.memory_mib) == (5.0, 150)
    assert (gpu_sample((0, 0)).utilization, gpu_sample((0, 0)).memory_mib) == (0.0, 0)


def test_what_one_gpu_does_not_say_is_not_added_up() -> None:
    sample = gpu_sample((10, 100), (None, None))
    assert (sample.utilization, sample.memory_mib) == (None, None)
    nothing = gpu_sample(error="GPU is lost")
    assert (nothing.utilization, nothing.memory_mib, nothing.why) == (None, None, "GPU is lost")


def test_gpus_are_kept_with_the_engine_and_with_the_round(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    engine = record.engines[1]
    assert engine.gpus is not None and engine.gpus.source == "NVML, driver 1"
    for round_ in engine.rounds:
        assert len(round_.gpu_samples) == len(round_.samples) == 12
        assert round_.others is not None and round_.others.others == []
