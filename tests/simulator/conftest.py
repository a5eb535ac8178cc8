"""Engines for the tests: fresh ones, and two that the whole session shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simulator_process import SPECULATION, EngineProcess


@pytest.fixture
def start() -> Iterator[Callable[..., EngineProcess]]:
    """Start engines that end with the test."""
    started: list[EngineProcess] = []

    def make(*flags: str, **options: Any) -> EngineProcess:
        engine = EngineProcess(*flags, **options)
        started.append(engine)
        return engine

    yield make
    for engine in started:
        engine.close()


def _shared(*flags: str, **options: Any) -> Iterator[EngineProcess]:
    engine = EngineProcess(*flags, **options)
    try:
        yield engine.ready()
    finally:
        engine.close()


@pytest.fixture(scope="session")
def on() -> Iterator[EngineProcess]:
    yield from _shared(*SPECULATION, VLLM_SERVER_DEV_MODE="1")


@pytest.fixture(scope="session")
def off() -> Iterator[EngineProcess]:
    yield from _shared("--enable-prompt-tokens-details")
