"""The recorded objects of a real cluster, and how a watcher who looks once a second sees them."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.target.kubernetes.pod_failure import Failure, Observation, PodWatch
from runner.target.kubernetes.rollout import Progress, judge_rollout

Object = dict[str, Any]
FOLDER = Path(__file__).parent / "kubernetes_objects"


def read(name: str) -> Any:
    return json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))


@dataclass(frozen=True)
class Recorded:
    """`written_at`: when the write had come back. `begun`: the last look before it."""

    generation: int
    written_at: float
    observations: list[Object]

    @property
    def begun(self) -> float:
        return self.written_at - 0.5

    @property
    def before(self) -> frozenset[str]:
        """The UIDs of the Pods that were there before the write."""
        return frozenset(pod["metadata"]["uid"] for pod in self.observations[0]["pods"])

    def at(self, second: float) -> Observation:
        """What was there to be read then."""
        shown = [one for one in self.observations if one["at"] <= second][-1]
        parts = {name: copy.deepcopy(shown[name]) for name in ("deployment", "replica_sets", "pods", "events")}
        return Observation(second, **parts)

    def each_second(self, offset: float = 0.0) -> Iterator[Observation]:
        """One look a second, the first `offset` seconds after the write."""
        second = self.written_at + offset
        while second <= self.observations[-1]["at"]:
            if (one := self.at(second)).deployment is not None:
                yield one
            second += 1


def recorded(name: str) -> Recorded:
    shown = read(name)
    return Recorded(shown["generation"], shown["written_at"], shown["observations"])


def progress(one: Observation, generation: int) -> Progress:
    return judge_rollout(one.deployment, one.replica_sets, one.pods, generation=generation)


def first_failure(which: Recorded, offset: float = 0.0) -> tuple[float, Failure] | None:
    """When a watcher has it, and what."""
    watch = PodWatch(which.begun, which.before)
    for one in which.each_second(offset):
        if (failure := watch.observe(one)) is not None:
            return one.at, failure
    return None


def pod(name: str, *, namespace: str = "ns", node: str | None = "node", phase: str = "Running", **spec: Any) -> Object:
    """A Pod made by hand."""
    bound = {"nodeName": node} if node else {}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": "2026-11-30T15:00:00Z"}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **bound, **spec},
        "status": {"phase": phase},
    }
