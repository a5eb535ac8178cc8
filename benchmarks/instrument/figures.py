"""The figures of one run, from what the oracle, the program and the kernel's CPU clocks say."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain

from instrument.cell import Cell
from instrument.oracle import Served
from instrument.quantiles import quantiles
from instrument.reported import Reported
from instrument.watched import Sample

Figures = dict[str, float | None]
"""By name; None is a figure that this run does not yield. Microseconds (`_us`), milliseconds (`_ms`) or shares."""

SHARES = (0.5, 0.9, 0.99)
STAMP_SHARES = (0.5, 0.99, 0.999)


def figures(cell: Cell, truth: Sequence[Served], reported: Reported, samples: Sequence[Sample]) -> Figures:
    """Everything of one run. `truth` may hold requests of the program beyond the cell's (a probe): the last count."""
    served = sorted(truth, key=lambda one: one.arrived_ns)[-cell.requests :]
    found: Figures = {
        "requests": float(len(served)),
        "answered": float(sum(one.ended_ns is not None for one in served)),
        "reported": float(len(reported.ttft_s)),
        "failed": float(reported.failed),
        "achieved": achieved([(one.arrived_ns, one.ended_ns) for one in served if one.ended_ns is not None]),
        "achieved_own": achieved(reported.flights),
    }
    found |= cpu(served, samples, cell.events)
    true_ttft = [(one.first_ns - one.arrived_ns) / 1e9 for one in served if one.first_ns is not None]
    true_e2e = [(one.ended_ns - one.arrived_ns) / 1e9 for one in served if one.ended_ns is not None]
    found |= quantile_errors("ttft", reported.ttft_s, true_ttft)
    found |= quantile_errors("e2e", reported.e2e_s, true_e2e)
    middle = quantiles(true_e2e, (0.5,))
    found["e2e_true_ms"] = middle[0] * 1e3 if middle else None
    found |= stamp_errors(served, reported.stamps, reported.bounds)
    return found


def achieved(flights: Sequence[tuple[int, int]]) -> float | None:
    """Requests in flight on average between the first and the last sending: time in flight within that span, divided
    by it. `flights` are (sent, ended)."""
    if not flights:
        return None
    begin, end = min(sent for sent, _ in flights), max(sent for sent, _ in flights)
    if end == begin:
        return None
    return sum(min(ended, end) - sent for sent, ended in flights) / (end - begin)


def cpu(served: Sequence[Served], samples: Sequence[Sample], events: int) -> Figures:
    """CPU time between the first and the last reading of the clocks within the round, divided by the events that the
    oracle sent meanwhile (`chunk`); the same for so many events as a request has (`request`): connecting, sending and
    ending are in both. And the share of a core that the program and the oracle used."""
    names = ("cpu_chunk_us", "cpu_request_us", "cpu_share", "server_share")
    ended = sorted(one.ended_ns for one in served if one.ended_ns is not None)
    if not ended:
        return dict.fromkeys(names)
    first, last = served[0].arrived_ns, ended[-1]
    within = [one for one in samples if first <= one.at_ns <= last]
    if len(within) < 2:
        return dict.fromkeys(names)
    begin, end = within[0], within[-1]
    sent = sorted(chain.from_iterable(one.sent_ns for one in served))
    chunks = bisect_right(sent, end.at_ns) - bisect_left(sent, begin.at_ns)
    used, wall = end.seconds - begin.seconds, (end.at_ns - begin.at_ns) / 1e9
    return {
        "cpu_chunk_us": used / chunks * 1e6 if chunks else None,
        "cpu_request_us": used / chunks * events * 1e6 if chunks else None,
        "cpu_share": used / wall,
        "server_share": (end.server_s - begin.server_s) / wall,
    }


def quantile_errors(name: str, said_s: Sequence[float], true_s: Sequence[float]) -> Figures:
    """A quantile as reported minus the same one of the oracle's own times, in ms."""
    said, true = quantiles(said_s, SHARES), quantiles(true_s, SHARES)
    names = [f"{name}_p{share * 100:g}_ms" for share in SHARES]
    if said is None or true is None:
        return dict.fromkeys(names)
    return {key: (ours - theirs) * 1e3 for key, ours, theirs in zip(names, said, true, strict=True)}


def stamp_errors(
    served: Sequence[Served], stamps: Mapping[str, Sequence[int]], bounds: Mapping[str, Sequence[int]]
) -> Figures:
    """The client's stamp of each event minus the time right after the oracle's send of it: quantiles of its amount and
    its median with its sign, in µs; the first events of the requests apart, and (`exact`) those that are not `bounds`
    by the program's own word, with the share of these. `beyond`: how far the stamp lies outside the send itself, which
    is all that the oracle can know of when an event left it. A request whose number of events is not the oracle's has
    none, and is counted."""
    by_words = {one.words: one for one in served if one.words is not None}
    errors: list[float] = []
    first: list[float] = []
    exact: list[float] = []
    beyond: list[float] = []
    odd = 0
    for words, at in stamps.items():
        one = by_words.get(words)
        if one is None or len(one.sent_ns) != len(at):
            odd += 1
            continue
        found = [(ours - theirs) / 1e3 for ours, theirs in zip(at, one.sent_ns, strict=True)]
        errors += found
        first += found[:1]
        beyond += [
            max(before - ours, ours - after, 0) / 1e3
            for ours, before, after in zip(at, one.before_ns, one.sent_ns, strict=True)
        ]
        uncertain = frozenset(bounds.get(words, ()))
        exact += [error for number, error in enumerate(found) if number not in uncertain]
    names = [f"stamp_p{share * 100:g}_us" for share in STAMP_SHARES]
    firsts = [f"first_p{share * 100:g}_us" for share in STAMP_SHARES]
    exacts = [f"exact_p{share * 100:g}_us" for share in STAMP_SHARES]
    outside = [f"beyond_p{share * 100:g}_us" for share in STAMP_SHARES]
    amounts, amounts_first, amounts_exact = (quantiles(map(abs, each), STAMP_SHARES) for each in (errors, first, exact))
    signed = quantiles(errors, (0.5,))
    return {
        **_named(names, amounts),
        **_named(firsts, amounts_first),
        **_named(exacts, amounts_exact),
        **_named(outside, quantiles(beyond, STAMP_SHARES)),
        "bound_share": 1 - len(exact) / len(errors) if errors else None,
        "stamp_signed_us": signed[0] if signed else None,
        "unmatched": float(odd),
    }


def _named(names: Sequence[str], values: Sequence[float] | None) -> Figures:
    return dict.fromkeys(names) if values is None else dict(zip(names, values, strict=True))
