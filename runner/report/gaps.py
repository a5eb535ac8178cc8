"""What a run did not check: the author's notes, and what follows from the record itself."""

from runner.analysis.cell import cells, concurrencies
from runner.analysis.client import client_facts
from runner.analysis.comparison import comparison
from runner.analysis.confounding import confounders, controls
from runner.analysis.knee import knee
from runner.analysis.stamps import clocks
from runner.analysis.value import Absent
from runner.plan.model import Arm
from runner.report.client_times import client_times_gaps, timed
from runner.report.markdown import code, escape
from runner.report.table import Source
from runner.report.tables.summary import separated


def _controlled(source: Source, arm: Arm, control: Arm, shared: list[str]) -> str:
    """What a control condition leaves of the question: the ratios against it, which no check judges."""
    ratios = []
    for level in concurrencies(source.record):
        pair = comparison(source.record, arm.id, level, control.id)
        ratio = timed(source.numbers.ratio(pair.speedup), pair.base, pair.other)
        ratios.append(f"C={level} {ratio} ({separated(source, pair)})")
    return source.words(
        "gap-controlled",
        label=source.named(arm.id),
        control=source.named(control.id),
        shared=", ".join(map(source.feature, shared)),
        ratios=", ".join(ratios),
    )


def _unstreamed(source: Source) -> list[str]:
    """Phases of which nothing is known but the whole response time."""
    phases = source.record.plan.phases
    plain = [code(phase.name) for phase in phases if not phase.stream]
    if not plain:
        return []
    if len(plain) == len(phases):
        return [source.words("gap-ttft")]
    return [source.words("gap-ttft-of", phases=", ".join(plain))]


def _user_clock(source: Source) -> list[str]:
    """Conditions of which the client stamped what came in, once a reason."""
    reasons: dict[str, list[str]] = {}
    for one in cells(source.record):
        requests = [request for round_ in one.rounds for request in round_.ok]
        if clocks(requests) in ([], ["kernel"]):
            continue
        facts = client_facts(one)
        said = facts.why_user if facts is not None else []
        old = any(request.clock is None for request in requests)
        unsaid = source.words("clock-old" if old else "clock-unsaid")
        labels = reasons.setdefault(escape("; ".join(said) or unsaid), [])
        if source.named(one.arm.id) not in labels:
            labels.append(source.named(one.arm.id))
    return [source.words("gap-clock-user", labels=", ".join(labels), why=why) for why, labels in reasons.items()]


def _gpu_gaps(source: Source) -> list[str]:
    """Why there are no figures of the GPUs, or of the GPUs of some conditions."""
    record, words = source.record, source.words
    reasons: dict[str, list[str]] = {}
    for engine in record.engines:
        if engine.gpus is not None and engine.gpus.reason is not None:
            labels = reasons.setdefault(escape(engine.gpus.reason), [])
            if source.named(engine.arm) not in labels:
                labels.append(source.named(engine.arm))
    if any(round_.gpu_samples for round_ in record.all_rounds()):
        return [words("gap-gpu-of", labels=", ".join(labels), why=why) for why, labels in reasons.items()]
    return [words("gap-gpu-why", why=why) for why in reasons] or [words("gap-gpu")]


def computed_gaps(source: Source, empty_tables: list[str]) -> list[str]:
    """One sentence per gap, in Markdown. `empty_tables`: ids of tables that had nothing to show."""
    record, words = source.record, source.words
    plan = record.plan
    imitated = record.started.target_settings.items() if record.started.simulated else ()
    settings = ", ".join(f"{name} {value}" for name, value in imitated if name != "faults")
    gaps = [words("gap-simulated", settings=f" ({escape(settings)})" if settings else "")] if record.simulated else []
    for one in cells(record):
        if one.incomplete is not None:
            why = words(one.incomplete.reason, **one.incomplete.figures)
            gaps.append(words("gap-cell", label=source.label(one.arm.id), level=one.concurrency, why=why))
    for arm in plan.others:
        known = controls(record, arm)
        shared = {name for _, names in known for name in names}
        alone = [one.feature for one in confounders(record, arm) if one.feature not in shared]
        if alone:
            features = ", ".join(map(source.feature, alone))
            gaps.append(words("gap-confounded", label=source.named(arm.id), features=features))
        gaps += [_controlled(source, arm, control, names) for control, names in known]
    gaps += _unstreamed(source)
    if plan.others and plan.invariants.same_output is None:
        gaps.append(words("gap-outputs"))
    gaps += [
        words("gap-concurrency", level=level, requests=phase.requests)
        for phase, level in plan.grid
        if level > phase.requests
    ]
    if len(plan.sent_prompts) == 1:
        gaps.append(words("gap-one-prompt"))
    if plan.replicates == 1:
        gaps.append(words("gap-one-replicate"))
    if plan.others and (plan.order == "as-written" or plan.replicates == 1):
        gaps.append(words("gap-order"))
    gaps += client_times_gaps(source)
    gaps += _user_clock(source)
    gaps += _gpu_gaps(source)
    gaps += [
        words("gap-log", label=source.named(arm.id))
        for arm in plan.arms
        if any(one.launched is not None and one.launched.log is None for one in record.of_arm(arm.id))
    ]
    for arm in plan.arms:
        found = knee(record, arm.id)
        if isinstance(found, Absent):
            why = words(found.reason, **found.figures)
            gaps.append(words("gap-knee", label=source.named(arm.id), why=escape(why)))
    gaps += [words("gap-table", table=name) for name in empty_tables]
    return gaps
