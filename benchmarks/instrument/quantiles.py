"""Quantiles, by the same rule for every program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """With linear interpolation between the closest ranks (type 7, numpy's default). `values` need not be sorted."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a quantile of nothing")
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def quantiles(values: Iterable[float], shares: Sequence[float]) -> list[float] | None:
    """Several; None of nothing."""
    ordered = sorted(values)
    return [quantile(ordered, share) for share in shares] if ordered else None
