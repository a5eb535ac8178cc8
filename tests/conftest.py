"""What holds for every lane: a slow machine fails no property test, the lanes' order, and the options of the
recordings' lane."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # under nohup the runs that tests start would rightly ignore it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # so it is where a shell put the tests behind it

LAST = ("oracle", "process", "endpoint", "e2e", "real_engine", "cluster")
"""Whole runs want a quiet machine, and the last two lanes what may be on its way while the others run: `.ci/run` builds
the cluster in the background."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = config.rootpath / "tests"

    def place(item: pytest.Item) -> int:
        lane = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        return LAST.index(lane) + 1 if lane in LAST else 0

    items.sort(key=place)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-page", action="store_true", help="write docs/fidelity.md from the recordings' lane")
    parser.addoption("--recordings", metavar="DIR", help="also read the recordings of real engines in DIR")
