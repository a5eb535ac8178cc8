"""`restore`: was the baseline put back? (article, section 6)."""

from runner.report.table import Source, Table, table


@table("restore")
def restore(source: Source) -> list[Table]:
    """What the target changed of what existed before the run, and how it was put back. The embedded engine starts
    processes of its own and changes nothing, so that nothing can be restored: which is not a pass."""
    words = source.words
    rows = [[words("baseline"), words("nothing-to-restore", target=source.record.started.target)]]
    return [Table("restore", [words("item"), words("result")], rows, ["left"] * 2)]
