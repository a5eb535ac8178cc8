"""Prometheus text of metrics whose values rarely change between scrapes.

Each metric has a registry of its own and its rendered text is kept until the metric changes, so that a
scrape every 20 ms costs little and does not hold up the engine's steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.registry import Collector

Metric = Counter | Gauge | Histogram | Summary
M = TypeVar("M", Counter, Gauge, Histogram, Summary)


class Page:
    """Metrics in the order of their making, rendered together."""

    def __init__(self) -> None:
        self._registries: list[CollectorRegistry] = []
        self._texts: list[bytes | None] = []
        self._place: dict[int, int] = {}

    def counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return self._keep(Counter(name, text, labels, registry=self._registry()))

    def gauge(self, name: str, text: str, labels: Sequence[str]) -> Gauge:
        return self._keep(Gauge(name, text, labels, registry=self._registry()))

    def histogram(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return self._keep(Histogram(name, text, labels, registry=self._registry(), buckets=buckets))

    def summary(self, name: str, text: str, labels: Sequence[str]) -> Summary:
        return self._keep(Summary(name, text, labels, registry=self._registry()))

    def changed(self, metric: Metric) -> None:
        """Must be called after a value of the metric moved."""
        self._texts[self._place[id(metric)]] = None

    def render(self) -> bytes:
        """The page in Prometheus text format."""
        for place, text in enumerate(self._texts):
            if text is None:
                self._texts[place] = generate_latest(self._registries[place])
        return b"".join(text for text in self._texts if text is not None)

    def _registry(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        self._registries.append(registry)
        self._texts.append(None)
        return registry

    def _keep(self, metric: M) -> M:
        self._place[id(metric)] = len(self._registries) - 1
        return metric


def render_collectors(collectors: Sequence[Collector]) -> bytes:
    """Text of collectors that read their values afresh (process and interpreter)."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)
