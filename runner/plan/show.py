"""A plan in words, for `run plan`: what would be started, sent and checked."""

import shlex

from runner.plan.model import Plan


def show_plan(plan: Plan) -> str:
    """The plan as text, one fact a line."""
    lines = [
        f"{plan.name}: {plan.title}",
        f"target: {plan.target}",
        f"spec: {plan.spec_file} (sha256 {plan.spec_sha256[:12]})",
        "",
        f"conditions (baseline: {plan.arm(plan.baseline).label}):",
    ]
    for arm in plan.arms:
        environment = "".join(f"{name}={shlex.quote(value)} " for name, value in arm.env.items())
        lines.append(f"  {arm.label}: {environment}vllm serve {shlex.join([plan.model, *arm.argv])}")
        if arm.side_effects:
            effects = ", ".join(f"{name}: {value}" for name, value in arm.side_effects.items())
            lines.append(f"    declared side effects, which confound the comparison: {effects}")
        if arm.sets:
            features = ", ".join(f"{name}: {value}" for name, value in arm.sets.items())
            lines.append(f"    sets, and must be found so: {features}")
    lines += ["", f"phases ({len(plan.launches)} engine starts, order {plan.order}):"]
    for phase in plan.phases:
        warm_up = f", {phase.warm_up} warm-up {'in' if phase.warm_up_counted else 'before'} the window" * bool(
            phase.warm_up
        )
        excluded = ", ".join(
            f"first {count} of {plan.arm(arm).label} excluded" for arm, count in phase.excluded.items() if count
        )
        lines.append(
            f"  {phase.name}: concurrency {', '.join(map(str, phase.concurrency))}; {phase.rounds} round(s) of "
            f"{phase.requests} requests{warm_up}{'; ' + excluded if excluded else ''}; "
            f"{'streamed' if phase.stream else 'not streamed'}"
        )
    if plan.limits.round_seconds is not None:
        lines.append(f"  nothing more of a round is sent after {plan.limits.round_seconds:g} s")
    lines += [
        "",
        "launches: " + ", ".join(f"{plan.arm(step.arm).label} #{step.replicate}" for step in plan.launches),
    ]
    asked = [name.replace("_", "-") for name, value in plan.invariants if value is not None]
    lines += ["invariants: " + ", ".join(asked)]
    lines += [f"requests in all: {_requests(plan)}"]
    return "\n".join(lines)


def _requests(plan: Plan) -> int:
    grid = sum(phase.rounds * (phase.requests + phase.warm_up) for phase, _ in plan.grid)
    return grid * len(plan.launches)
