"""From RollingUpdate to Recreate, which one server-side apply cannot do.

Such an apply takes away only what its own field manager owns; a null in it takes away nothing. What another manager
left in `spec.strategy.rollingUpdate`, or the API server's defaults there, stays, and beside `type: Recreate` it is
invalid (tried on Kubernetes 1.36). An apply that owns both of its fields first makes the way free. It changes no Pod
template, so no rollout begins.
"""

from typing import Any


def preparation(deployment: dict[str, Any], live: dict[str, Any] | None) -> dict[str, Any] | None:
    """What must be applied, by the same manager and with force, before `deployment`; None where nothing must.

    It holds the live object's resourceVersion: a change since then is a conflict, not a loss.
    """
    if not _switches(deployment, live) or live is None:
        return None
    metadata = {
        key: live["metadata"][key] for key in ("name", "namespace", "resourceVersion") if key in live["metadata"]
    }
    return {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "metadata": metadata,
        "spec": {"strategy": _without_surge()},
    }


def for_dry_run(deployment: dict[str, Any], live: dict[str, Any] | None) -> dict[str, Any]:
    """What a dry run can be asked about in the place of `deployment`: one request cannot see what another, equally
    dry, would have prepared. The answer's `spec.strategy` is to be read as `deployment`'s."""
    if not _switches(deployment, live):
        return deployment
    return {**deployment, "spec": {**deployment["spec"], "strategy": _without_surge()}}


def _switches(deployment: dict[str, Any], live: dict[str, Any] | None) -> bool:
    wanted = deployment["spec"].get("strategy") or {}
    there = (live or {}).get("spec", {}).get("strategy") or {}
    return wanted.get("type") == "Recreate" and "rollingUpdate" in there


def _without_surge() -> dict[str, Any]:
    """Fields to own, all of them; should the next apply never come, no second Pod would want the GPU."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
