"""`findings`: one row per check and finding (article, section 10)."""

from runner.checks.finding import Finding
from runner.report.markdown import escape
from runner.report.table import Source, Table, table


@table("findings")
def findings(source: Source) -> list[Table]:
    """Columns: item, result: the judgement, what it is about, the figures."""
    words = source.words
    rows = [
        [
            words(f"check.{result.check}"),
            f"{words(f'judgement.{finding.judgement}')}. {finding_text(source, finding)}",
        ]
        for result in source.results
        for finding in result.findings
    ]
    return [Table("findings", [words("item"), words("result")], rows, ["left", "left"])] if rows else []


def finding_text(source: Source, finding: Finding) -> str:
    """A finding in words, safe in a cell."""
    text = source.words(finding.reason, **finding.figures)
    return escape(f"{finding.subject}: {text}" if finding.subject else text)
