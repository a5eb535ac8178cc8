"""Non-negative least squares for a handful of parameters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def non_negative(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Parameters >= 0 that minimise the squared error, by trying every set of positive ones.

    Fewer positive parameters win where more do not make the error smaller: what the rows cannot tell apart is
    given to one parameter, not shared out.
    """
    count = len(rows[0])
    best: tuple[float, list[float]] = (float("inf"), [])
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            part = [[row[index] for index in chosen] for row in rows]
            solved = _solve(part, values)
            if solved is None or min(solved) < 0:
                continue
            error = sum(
                (sum(x * p for x, p in zip(row, solved, strict=True)) - y) ** 2
                for row, y in zip(part, values, strict=True)
            )
            if error < best[0] - 1e-15:
                full = [0.0] * count
                for index, parameter in zip(chosen, solved, strict=True):
                    full[index] = parameter
                best = (error, full)
    return best[1]


def _solve(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """The normal equations by elimination; None if they have no single solution."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * y for row, y in zip(rows, values, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(matrix[k][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-9:
            return None
        for k in range(size):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [x - factor * y for x, y in zip(matrix[k], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]
