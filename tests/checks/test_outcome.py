"""Exit codes from records: which applies, and which wins."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from journals import Change, around, edit_events, make_record, restored, saved, without_series

from runner.checks import run_checks
from runner.checks.outcome import PRECEDENCE, applying_codes, outcome
from runner.engine import metrics
from runner.exit_code import ExitCode
from runner.record import events


def code(tmp_path: Path, change: Change = list) -> ExitCode:
    record = make_record(tmp_path, change=change)
    return outcome(record, run_checks(record))


def before_the_end(*added: events.Event) -> Change:
    return lambda journal: [*journal[:-1], *added, journal[-1]]


FAILED = events.EngineFailed(arm="on", replicate=1, stage="start", reason="gone", words=[])
REFUSED = events.Refused(arm="on", replicate=1, reasons=["no"])
INTERRUPTED = events.Interrupted(signal="SIGINT")
BROKEN = events.RunnerFailed(error="bug")
ONE_FAILED = edit_events(
    events.RequestDone, lambda e: e.model_copy(update={"verdict": "reset"}), lambda e: e.index == 9 and e.arm == "on"
)
OTHER_COUNT = edit_events(
    events.RequestDone, lambda e: e.model_copy(update={"completion_tokens": 1}), lambda e: e.index == 9
)
UNKNOWN = without_series(metrics.PROCESS_START)


def test_each_code_by_itself(tmp_path: Path) -> None:
    assert code(tmp_path) is ExitCode.HELD
    assert code(tmp_path, UNKNOWN) is ExitCode.INCONCLUSIVE
    assert code(tmp_path, OTHER_COUNT) is ExitCode.INVARIANT_FAILED
    assert code(tmp_path, ONE_FAILED) is ExitCode.INCOMPLETE
    assert code(tmp_path, before_the_end(REFUSED)) is ExitCode.NOT_IN_FORCE
    assert code(tmp_path, before_the_end(FAILED)) is ExitCode.ENGINE_DID_NOT_START
    assert code(tmp_path, before_the_end(INTERRUPTED)) is ExitCode.INTERRUPTED
    assert code(tmp_path, before_the_end(BROKEN)) is ExitCode.INTERNAL
    assert code(tmp_path, around([saved()])) is ExitCode.NOT_RESTORED
    assert code(tmp_path, around([saved()], [restored()])) is ExitCode.HELD


def test_what_is_left_changed_comes_before_everything(tmp_path: Path) -> None:
    bad = restored(restored=False, reason="gone")
    for last in ([], [bad], [restored(differences=["a: 1 → 2"])], [BROKEN, INTERRUPTED, FAILED, bad]):
        assert code(tmp_path, around([saved()], last)) is ExitCode.NOT_RESTORED

    def killed(journal: Any) -> Any:
        return [journal[0], saved(), *journal[1:20]]

    assert code(tmp_path, killed) is ExitCode.NOT_RESTORED
    record = make_record(tmp_path, change=killed)
    assert ExitCode.INCOMPLETE in applying_codes(record, run_checks(record))


def test_what_is_not_known_to_be_restored_is_inconclusive_and_not_said_to_be_changed(tmp_path: Path) -> None:
    unseen = events.Compared(fact="replies", before="yes", after=None, equal=None)
    assert code(tmp_path, around([saved()], [restored(unseen)])) is ExitCode.INCONCLUSIVE
    assert code(tmp_path, around([saved(existed=False, facts={})], [restored(compared=[])])) is ExitCode.HELD


def test_a_good_restore_hides_nothing(tmp_path: Path) -> None:
    assert code(tmp_path, around([saved()], [INTERRUPTED, restored()])) is ExitCode.INTERRUPTED
    assert code(tmp_path, around([saved()], [FAILED, restored()])) is ExitCode.ENGINE_DID_NOT_START


def test_an_engine_that_dies_under_load_is_incomplete_and_not_a_failed_start(tmp_path: Path) -> None:
    died = FAILED.model_copy(update={"stage": "run"})
    record = make_record(tmp_path, change=before_the_end(died))
    assert ExitCode.ENGINE_DID_NOT_START not in applying_codes(record, run_checks(record))


def test_the_first_of_the_precedence_wins(tmp_path: Path) -> None:
    steps: list[tuple[ExitCode, events.Event]] = [
        (ExitCode.INTERNAL, BROKEN),
        (ExitCode.INTERRUPTED, INTERRUPTED),
        (ExitCode.ENGINE_DID_NOT_START, FAILED),
        (ExitCode.NOT_IN_FORCE, REFUSED),
    ]
    for (first, event), (_, weaker) in pairwise(steps):
        assert code(tmp_path, before_the_end(event, weaker)) is first

    def both(journal: Any) -> Any:
        return list(UNKNOWN(list(OTHER_COUNT(journal))))

    assert code(tmp_path, both) is ExitCode.INVARIANT_FAILED

    def incomplete(journal: Any) -> Any:
        return list(ONE_FAILED(list(OTHER_COUNT(journal))))

    assert code(tmp_path, incomplete) is ExitCode.INCOMPLETE

    def refused(journal: Any) -> Any:
        return before_the_end(REFUSED)(list(ONE_FAILED(journal)))

    assert code(tmp_path, refused) is ExitCode.NOT_IN_FORCE


def test_precedence_ranks_every_code_of_a_finished_run() -> None:
    assert set(PRECEDENCE) == set(ExitCode) - {ExitCode.INVALID}
    assert len(PRECEDENCE) == len(set(PRECEDENCE))


def test_an_inconclusive_invariant_is_allowed_only_where_the_spec_says_so(tmp_path: Path) -> None:
    def allowed(spec: Any) -> Any:
        return spec["invariants"].update({"one-engine-process": {"allow-inconclusive": True}})

    record = make_record(tmp_path, allowed, change=UNKNOWN)
    assert outcome(record, run_checks(record)) is ExitCode.HELD


def test_failed_requests_up_to_max_failed_leave_the_cell_complete(tmp_path: Path) -> None:
    def allowed(spec: Any) -> Any:
        # The engine's mean latency is not known where it may have finished a failed request.
        del spec["invariants"]["latency-cross-check"]
        return spec.update({"limits": {"max-failed": 2}})

    record = make_record(tmp_path, allowed, change=ONE_FAILED)
    assert outcome(record, run_checks(record)) is ExitCode.HELD

    def allowed(spec: Any) -> Any:
        return spec.update({"limits": {"max-failed": 1}})

    record = make_record(tmp_path, allowed, change=ONE_FAILED)
    assert outcome(record, run_checks(record)) is ExitCode.INCOMPLETE


def test_a_journal_that_ends_early_is_incomplete(tmp_path: Path) -> None:
    def cut(journal: Any) -> Any:
        return journal[: len(journal) // 2]

    assert code(tmp_path, cut) is ExitCode.INCOMPLETE


def test_a_whole_journal_without_its_end_is_not_held(tmp_path: Path) -> None:
    assert code(tmp_path, lambda journal: journal[:-1]) is ExitCode.INCOMPLETE
