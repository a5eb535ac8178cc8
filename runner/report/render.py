"""The report as Markdown, by the template that ships with the runner."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runner.checks.finding import Result
from runner.record.record import Record
from runner.report.client_times import client_times_notes
from runner.report.contents import contents
from runner.report.footnotes import footnotes
from runner.report.gaps import computed_gaps
from runner.report.glossary import glossary
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
    shown = [_shown(source, one) for one in tables]
    sections = ["verdicts", "tables", "not-checked", "provenance"]
    parts = {
        "words": source.words,
        "title": escape(record.plan.title),
        "simulated": record.simulated,
        "verdicts": verdicts(source, results),
        "tables": shown,
        "contents": contents(
            [(one.key, one.heading) for one in shown],
            [*map(source.words, sections[:2]), *(one.heading for one in shown), *map(source.words, sections[2:])],
        ),
        "author_notes": [escape(note) for note in record.plan.notes.not_checked],
        "gaps": computed_gaps(source, empty),
        "provenance": provenance(source),
    }
    template = _environment().get_template(_REPORT)
    text = template.render(**parts, glossary=[])
    return template.render(**parts, glossary=glossary(source.words, text)).rstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class _Shown:
    """A table as the template needs it: its id, its heading, Markdown, and what stands below."""

    key: str
    heading: str
    markdown: str
    notes: list[str]


def _shown(source: Source, table: Table) -> _Shown:
    subject = f": {table.subject}" if table.subject else ""
    mark = " — simulated" if source.record.simulated else ""
    rows, notes = footnotes(table.rows)
    return _Shown(
        table.key,
        f"{source.words(f'table.{table.key}')}{subject} (`{table.key}`){mark}",
        render_table(table.columns, table.alignment, rows),
        [*notes, *table.notes, *client_times_notes(source, table)],
    )


def render_tables(record: Record, results: list[Result], names: Sequence[str], language: str | None = None) -> str:
    """Some tables alone, as they stand in the report; one that has nothing to show says so."""
    source = Source(record, results, Words(language or record.plan.language))
    load_tables()
    template = _environment().get_template(_TABLE)
    parts = []
    for name in names:
        made = TABLES[name](source)
        parts += [template.render(table=_shown(source, one)) for one in made]
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
