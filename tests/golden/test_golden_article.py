"""The published measurement's raw figures, through the report: every cell that its text prints comes out.

Inputs (`article_measurements.yaml`) and expected cells (`article_tables.yaml`) are two files; no expected cell is
computed from an input.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from article_record import HERE, article_record, measurements
from ruamel.yaml import YAML

from runner.checks.registry import run_checks
from runner.record.record import Record
from runner.report.table import TABLES, Source, Table, load_tables
from runner.report.words import Words
from runner.spec.tables import TABLE_IDS

EXPECTED: dict[str, Any] = YAML(typ="safe").load((HERE / "article_tables.yaml").read_text("utf-8"))
EXCEPTIONS = {(one["table"], tuple(one["key"]), one["column"]): one for one in EXPECTED["exceptions"]}
CELLS = [
    (name, tuple(row["key"]), column, cell)
    for name, rows in EXPECTED["tables"].items()
    for row in rows
    for column, cell in row.items()
    if column != "key"
]


def tables_of(record: Record) -> list[Table]:
    load_tables()
    source = Source(record, run_checks(record), Words("ko"))
    return [one for name in TABLE_IDS for one in TABLES[name](source)]


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    return tables_of(article_record(measurements()))


def plain(cell: str) -> str:
    """A cell without its Markdown."""
    return re.sub(r"\\(.)", r"\1", cell.replace("`", "").replace("**", "").replace('"', ""))


def found(tables: list[Table], name: str, key: tuple[str, ...], column: str) -> str:
    """The cell of a table (of `off`, where a condition has one each), by its row's first cells and its heading."""
    [table] = [one for one in tables if one.key == name and one.subject in ("", "off")]
    [row] = [row for row in table.rows if tuple(plain(cell) for cell in row[: len(key)]) == key]
    return plain(row[list(table.columns).index(column)])


@pytest.mark.parametrize(("name", "key", "column", "cell"), CELLS)
def test_the_articles_cell_comes_out(
    tables: list[Table], name: str, key: tuple[str, ...], column: str, cell: str
) -> None:
    exception = EXCEPTIONS.get((name, key, column))
    shown = found(tables, name, key, column)
    if exception is None:
        assert shown == cell
    else:
        assert shown == exception["ours"] != cell, exception["reason"]


def test_every_exception_is_of_a_cell_that_the_article_prints() -> None:
    assert set(EXCEPTIONS) <= {(name, key, column) for name, key, column, _ in CELLS}
    assert all(one["reason"] for one in EXPECTED["exceptions"])
    assert len(EXCEPTIONS) < len(CELLS) / 5


def test_every_cell_of_a_compared_table_is_compared() -> None:
    assert set(EXPECTED["columns"]) == set(EXPECTED["tables"])
    for name, rows in EXPECTED["tables"].items():
        due = set(EXPECTED["columns"][name]) - ({"내용"} if name in EXPECTED["reworded"] else set())
        for row in rows:
            assert due <= set(row), (name, row["key"], due - set(row))


def test_what_the_article_says_twice_comes_out_once(tables: list[Table]) -> None:
    for one in EXPECTED["contradicted"]:
        shown = found(tables, one["table"], tuple(one["key"]), one["column"])
        assert shown == one["ours"] != one["article"], one


def test_every_table_is_compared_or_named() -> None:
    compared = {name.removesuffix("-change") for name in EXPECTED["tables"]}
    assert compared | set(EXPECTED["uncompared"]) == set(TABLE_IDS)
    assert not compared & set(EXPECTED["uncompared"])
    for one in EXPECTED["untested"]:
        keys = {tuple(row["key"]) for row in EXPECTED["tables"][one["table"]]}
        assert one["why"] and ("row" not in one or (one["row"],) in keys)


def test_the_tables_come_in_the_articles_order(tables: list[Table]) -> None:
    names = list(dict.fromkeys(one.key for one in tables))
    assert [name for name in names if name != "saturation-change"] == list(TABLE_IDS)


def test_what_the_article_concludes_is_said(tables: list[Table]) -> None:
    notes = {one.key: " ".join(one.notes) for one in tables}
    assert "운영 지점은 동시성 16이다" in notes["operating-point"]
    assert "C=4 → C=16: 배속이 회차 간 흔들림보다 크게 줄었다" in notes["speedup-rounds"]
    assert "C=16 → C=32: 회차의 폭이 겹친다" in notes["speedup-rounds"]
    assert "on C=4 2회차: 보낸 것보다 4건이 더 처리됐다" in notes["round-counts"]
    assert "다른 회차의 40와 같다" in notes["round-counts"]
    assert "C=32: 요청이 2번의 파도로 끝나" in notes["cross-check"]
    assert "복원이지 측정이 아니다" in notes["forward-model"]
