"""Load is given up once its engine is known to have ended: nobody waits for a time-out of each request that is left."""

from __future__ import annotations

import asyncio

import pytest

from runner.execution import readiness, rounds
from runner.sample.scrape import Scrape


class Engine:
    """One that is seen to have ended, or been replaced, at a look; None: never."""

    def __init__(self, code: int | None = None, stranger: str | None = None, at: int = 2) -> None:
        self._ended = (code, stranger)
        self._at = at
        self.looks = 0

    async def look(self) -> None:
        self.looks += 1

    def exit_code(self) -> int | None:
        return self._ended[0] if self.looks >= self._at else None

    def stranger(self) -> str | None:
        return self._ended[1] if self.looks >= self._at else None

    def log(self) -> list[str]:
        return ["the engine's last line"]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_BETWEEN_LOOKS", 0.01)


def over_within(engine: Engine, seconds: float, told: bool = False) -> bool:
    async def watched() -> bool:
        stop = asyncio.Event()
        async with rounds._while_it_lives(engine, stop) as over:  # type: ignore[arg-type]
            if told:
                stop.set()
            try:
                async with asyncio.timeout(seconds):
                    await over.wait()
            except TimeoutError:
                return False
        return not stop.is_set() or told

    return asyncio.run(watched())


@pytest.mark.parametrize("engine", [Engine(code=137), Engine(stranger="the Pod was deleted")], ids=["ended", "gone"])
def test_an_engine_that_is_seen_to_have_ended_ends_the_load_and_not_the_run(engine: Engine) -> None:
    assert over_within(engine, 30)
    assert engine.looks == 2


def test_an_engine_that_was_known_to_have_ended_gets_no_load() -> None:
    engine = Engine(code=1, at=0)
    assert over_within(engine, 30)
    assert engine.looks == 0


def test_one_that_lives_goes_on() -> None:
    engine = Engine()
    assert not over_within(engine, 0.2)
    assert engine.looks > 1


def test_a_run_that_is_told_to_stop_stops_the_load() -> None:
    assert over_within(Engine(), 30, told=True)


@pytest.mark.parametrize(
    ("engine", "refused", "lived"),
    [
        (Engine(), False, True),
        (Engine(code=137, at=0), False, False),
        (Engine(stranger="the Pod was deleted", at=0), False, False),
        (Engine(), True, False),
    ],
    ids=["lives", "ended", "another", "refuses"],
)
def test_a_round_is_complete_only_where_its_engine_lived(engine: Engine, refused: bool, lived: bool) -> None:
    runner = rounds.RoundRunner.__new__(rounds.RoundRunner)
    runner._engine = engine  # type: ignore[assignment]
    assert runner._lived(Scrape(0, "", None, None, refused)) is lived


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (Engine(), None),
        (Engine(code=0, at=0), "the engine ended with exit code 0 during load-c2-r1"),
        (Engine(code=-9, at=0), "the engine ended by SIGKILL during load-c2-r1"),
        (Engine(stranger="the Pod p was deleted", at=0), "during load-c2-r1: the Pod p was deleted"),
        (
            Engine(0, "the Pod p is being deleted", at=0),
            "the engine ended with exit code 0 during load-c2-r1; the Pod p is being deleted",
        ),
    ],
    ids=["lives", "ended", "killed", "deleted", "ended of its deletion"],
)
def test_all_that_is_known_of_an_engines_end_is_said(engine: Engine, why: str | None) -> None:
    """A Pod that is deleted ends its engine: whichever is seen first, the other is the cause."""
    error = readiness.gone(engine, "during load-c2-r1")  # type: ignore[arg-type]
    assert (None if error is None else str(error)) == why
    assert error is None or error.words == ["the engine's last line"]
