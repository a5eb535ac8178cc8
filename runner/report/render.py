"""The report as Markdown, by the template that ships with the runner."""

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

_TEMPLATE = "report.md.j2"


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
    environment = Environment(
        loader=FileSystemLoader(resource("templates")),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = environment.get_template(_TEMPLATE).render(
        words=source.words,
        title=escape(record.plan.title),
        simulated=record.started.simulated,
        verdicts=verdicts(source, results),
        tables=[(one, _markdown(one)) for one in tables],
        author_notes=[escape(note) for note in record.plan.notes.not_checked],
        gaps=computed_gaps(source, empty),
        provenance=provenance(source),
    )
    return text.rstrip("\n") + "\n"


def _markdown(one: Table) -> str:
    return render_table(one.columns, one.alignment, one.rows)
