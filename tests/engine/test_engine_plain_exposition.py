"""What the fast reader of Prometheus text takes, it reads as the library does; the rest it leaves to the library."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.engine import exposition
from runner.engine.exposition import ExpositionError, parse
from runner.engine.plain_exposition import Family, families

RECORDINGS = Path(__file__).parents[1] / "recordings"
SCRAPES = sorted(RECORDINGS.rglob("*.prom"))

PLAIN = """\
# HELP a_total Things. Of {which} there are, many
# TYPE a_total counter
a_total{x="1",engine="0"} 3.0
a_total{engine="1",x=""} 4
# HELP b Without the suffix.
# TYPE b counter
b 7.0
# TYPE h histogram
h_bucket{le="0.5"} 1.0
h_bucket{le="+Inf"} 2.0
h_count 2.0
h_sum 1.5e-05
# TYPE g gauge
g{m="a, b=c} {d"} NaN
g -Inf

# TYPE s summary
s{q="0.5"} 1
s_sum 2
s_count 3
stray{y="2"} 5
stray 6
# HELP lonely Nothing follows.
# HELP untyped_one A word.
untyped_one 1
"""


def by_the_library(text: str) -> list[Family] | None:
    try:
        return [
            Family(one.name, one.type, [(s.name, tuple(sorted(s.labels.items())), float(s.value)) for s in one.samples])
            for one in text_string_to_metric_families(text)
        ]
    except Exception:
        return None


def same(text: str) -> bool:
    """Whether it is plain; if so both read the same of it."""
    found = families(text.split("\n"))
    if found is None:
        return False
    assert repr(found) == repr(by_the_library(text)), text  # by repr, for a NaN is not equal to itself
    return True


def test_a_real_engines_scrapes_are_plain_and_read_the_same() -> None:
    assert len(SCRAPES) > 10
    for path in SCRAPES:
        assert families(path.read_text(encoding="utf-8").split("\n")) is not None, path
    for path in SCRAPES[::5]:  # the library takes its time
        assert same(path.read_text(encoding="utf-8"))


def test_each_form_is_read_the_same() -> None:
    assert same(PLAIN)


@pytest.mark.parametrize(
    "line",
    [
        'g{m="\\\\"} 1', 'g{m="a"b"} 1', 'g{m="a",} 1', 'g{m="a", n="b"} 1', 'g{m="a",m="b"} 1', "g 1 1700000000",
        " g 1", "g 1 ", "g  1", "g\t1", 'g {m="a"} 1', "g 1_0", "g 0x1", "g 1" + 400 * "0", "g", "g inf", '{"g"} 1',
        'g{__name__="g"} 1', 'g{m="a"} 1 # {t="x"} 2', "# EOF", "# a comment", "# TYPE g info", "# TYPE g", "é 1",
        "# TYPE a_total gauge", "g{m=a} 1", "g{m} 1", 'g{m="a"}1', "g nan", 'g{} {m="a"} 1', "# HELP g \\\\ a",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_library_or_read_as_it_does(line: str) -> None:
    for text in (f"{line}\n", f"# TYPE g gauge\n{line}\n", f"{PLAIN}{line}\n{PLAIN}"):
        same(text)


MUTATIONS: list[Callable[[random.Random, list[str]], None]] = [
    lambda chance, lines: lines.insert(chance.randrange(len(lines)), chance.choice(lines)),
    lambda chance, lines: lines.__delitem__(chance.randrange(len(lines))),
    lambda chance, lines: chance.shuffle(lines),
    lambda chance, lines: lines.__setitem__(at := chance.randrange(len(lines)), _spoiled(chance, lines[at])),
]


def _spoiled(chance: random.Random, line: str) -> str:
    at = chance.randint(0, len(line))
    return (
        line[:at]
        + chance.choice([*' "{},=#\\\t_+-.eEN0a:é\r\x85\u2028', "", "# ", "_total"])
        + line[at + chance.randint(0, 2) :]
    )


def test_what_is_spoiled_is_read_the_same() -> None:
    chance = random.Random(7)
    plain = 0
    for _ in range(1500):
        lines = PLAIN.split("\n")[chance.randint(0, 12) :]
        for _ in range(chance.randint(1, 3)):
            if len(lines) > 1:
                chance.choice(MUTATIONS)(chance, lines)
        plain += same("\n".join([*lines, ""]))
    assert 200 < plain < 1500


def test_both_ways_end_in_one_exposition(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text(encoding="utf-8") for path in SCRAPES[:5]]
    fast = [parse(text) for text in texts]
    monkeypatch.setattr(exposition, "families", lambda _: None)
    assert [parse(text) for text in texts] == fast
    with pytest.raises(ExpositionError, match="occurs twice"):
        parse("g 1\ng 2\n")
    monkeypatch.undo()
    with pytest.raises(ExpositionError, match="occurs twice"):
        parse("g 1\ng 2\n")
