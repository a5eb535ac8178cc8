"""What existed before the run is in force again (article, section 6)."""

from collections.abc import Iterator

from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import BaselineRestored


@check(BaselineRestored)
def baseline_restored(record: Record, parameters: BaselineRestored) -> Iterator[Finding]:
    """Not applicable where the target changed nothing that existed before, which holds for every target of this
    version: never a pass."""
    del parameters
    yield Finding(Judgement.NOT_APPLICABLE, "nothing-to-restore", {"target": record.started.target})
