"""The rollout history after a run: the user's, whole, and nothing of the run's."""

from __future__ import annotations

from typing import Any, cast

import pytest
from k8s_surveyed import Surveyed, production

from runner.target.kubernetes.belonging import LAUNCH
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.history import forget_launches

Object = dict[str, Any]


class Kept(Surveyed):
    """ReplicaSets that can be deleted, by the one that was meant."""

    def __init__(self, *sets: Object, refuse: frozenset[str] = frozenset()) -> None:
        super().__init__(ReplicaSet=list(sets))
        self.refuse = refuse

    def delete(self, kind: str, name: str, *, uid: str) -> None:
        if name in self.refuse:
            raise ClusterError("it may not be deleted", status=403)
        there = [one for one in self.things[kind] if one["metadata"]["uid"] != uid]
        assert len(there) == len(self.things[kind]) - 1
        self.things[kind] = there

    @property
    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.things["ReplicaSet"]]


def replica_set(name: str, launch: str | None, *, owner: str = "uid-vllm", replicas: int = 0) -> Object:
    annotations = {} if launch is None else {LAUNCH: launch}
    return {
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": f"uid-{name}",
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
        "spec": {"replicas": replicas, "template": {"metadata": {"annotations": annotations}}},
        "status": {"replicas": replicas},
    }


def test_the_launches_of_the_run_go_and_all_else_stays() -> None:
    there = Kept(
        replica_set("users", None, replicas=1),
        replica_set("users-old", None),
        replica_set("first", "good-1.1"),
        replica_set("tenth", "good-1.10"),
        replica_set("another-runs", "good-10.1"),
        replica_set("anothers", "good-1.2", owner="somebody"),
    )
    assert forget_launches(cast(Cluster, there), production(), "good-1") == []
    assert there.names == ["users", "users-old", "another-runs", "anothers"]


@pytest.mark.parametrize("part", ["spec", "status"])
def test_one_that_has_pods_is_left_and_told(part: str) -> None:
    busy = replica_set("busy", "good-1.1")
    busy[part]["replicas"] = 1
    there = Kept(busy, replica_set("old", "good-1.2"))
    assert forget_launches(cast(Cluster, there), production(), "good-1") == [
        "ReplicaSet llm/busy of this run still has Pods"
    ]
    assert there.names == ["busy"]


def test_one_that_cannot_be_deleted_is_told_and_keeps_no_other() -> None:
    there = Kept(replica_set("one", "good-1.1"), replica_set("two", "good-1.2"), refuse=frozenset({"one"}))
    (told,) = forget_launches(cast(Cluster, there), production(), "good-1")
    assert told.startswith("ReplicaSet llm/one of this run is left in the rollout history: it may not")
    assert there.names == ["one"]


def test_a_history_that_cannot_be_read_is_told() -> None:
    class Closed(Kept):
        def list(self, kind: str, **_: Any) -> list[Object]:
            raise ClusterError("no answer")

    (told,) = forget_launches(cast(Cluster, Closed()), production(), "good-1")
    assert "may be left in the rollout history: no answer" in told
