"""Each raw figure of the measurement, perturbed, changes the cells that depend on it, and no others."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from article_record import article_record, measurements
from test_golden_article import plain, tables_of

from runner.report.table import Table

Cell = tuple[str, str, str]
"""Table (with its condition, where it has one), the row's first cells, the column's heading."""


@dataclass(frozen=True)
class Field:
    """A raw figure: where it is, what it becomes, and the cells that it must and may change, as patterns."""

    path: tuple[Any, ...]
    changed: Any
    must: tuple[tuple[str, str, str], ...]
    may: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        return ".".join(map(str, self.path))


JUDGED = ("findings", ".*", ".*"), (".*", ".*", "회차 범위")
"""Sentences and words that follow figures: they change where a figure crosses a bound."""
NAMES = (".*", ".*", "조건|회차|동시성|C=\\d+|파생")
"""Marks (※) in the names of rows and columns."""
ON_THE_EDGE = ("off-on|saturation|derived: off", r"off C=16|off\|16|평균 지연", "평균 지연|C=16")
"""2.4815 s: the sums of the histogram before it decide its last digit."""


def sequential() -> Iterator[Field]:
    raw = measurements()["sequential"]
    for arm, columns in (("off", r"off \(.*"), ("on", r"on \(.*")):
        times = ("sequential-rounds", ".*", f"{arm} 소요")
        at1 = f"{arm} C=1"
        whole = (
            ("rounds", rf"{at1}\|1", "전체 소요|처리량|평균 지연"),
            ("off-on", at1, "전체 소요|처리량|평균 지연"),
            ("round-counts", f"{at1} 1회차", "Δsum"),
        )
        ratios = (
            ("summary", "1", "배속"),
            ("speedup", "1", "처리량 배속|지연 배속"),
            ("conversion", "평균 기준 배속|시간 감소율", "값"),
            ("forward-model", "측정 배속", "값"),
        )
        deviation = ("forward-model", "예측 ÷ 측정 − 1.*|같은 구간의 측정 배속", "값")
        table = "sequential-comparison"
        quantiles = ("latency", rf"{arm}\|1\|E2E", "p50|p90")
        yield Field(
            ("sequential", arm, "mean"),
            raw[arm]["mean"] * (0.994 if arm == "off" else 0.998),  # a mean that the minimum and the maximum allow
            (*whole, *ratios, (table, "평균|토큰당", columns), (table, "평균", "차이")),
            (times, quantiles, deviation, *JUDGED, ("conversion", ".*", "값")),
        )
        medians = (
            (table, "중앙값", f"{columns}|차이"),
            ("conversion", "중앙값 기준 배속", "값"),
            ("latency", rf"{arm}\|1\|E2E", "p50"),
        )
        yield Field(("sequential", arm, "median"), raw[arm]["median"] * 1.002, medians, (times, quantiles, *JUDGED))
        for name, row in (("min", "최소"), ("max", "최대")):
            lower = raw[arm][name] * (0.98 if name == "min" else 1.02)
            yield Field(("sequential", arm, name), lower, ((table, row, columns),), (times, quantiles, *JUDGED))
    yield Field(
        ("sequential", "on", "first"),
        5.0,
        (
            ("sequential-rounds", "1", "on 소요"),
            ("round-counts", "on C=1 1회차", "Δsum"),
            ("forward-model", "같은 구간의 측정 배속", "값"),
        ),
    )


def counters() -> Iterator[Field]:
    forward = "forward-model"
    yield Field(
        ("counters", "drafts"),
        84,
        (
            ("draft-counters", "draft 횟수", "값|해석"),
            ("draft-counters", "draft 토큰", "해석"),
            ("draft-counters", "draft당 평균 채택", "값|해석"),
            ("acceptance-positions", ".*", "해당 자리까지 맞힌 draft 비율"),
            ("acceptance-distribution", "0개", "draft 수|계산"),
            ("acceptance-distribution", "합계", "draft 수"),
            # Drafts cancel out of the predicted speed-up: completion tokens ÷ (completion tokens − accepted).
            (forward, "요청당 draft 스텝|나머지 토큰|draft 스텝이 만든 토큰|일반 스텝", "값"),
            (forward, "draft 스텝이 만든 토큰|나머지 토큰|on의 decode forward", "계산"),
        ),
        ((forward, ".*", ".*"),),
    )
    yield Field(
        ("counters", "draft_tokens"),
        410,
        (
            ("draft-counters", "draft 토큰", "값|해석"),
            ("draft-counters", "채택률", "값|해석"),
            ("acceptance-by-concurrency", "C=1", "채택률|요청당 draft 토큰"),
            ("round-counts", "on C=1 1회차", "Δdraft|채택률"),
        ),
        JUDGED,
    )
    yield Field(
        ("counters", "accepted"),
        330,
        (
            ("draft-counters", "채택 토큰", "값"),
            ("draft-counters", "채택률|draft당 평균 채택", "값|해석"),
            ("acceptance-distribution", "합계", "계산"),
            ("acceptance-by-concurrency", "C=1", "채택률"),
            ("round-counts", "on C=1 1회차", "Δaccepted|채택률"),
            (forward, "요청당 채택 토큰|나머지 토큰|draft 스텝이 만든 토큰|일반 스텝|예측 배속", "값"),
        ),
        ((forward, ".*", ".*"), *JUDGED),
    )
    for position, value in enumerate((72, 71, 69, 68, 58)):
        yield Field(
            ("counters", "positions", position),
            value,
            (
                ("acceptance-positions", str(position), "채택 횟수|해당 자리까지 맞힌 draft 비율"),
                ("acceptance-distribution", "합계", "계산"),
            ),
            (("acceptance-distribution|acceptance-positions", ".*", ".*"), *JUDGED),
        )
    yield Field(
        ("completion_tokens",),
        70,
        (
            ("sequential-comparison", "토큰당", r"(off|on) \(.*"),
            (forward, "나머지 토큰|일반 스텝|on의 decode forward|off의 decode forward|예측 배속", "값"),
            (forward, "나머지 토큰|on의 decode forward|예측 배속", "계산"),
        ),
        ((forward, ".*", ".*"), *JUDGED),
    )


def rounds() -> Iterator[Field]:
    for index, one in enumerate(measurements()["rounds"]):
        arm, level, number = one["condition"], one["concurrency"], one["round"]
        name, row = f"{arm} C={level}", f"{arm} C={level}( ※)? {number}회차( ※)?"
        derived, saturated = f"derived: {arm}", level in (16, 32)
        path = ("rounds", index)
        throughput = [
            ("rounds", rf"{name}( ※)?\|{number}", "전체 소요|처리량"),
            ("cross-check", row, "벽시계 역산|차이"),
            ("off-on", f"{name}( ※)?", "전체 소요|처리량"),
            (derived, "처리량", f"C={level}( ※)?"),
            ("summary", f"{level}( ※)?", "배속"),
            ("speedup", f"{level}( ※)?", "처리량 배속"),
            ("speedup-rounds", f"{level}( ※)?", f"{number}회차"),
            ("operating-point", f"{level}( ※)?", f"{arm} 처리량"),
        ]
        latency = [
            ("rounds", rf"{name}( ※)?\|{number}", "평균 지연"),
            ("cross-check", row, "histogram|차이"),
            ("off-on", f"{name}( ※)?", "평균 지연"),
            (derived, "평균 지연", f"C={level}( ※)?"),
            ("speedup", f"{level}( ※)?", "지연 배속"),
        ]
        if saturated:
            throughput += [("saturation", rf"{arm}\|{level}", "처리량"), ("saturation-change", "처리량", arm)]
            latency += [("saturation", rf"{arm}\|{level}", "평균 지연"), ("saturation-change", "평균 지연", arm)]
        if arm == "on":
            latency.append(("operating-point", f"{level}( ※)?", "on 지연"))
        # The requests of a round are made of its wall time and its mean latency.
        made = (
            ("latency", rf"{arm}\|{level}\|E2E", "p50|p90|p99"),
            ("client", rf"{arm}\|{level}", "달성한 동시 요청"),
        )
        yield Field((*path, "wall"), one["wall"] * 1.02, tuple(throughput), (*made, *JUDGED))
        sums = ("round-counts", row, "Δsum")
        mean = "mean_latency" if "mean_latency" in one else "delta_sum"
        yield Field((*path, mean), one[mean] * 1.02, (*latency, sums), (*made, *JUDGED))
        counts = (("round-counts", row, "Δcount"),)
        counts += (sums,) if mean == "mean_latency" else tuple(latency)
        if "draft_tokens" in one:
            counts += (("acceptance-by-concurrency", f"C={level}", "요청당 draft 토큰"),)
        yield Field((*path, "delta_count"), one["delta_count"] + 3, counts, (NAMES, ON_THE_EDGE, *made, *JUDGED))
        if "draft_tokens" in one:
            both = ("acceptance-by-concurrency", f"C={level}", "채택률|요청당 draft 토큰")
            yield Field(
                (*path, "draft_tokens"),
                one["draft_tokens"] + 100,
                (("round-counts", row, "Δdraft|채택률"), both),
                JUDGED,
            )
            rate = ("acceptance-by-concurrency", f"C={level}", "채택률")
            yield Field(
                (*path, "accepted"), one["accepted"] - 100, (("round-counts", row, "Δaccepted|채택률"), rate), JUDGED
            )


def resources() -> Iterator[Field]:
    for index, one in enumerate(measurements()["resources"]):
        arm, level = one["condition"], one["concurrency"]
        row = f"{arm} C={level}( ※)?"
        path = ("resources", index)
        for end, value in ((0, 10), (1, 60)):
            yield Field((*path, "utilization", end), value, (("resources", row, "GPU 사용률"),))
        cost = ("memory-cost", f"{level}( ※)?", "GPU memory 증가|실행 요청당")
        yield Field((*path, "memory"), one["memory"] + 40, (("resources", row, "GPU memory"), cost))
        running: tuple[tuple[str, str, str], ...] = (("resources", row, "running"),)
        if arm == "on":
            running += (("memory-cost", f"{level}( ※)?", "running|실행 요청당"),)
        yield Field((*path, "running"), one["running"] - 1, running, JUDGED)
        waiting: tuple[tuple[str, str, str], ...] = (("resources", row, "waiting"),)
        if arm == "on":
            waiting += (("operating-point", f"{level}( ※)?", "대기"),)
        # A queue moves the operating point.
        moved = (("resources", row, "대기 이유"), ("saturation.*|operating-point", ".*", ".*"))
        yield Field((*path, "waiting"), one["waiting"] + 3, waiting, (*moved, *JUDGED))


FIELDS = [*sequential(), *counters(), *rounds(), *resources()]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every figure of the inputs; what names a cell of the grid is none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("condition", "concurrency", "round", "requests"):
                yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def cells(tables: list[Table]) -> dict[Cell, str]:
    """Every cell. Rows with the same first cells get a number, in order."""
    found: dict[Cell, str] = {}
    for table in tables:
        name = f"{table.key}: {table.subject}" if table.subject else table.key
        keys = {"rounds": 2, "saturation": 2, "client": 2, "latency": 3}.get(table.key, 1)
        for row in table.rows:
            key = "|".join(plain(cell) for cell in row[:keys])
            number = sum((name, f"{key}#{n}" if n else key, table.columns[0]) in found for n in range(99))
            key = f"{key}#{number}" if number else key
            for column, cell in zip(table.columns, row, strict=True):
                found[name, key, column] = cell
    return found


def unmarked(found: dict[Cell, str]) -> dict[Cell, str]:
    """The same, with the marks of contamination taken out of the names, so that cells can be found again."""
    return {
        (name, key.replace(" ※", ""), column.replace(" ※", "")): cell for (name, key, column), cell in found.items()
    }


def fits(cell: Cell, patterns: tuple[tuple[str, str, str], ...]) -> bool:
    return any(all(re.fullmatch(p, part) for p, part in zip(pattern, cell, strict=True)) for pattern in patterns)


@pytest.fixture(scope="module")
def before() -> dict[Cell, str]:
    return unmarked(cells(tables_of(article_record(measurements()))))


def test_every_raw_figure_is_perturbed() -> None:
    assert {field.path for field in FIELDS} == set(leaves(measurements()))


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_figure_changes_the_cells_that_depend_on_it_and_no_others(before: dict[Cell, str], field: Field) -> None:
    figures = copy.deepcopy(measurements())
    place = figures
    for step in field.path[:-1]:
        place = place[step]
    place[field.path[-1]] = field.changed
    after = unmarked(cells(tables_of(article_record(figures))))
    changed = {cell for cell in {*before, *after} if before.get(cell) != after.get(cell)}
    due = {cell for cell in before if fits(cell, field.must)}
    for pattern in field.must:
        assert any(fits(cell, (pattern,)) for cell in before), f"no cell fits {pattern}"
    assert due - changed == set()
    assert {cell for cell in changed - due if not fits(cell, field.may)} == set()
