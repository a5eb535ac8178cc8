"""The embedded engine shows what the recorded engines showed, but for the differences that are listed with a reason."""

from __future__ import annotations

import pytest
from fidelity_surface import (
    KINDS,
    NAMES,
    Listed,
    compared,
    differences,
    embedded_surface,
    listed,
    recorded_surface,
    rows,
    unlisted,
)

CASES = [(name, kind) for name in NAMES for kind in recorded_surface(name)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_surface_differs_only_as_listed(name: str, kind: str) -> None:
    found = differences(recorded_surface(name)[kind], embedded_surface(name)[kind])
    assert unlisted(name, kind, found) == []


@pytest.mark.parametrize("item", listed(), ids=lambda item: item.line)
def test_what_is_listed_occurs(item: Listed) -> None:
    assert any(item.covers(name, kind, line) for (name, kind), found in compared().items() for line in found)


def test_the_list_covers_no_line_that_is_equal_today() -> None:
    """Otherwise the loss of that line would go unseen."""
    wide = {
        (item.line, line)
        for name, kind in CASES
        for line in set(recorded_surface(name)[kind]) & set(embedded_surface(name)[kind])
        for item in listed()
        if item.covers(name, kind, f"- {line}") or item.covers(name, kind, f"+ {line}")
    }
    assert wide == set()


def test_every_kind_is_recorded_somewhere_and_every_reason_is_said() -> None:
    assert {kind for _, kind in CASES} == set(KINDS)
    assert all(item.kind in KINDS and len(item.reason) > 20 for item in listed())


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_a_new_and_a_moved_line_are_differences(kind: str) -> None:
    name = next(name for name in NAMES if kind in recorded_surface(name))
    kept = list(recorded_surface(name)[kind])
    assert differences(kept, kept[:-1]) == [f"- {kept[-1]}"]
    assert differences(kept, [*kept, "new"]) == ["+ new"]
    moved = differences(kept, [*kept[1:], kept[0]])
    assert sorted(moved) == sorted([f"+ {kept[0]}", f"- {kept[0]}"])


def test_rows_say_equal_or_how_much_is_listed() -> None:
    found = rows()
    assert [(row.recording, row.subject) for row in found] == CASES
    for row in found:
        assert row.verdict == "equal" or row.verdict.endswith("listed differences"), row
    equal = [row for row in found if row.verdict == "equal"]
    assert all(row.recorded == row.embedded for row in equal)
    assert {row.subject for row in equal} >= {"replies", "stream", "errors", "server_info"}
    # that it is simulated, and nothing else
    assert {row.verdict for row in found if row.subject == "models"} == {"1 listed differences"}
