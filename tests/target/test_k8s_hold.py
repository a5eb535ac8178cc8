"""A run's hold on a Deployment, where answers are lost and others write in between."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest

from runner.target.kubernetes.belonging import LAUNCH
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.hold import Hold, NotOurs, written_out

Object = dict[str, Any]


class Server:
    """One Deployment, as an API server keeps it: each write moves its version, and a replacement's writer owns what it
    changes. `lose` is called after a write and before its answer."""

    def __init__(self, live: Object | None) -> None:
        self.live = copy.deepcopy(live)
        self.lose: Callable[[], None] = lambda: None

    def get(self, kind: str, name: str) -> Object | None:
        assert (kind, name) == ("Deployment", "vllm")
        return copy.deepcopy(self.live)

    def apply(self, manifest: Object, *, force: bool) -> Object:
        assert force
        made = copy.deepcopy(self.live) or deployment(managers=[])
        made["spec"].update(copy.deepcopy(manifest["spec"]))
        return self._written(made, MANAGER)

    def replace(self, body: Object) -> Object:
        assert self.live is not None
        changed = body["spec"] != self.live["spec"]
        return self._written(copy.deepcopy(body), MANAGER if changed else None)

    def scale(self, name: str, replicas: int, *, resource_version: str) -> None:
        assert self.live is not None and self.live["metadata"]["resourceVersion"] == resource_version
        self.live["spec"]["replicas"] = replicas
        self._written(self.live, MANAGER)

    def _written(self, made: Object, owner: str | None) -> Object:
        version = 0 if self.live is None else int(self.live["metadata"]["resourceVersion"])
        made["metadata"]["resourceVersion"] = str(version + 1)
        owners = [one["manager"] for one in made["metadata"]["managedFields"]]
        if owner is not None and owner not in owners:
            made["metadata"]["managedFields"].append({"manager": owner})
        self.live = made
        self.lose()
        return copy.deepcopy(made)


def deployment(*words: str, managers: list[str] | None = None, launch: str | None = None) -> Object:
    owners = ["kubectl"] if managers is None else managers
    template: Object = {"metadata": {}, "spec": {"containers": [{"name": "vllm", "args": list(words)}]}}
    if launch is not None:
        template["metadata"]["annotations"] = {LAUNCH: launch}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "vllm",
            "uid": "1",
            "resourceVersion": "1",
            "generation": 1,
            "managedFields": [{"manager": one} for one in owners],
        },
        "spec": {"replicas": 1, "template": template},
    }


def held(server: Server) -> Hold:
    return Hold(cast(Cluster, server), "vllm", server.get("Deployment", "vllm"))


def owners(server: Server) -> list[str]:
    assert server.live is not None
    return [one["manager"] for one in server.live["metadata"]["managedFields"]]


def test_what_was_applied_is_put_back_with_its_owners() -> None:
    server = Server(deployment("user"))
    hold = held(server)
    hold.apply(deployment("off", launch="run.1"))
    assert MANAGER in owners(server)
    hold.put_back()
    assert server.live is not None and server.live["spec"] == deployment("user")["spec"]
    assert owners(server) == ["kubectl"]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_replacement_whose_answer_is_lost_is_no_strangers(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.target.kubernetes.hold._BETWEEN", 0.0)
    server = Server(deployment("user"))
    hold = held(server)
    hold.apply(deployment("off", launch="run.1"))
    writes = 0

    def lose() -> None:
        nonlocal writes
        writes += 1
        if writes == lost:
            raise ClusterError("the connection was reset")

    server.lose = lose
    hold.put_back()
    assert server.live is not None and server.live["spec"] == deployment("user")["spec"]
    assert owners(server) == ["kubectl"]


def test_an_apply_whose_answer_is_lost_is_known_by_its_launch() -> None:
    server = Server(deployment("user"))
    hold = held(server)

    def lose() -> None:
        raise ClusterError("the connection was reset")

    server.lose = lose
    with pytest.raises(ClusterError):
        hold.apply(deployment("off", launch="run.1"))
    server.lose = lambda: None
    hold.put_back()
    assert owners(server) == ["kubectl"]


@pytest.mark.parametrize("write", ["apply", "scale", "put_back"])
def test_nothing_is_written_over_what_somebody_else_wrote(write: str) -> None:
    server = Server(deployment("user"))
    hold = held(server)
    hold.apply(deployment("off", launch="run.1"))
    assert server.live is not None
    server.live["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "THEIRS", "value": "1"}]
    theirs = copy.deepcopy(server.live)
    calls: dict[str, Callable[[], object]] = {
        "apply": lambda: hold.apply(deployment("on", launch="run.2")),
        "scale": lambda: hold.scale(0),
        "put_back": hold.put_back,
    }
    with pytest.raises(NotOurs, match="somebody else changed the Deployment vllm meanwhile") as caught:
        calls[write]()
    assert server.live == theirs
    assert not caught.value.deleted
    changed, *undone = caught.value.lines()
    assert changed.startswith("changed by somebody else since this run's last write: ") and "env[THEIRS]" in changed
    assert len(undone) >= 2
    assert all(one.startswith("putting the saved object back would change: ") for one in undone)


def test_a_deployment_that_is_gone_is_said_to_be() -> None:
    server = Server(deployment("user"))
    hold = held(server)
    server.live = None
    calls: list[Callable[[], object]] = [lambda: hold.scale(0), hold.put_back]
    for call in calls:
        with pytest.raises(NotOurs, match="was deleted meanwhile") as caught:
            call()
        assert caught.value.deleted


def test_what_this_run_made_is_told_from_what_others_made() -> None:
    server = Server(None)
    hold = Hold(cast(Cluster, server), "vllm", None)
    assert hold.made() is None
    server.live = deployment("theirs")
    assert hold.made() is None
    with pytest.raises(NotOurs, match="somebody else made the Deployment vllm meanwhile"):
        hold.apply(deployment("off", launch="run.1"))
    assert hold.made() is None
    server.live = None
    made = hold.apply(deployment("off", launch="run.1"))
    assert hold.made() == made
    server.live = {**made, "spec": {**made["spec"], "replicas": 3}}
    with pytest.raises(NotOurs, match="somebody else changed the Deployment vllm meanwhile"):
        hold.made()


def test_the_saved_object_keeps_its_owners_and_loses_its_identity() -> None:
    written = written_out(deployment("user"))
    assert '"manager": "kubectl"' in written
    assert "resourceVersion" not in written and "uid" not in written and "generation" not in written


def lost_once(server: Server, then: Callable[[], None] = lambda: None) -> None:
    """The next write's answer is lost; `then` happens before anything else does."""

    def lose() -> None:
        server.lose = lambda: None
        then()
        raise ClusterError("the connection was reset", unsure=True)

    server.lose = lose


def test_a_scaling_whose_answer_is_lost_is_no_strangers() -> None:
    server = Server(deployment("user"))
    hold = held(server)
    hold.apply(deployment("off", launch="run.1"))
    lost_once(server)
    with pytest.raises(ClusterError, match="reset"):
        hold.scale(0)
    assert hold.scale(0)["spec"]["replicas"] == 0
    hold.put_back()
    assert server.live is not None and server.live["spec"] == deployment("user")["spec"]


def test_a_preparation_whose_answer_is_lost_is_no_strangers() -> None:
    user = deployment("user")
    user["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    server = Server(user)
    hold = held(server)
    condition = deployment("off", launch="run.1")
    condition["spec"]["strategy"] = {"type": "Recreate"}
    lost_once(server)
    with pytest.raises(ClusterError, match="reset"):
        hold.apply(condition)
    assert server.live is not None and server.live["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
    hold.put_back()
    assert server.live["spec"] == user["spec"]


def test_what_was_meant_is_not_what_somebody_else_wrote_on_top() -> None:
    server = Server(deployment("user"))
    hold = held(server)

    def theirs() -> None:
        assert server.live is not None
        server.live["spec"]["template"]["spec"]["containers"][0]["args"] = ["theirs"]

    lost_once(server, theirs)
    with pytest.raises(ClusterError, match="reset"):
        hold.scale(0)
    for write in (lambda: hold.scale(0), hold.put_back):
        with pytest.raises(NotOurs, match="somebody else changed"):
            write()


def test_what_somebody_else_writes_right_after_a_scaling_is_not_taken_for_it() -> None:
    server = Server(deployment("user"))
    hold = held(server)

    def theirs() -> None:
        assert server.live is not None
        server.live["spec"]["template"]["spec"]["containers"][0]["args"] = ["theirs"]

    server.lose = theirs
    with pytest.raises(NotOurs, match="somebody else changed"):
        hold.scale(0)


def test_what_this_run_made_and_is_being_deleted_is_still_its_own() -> None:
    server = Server(None)
    hold = Hold(cast(Cluster, server), "vllm", None)
    made = hold.apply(deployment("off", launch="run.1"))
    ending = {"deletionTimestamp": "2026-11-30T17:00:00Z", "finalizers": ["foregroundDeletion"]}
    server.live = {**made, "metadata": {**made["metadata"], **ending}}
    assert hold.made() == server.live
    server.live = {**server.live, "metadata": {**server.live["metadata"], "uid": "another"}}
    with pytest.raises(NotOurs, match="deleted and made again"):
        hold.made()
