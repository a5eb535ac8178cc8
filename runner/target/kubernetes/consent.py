"""What was agreed to is one object as it was surveyed; another one, or the same in other hands, was not."""

from typing import Any

from runner.target.base import Declined
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.difference import RUNTIME, differences
from runner.target.kubernetes.ground import held_by_another
from runner.target.kubernetes.ownership import autoscalers, fields, owned_by

Object = dict[str, Any]


def changed_since(surveyed: Object, now: Object) -> list[str]:
    """How a Deployment is not the one that was surveyed, each in one line: another object, another field, or a field
    that somebody else owns now. What its controller writes is no change."""
    if now["metadata"]["uid"] != surveyed["metadata"]["uid"]:
        return ["it was deleted and made again (it has another UID)"]
    # what a variable of the user's holds is not shown, whatever its name
    found = [
        f"{one.path} is another" if ".env[" in one.path else one.one()
        for one in differences(surveyed, now, ignore=RUNTIME)
    ]
    before, after = _owned(surveyed), _owned(now)
    for manager in dict.fromkeys([*before, *after]):
        was, has = before.get(manager, frozenset()), after.get(manager, frozenset())
        found += [f"{manager} took {path}" for path in sorted(has - was)]
        found += [f"{manager} gave up {path}" for path in sorted(was - has)]
    return found


def hold_to_consent(cluster: Cluster, surveyed: Object, now: Object) -> None:
    """Raises Declined unless the Deployment is as it was surveyed, and nothing scales it. `now` is the object that
    would be saved and written over. Blocks; raises ClusterError where the server cannot be asked."""
    if owned_by(now, MANAGER):
        raise Declined(f"{held_by_another(now)}; nothing was changed")
    changed = changed_since(surveyed, now)
    name = now["metadata"]["name"]
    try:
        scalers = autoscalers(cluster.list("HorizontalPodAutoscaler"), name)
    except ClusterError as error:
        if error.status != 403:  # what may not be seen is said in the survey
            raise
        scalers = []
    changed += [f"the {one} scales it now" for one in scalers]
    if changed:
        raise Declined(
            f"the Deployment {name} is not as it was surveyed: {'; '.join(changed)}. Nothing was changed; run it again "
            f"to see what would be"
        )


def _owned(deployment: Object) -> dict[str, frozenset[str]]:
    """Who owns which fields, but for the status, which the Deployment's controller writes."""
    found: dict[str, frozenset[str]] = {}
    for entry in deployment["metadata"].get("managedFields") or []:
        if entry.get("subresource") != "status":
            manager = str(entry.get("manager"))
            found[manager] = found.get(manager, frozenset()) | frozenset(fields(entry))
    return found
