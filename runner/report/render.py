"""The report as Markdown, by the template that ships with the runner."""

from collections.abc import Sequence

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runner.checks.finding import Result
from runner.record.record import Record
from runner.report.gaps import computed_gaps
from runner.report.markdown import escape, render_table
from runner.report.provenance import provenance
from runner.report.table import TABLES, Source, Table, load_tables
from runner.report.verdicts import verdicts
from runner.report.words import Words
from runner.resources import resource

_REPORT = "report.md.j2"
_TABLE = "table.md.j2"


def render_report(record: Record, results: list[Result], language: str | None = None) -> str:
    """The whole report, ending in one newline. `language` overrides the spec's."""
    source = Source(record, results, Words(language or record.plan.language))
    load_tables()
    tables: list[Table] = []
    empty: list[str] = []
    for name in record.plan.tables:
        made = TABLES[name](source)
        tables += made
        if not made:
            empty.append(name)
    text = (
        _environment()
        .get_template(_REPORT)
        .render(
            words=source.words,
            title=escape(record.plan.title),
            simulated=record.started.simulated,
            verdicts=verdicts(source, results),
            tables=[(one, _markdown(one)) for one in tables],
            author_notes=[escape(note) for note in record.plan.notes.not_checked],
            gaps=computed_gaps(source, empty),
            provenance=provenance(source),
        )
    )
    return text.rstrip("\n") + "\n"


def render_tables(record: Record, results: list[Result], names: Sequence[str], language: str | None = None) -> str:
    """Some tables alone, as they stand in the report; one that has nothing to show says so."""
    source = Source(record, results, Words(language or record.plan.language))
    load_tables()
    template = _environment().get_template(_TABLE)
    parts = []
    for name in names:
        made = TABLES[name](source)
        parts += [
            template.render(words=source.words, table=one, markdown=_markdown(one), simulated=record.started.simulated)
            for one in made
        ]
        if not made:
            parts.append(source.words("gap-table", table=name) + "\n")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(resource("templates")),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _markdown(one: Table) -> str:
    return render_table(one.columns, one.alignment, one.rows)
