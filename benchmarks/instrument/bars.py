"""The bars that our generator is held to, each judged on this run's figures: met, not met, or not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from instrument.collected import Point, Spread, ratio, spread
from instrument.table import BARE, OURS, markdown

Points = Mapping[tuple[str, int], Point]


@dataclass(frozen=True, slots=True)
class Bar:
    """What is asked, what was found, and whether that is enough (None: not known)."""

    asked: str
    found: str
    met: bool | None


def bars(points: Points, rivals: Sequence[str], cells: Sequence[int]) -> list[Bar]:
    """All that the points can say something about."""
    return [
        *_against_bare(points, cells),
        *_cheaper(points, rivals, cells),
        *_truer(points, rivals, cells),
        *_achieved(points, cells),
        *_stamps(points, cells),
    ]


def bar_table(found: Sequence[Bar]) -> str:
    """In Markdown."""
    words = {True: "met", False: "**not met**", None: "not known"}
    return markdown(("Asked", "Found", ""), [[bar.asked, bar.found, words[bar.met]] for bar in found])


def _against_bare(points: Points, cells: Sequence[int]) -> Iterator[Bar]:
    for cell in cells:
        found = ratio(points.get((OURS, cell)), points.get((BARE, cell)), "cpu_chunk_us")
        if found is not None:
            asked = f"CPU per chunk at most 1.5× the bare protocol's, C = {cell:,}"
            yield Bar(asked, f"{found:.2f}×", found <= 1.5)


def _cheaper(points: Points, rivals: Sequence[str], cells: Sequence[int]) -> Iterator[Bar]:
    for cell in cells:
        for rival in rivals:
            found = ratio(points.get((rival, cell)), points.get((OURS, cell)), "cpu_chunk_us")
            if found is None:
                continue
            factor = 1.0
            if cell == 16:
                factor = 3.0
            elif cell == 128 and "bench serve" not in rival:
                factor = 5.0
            asked = f"CPU per chunk of {rival} at least {factor:g}× ours, C = {cell:,}"
            yield Bar(asked, f"{found:.2f}×", found > 1.0 if factor == 1.0 else found >= factor)


def _truer(points: Points, rivals: Sequence[str], cells: Sequence[int]) -> Iterator[Bar]:
    for cell in (cell for cell in cells if cell in (1, 16)):
        for share in ("p50", "p90", "p99"):
            name = f"ttft_{share}_ms"
            ours = spread(points.get((OURS, cell)), name)
            for rival in rivals:
                theirs = spread(points.get((rival, cell)), name)
                if ours is None or theirs is None:
                    continue
                asked = f"TTFT {share} no worse than {rival}'s beyond the spread between runs, C = {cell}"
                met = amount(ours).middle <= amount(theirs).middle or amount(ours).least <= amount(theirs).most
                yield Bar(asked, f"{ours:+.2f} against {theirs:+.2f} ms", met)
    for rival in rivals:
        ours, theirs = (spread(points.get((name, 128)), "ttft_p99_ms") for name in (OURS, rival))
        if ours is None or theirs is None or 128 not in cells:
            continue
        found = amount(theirs).middle / max(amount(ours).middle, 1e-9)
        asked = f"TTFT p99 at least 10× closer than {rival}'s, C = 128"
        yield Bar(asked, f"{ours:+.2f} against {theirs:+.2f} ms: {found:.1f}×", found >= 10)


def stamps_said(point: Point | None, name: str) -> str:
    """The error of the stamps, and which part of them is by their own word no more than an upper bound."""
    middle, tail = spread(point, f"{name}_p50_us"), spread(point, f"{name}_p99_us")
    said = f"{middle:,.1f} µs, {tail:,.1f} µs"
    inside = spread(point, "beyond_p50_us"), spread(point, "beyond_p99_us")
    if name == "stamp" and all(inside):
        said += f" (beyond the send itself {inside[0]:,.1f} µs, {inside[1]:,.1f} µs)"
    share, exact = spread(point, "bound_share"), spread(point, "exact_p99_us")
    if name != "stamp" or share is None or exact is None or not share.middle:
        return said
    return f"{said}; {share.middle:.2%} are said to be upper bounds, the p99 of the others is {exact:,.1f} µs"


def amount(of: Spread) -> Spread:
    """Without the sign."""
    ends = sorted((abs(of.least), abs(of.most)))
    least = 0.0 if of.least < 0 < of.most else ends[0]
    return Spread(abs(of.middle), least, ends[1])


def _achieved(points: Points, cells: Sequence[int]) -> Iterator[Bar]:
    for cell in cells:
        share = {1: 0.99, 16: 0.99, 128: 0.99, 256: 0.98}.get(cell)
        found = spread(points.get((OURS, cell)), "achieved_own")
        server = spread(points.get((OURS, cell)), "server_share")
        if found is None or share is None or server is None:
            continue
        asked = f"Achieved concurrency at least {share:.0%}, C = {cell}"
        reached = found.middle / cell
        yield Bar(asked, f"{reached:.2%} (the server's core was {server.middle:.0%} busy)", reached >= share)


def _stamps(points: Points, cells: Sequence[int]) -> Iterator[Bar]:
    for cell in cells:
        point = points.get((OURS, cell))
        for what, name in (("chunk", "stamp"), ("first-token", "first")):
            middle, tail = spread(point, f"{name}_p50_us"), spread(point, f"{name}_p99_us")
            if middle is not None and tail is not None and cell == 256:
                asked = f"Error of {what} stamps: median below 10 µs, p99 below 50 µs, C = {cell}"
                yield Bar(asked, stamps_said(point, name), middle.middle < 10 and tail.middle < 50)
        if (e2e := spread(point, "e2e_p50_ms")) is not None and point is not None:
            whole = spread(point, "e2e_true_ms")
            if whole is not None:
                share = abs(e2e.middle) / whole.middle
                yield Bar(f"End-to-end time within 1 %, C = {cell:,}", f"{share:.2%} (p50)", share < 0.01)
