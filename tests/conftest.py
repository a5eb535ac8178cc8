"""What holds for every lane: a slow machine fails no property test, and the options of the recordings' lane."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-page", action="store_true", help="write docs/fidelity.md from the recordings' lane")
    parser.addoption("--recordings", metavar="DIR", help="also read the recordings of real engines in DIR")
