"""What of a Deployment must be the same after a run as before it."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]

MOVED = ("resourceVersion", "generation", "managedFields")


def plain(deployment: Object) -> Object:
    """The object without what Kubernetes moves by itself."""
    kept = copy.deepcopy(deployment)
    for key in MOVED:
        kept["metadata"].pop(key, None)
    kept["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    kept.pop("status", None)
    return kept


def owners(deployment: Object) -> list[Any]:
    """Who owns which field, but for the status."""
    return [
        (entry["manager"], entry["operation"], entry["fieldsV1"])
        for entry in deployment["metadata"]["managedFields"]
        if entry.get("subresource") != "status"
    ]
