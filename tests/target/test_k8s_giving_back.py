"""What a run took of a cluster is given back, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes_plans import planned
from small_cluster import Object, SmallCluster

from runner.access import OPEN, Access
from runner.record.events import BaselineRestored, Event, Warned
from runner.target.base import Declined, Stay, TargetError
from runner.target.kubernetes import calls, occupation, rolling
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.occupation import Occupation
from runner.target.kubernetes.probes import Probed

PATCH = "{image: 'i:1', baseline: {deployment: vllm}}"
BESIDE = "{image: 'i:1', baseline: {deployment: vllm, take-over: scale-to-zero}, name: other}"


def deployment(name: str, *words: str) -> Object:
    container: Object = {"name": "vllm", "image": "i:1", "args": list(words)}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "managedFields": []},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def probed(*_: Any) -> Probed:
        return Probed()

    async def nowhere(*_: Any) -> None:
        """The Pod is reached."""

    monkeypatch.setattr(occupation, "probe_pod", probed)
    monkeypatch.setattr(occupation, "unreached", nowhere)
    for module in (occupation, rolling):
        monkeypatch.setattr(module, "_POLL", 0.01)
    monkeypatch.setattr(calls, "_AGAIN", 0.01)
    monkeypatch.setattr("runner.target.kubernetes.hold._BETWEEN", 0.0)


class Place:
    """A cluster with the user's Deployment, and a run that has taken it over."""

    def __init__(self, folder: Path, site: str = PATCH, access: Access = OPEN) -> None:
        self.cluster = SmallCluster()
        self.events: list[Event] = []
        self.record: Callable[[Event], None] = self.events.append
        self.cluster.create(deployment("vllm", "user"))
        self.user["metadata"]["managedFields"] = [{"manager": "kubectl"}]
        plan, settings = planned(folder, "{}", site)
        self.stay = Stay(plan, "run-1", folder, self.emit)
        self.occupation = Occupation(cast(Cluster, self.cluster), settings, self.stay, access)

    def emit(self, event: Event) -> None:
        self.record(event)

    @property
    def user(self) -> Object:
        return self.cluster.objects["Deployment", "vllm"]

    async def take(self) -> None:
        await self.occupation.save()
        await self.occupation.take_place()
        condition = deployment(self.occupation.hold.name, "condition")
        condition["spec"]["template"]["metadata"]["annotations"] = {"llm-experiment-runner/launch": "run-1.1"}
        self.occupation.hold.apply(condition)

    def given_back(self, meanwhile: Callable[[], None] = lambda: None) -> list[BaselineRestored]:
        async def all_of_it() -> None:
            await self.take()
            meanwhile()
            await self.occupation.give_back()

        asyncio.run(all_of_it())
        return self.restored()

    def restored(self) -> list[BaselineRestored]:
        return [one for one in self.events if isinstance(one, BaselineRestored)]

    def as_it_was(self) -> bool:
        [container] = self.user["spec"]["template"]["spec"]["containers"]
        managers = [one["manager"] for one in self.user["metadata"]["managedFields"]]
        return container["args"] == ["user"] and self.user["spec"]["replicas"] == 1 and MANAGER not in managers


def test_the_baseline_is_put_back(tmp_path: Path) -> None:
    place = Place(tmp_path)
    [restored] = place.given_back()
    assert restored.restored and restored.reason is None
    assert place.as_it_was()


def test_its_engine_is_asked_with_what_lets_the_runner_in_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    async def probed(*given: Any) -> Probed:
        asked.append(("probed", given[-1]))
        return Probed()

    async def reached(*given: Any) -> None:
        asked.append(("reached", given[-1]))

    monkeypatch.setattr(occupation, "probe_pod", probed)
    monkeypatch.setattr(occupation, "unreached", reached)
    access = Access.made({}, "k3y")
    [restored] = Place(tmp_path, access=access).given_back()
    assert restored.restored
    assert asked == [("probed", access), ("reached", access), ("probed", access)]


def test_a_server_that_is_away_is_waited_for_and_that_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path, BESIDE)
    refused = 0

    def away(verb: str, kind: str, name: str) -> None:
        nonlocal refused
        refused += 1
        if refused % 16 < 5:
            raise ClusterError("the API server cannot be reached")

    def from_now() -> None:
        place.cluster.before = away

    restored = place.given_back(from_now)
    assert [(one.what, one.restored, one.reason) for one in restored] == [
        ("Deployment demo/other", True, None),
        ("Deployment demo/vllm", True, None),
    ]
    assert place.as_it_was()
    told = [one.text for one in place.events if isinstance(one, Warned)]
    assert told and told[0].startswith("the API server cannot be reached; waiting for it, for up to 600 s")


def test_a_server_that_stays_away_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occupation, "_AWAY_SECONDS", 0.05)
    place = Place(tmp_path)

    def away(*_: str) -> None:
        raise ClusterError("the API server cannot be reached")

    def from_now() -> None:
        place.cluster.before = away

    [restored] = place.given_back(from_now)
    assert not restored.restored and restored.reason == "the API server cannot be reached"
    assert restored.by_hand.startswith("kubectl ")


def test_a_run_that_cannot_save_is_declined_before_it_takes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occupation, "_LOST_SECONDS", 0.05)
    place = Place(tmp_path)
    (tmp_path / "baseline.json").mkdir()
    with pytest.raises(Declined, match="nothing was changed"):
        asyncio.run(place.occupation.save())

    def away(verb: str, kind: str, name: str) -> None:
        if kind == "Pod":
            raise ClusterError("the API server cannot be reached")

    place.cluster.before = away
    with pytest.raises(Declined, match="cannot be reached; nothing was changed"):
        asyncio.run(place.occupation.save())
    assert place.cluster.writes == [("create", "Deployment", "vllm")]  # by the user


def test_what_is_refused_for_good_is_not_asked_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    asked = 0

    def forbidden(verb: str, kind: str, name: str) -> None:
        nonlocal asked
        if verb == "scale":
            asked += 1
            raise ClusterError("not allowed", status=403, reason="Forbidden")

    def from_now() -> None:
        place.cluster.before = forbidden

    [restored] = place.given_back(from_now)
    assert (restored.restored, restored.reason, asked) == (False, "not allowed", 1)


def test_a_journal_that_cannot_be_written_keeps_nothing_from_being_put_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, BESIDE)

    def full(event: Event) -> None:
        raise OSError(28, "No space left on device")

    def no_room() -> None:
        place.record = full

    assert place.given_back(no_room) == []
    assert place.as_it_was() and ("Deployment", "other") not in place.cluster.objects
    assert "Deployment demo/vllm: restored (this could not be recorded: " in capsys.readouterr().err


def test_an_error_of_ours_is_told_and_the_rest_is_put_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, BESIDE)

    def broken(verb: str, kind: str, name: str) -> None:
        if (verb, name) == ("delete", "other"):
            raise KeyError("spec")

    def from_now() -> None:
        place.cluster.before = broken

    made, user = place.given_back(from_now)
    assert (made.restored, made.reason) == (False, "KeyError: 'spec'")
    assert user.restored and place.as_it_was()

    (tmp_path / "again").mkdir()
    again = Place(tmp_path / "again", BESIDE)

    def full(event: Event) -> None:
        raise OSError("full")

    def both() -> None:
        again.cluster.before = broken
        again.record = full

    again.given_back(both)
    said = capsys.readouterr().err
    assert "Deployment demo/other: NOT restored: KeyError: 'spec'" in said
    assert "  | by hand: kubectl --kubeconfig " in said
    assert "--context small --namespace demo delete deployment/other" in said


def test_a_pod_that_ended_long_ago_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occupation, "_GONE_SECONDS", -29.5)
    place = Place(tmp_path)

    def evicted() -> None:
        sets = [one["metadata"] for (kind, _), one in place.cluster.objects.items() if kind == "ReplicaSet"]
        place.cluster.pod("evicted", {"app": "vllm", "of": "vllm"}, sets[0]["uid"], "Failed")
        place.cluster.pod("somebody-elses", {"app": "vllm"}, None)

    [restored] = place.given_back(evicted)
    assert restored.restored and place.as_it_was()
    assert not [one for one in place.events if isinstance(one, Warned)]


def test_a_pod_that_does_not_end_keeps_nothing_from_being_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occupation, "_GONE_SECONDS", -30.0)
    place = Place(tmp_path)

    def stuck() -> None:
        [first, *_] = [one["metadata"] for (kind, _), one in place.cluster.objects.items() if kind == "ReplicaSet"]
        place.cluster.pod("stuck", {"app": "vllm"}, first["uid"])

    [restored] = place.given_back(stuck)
    assert restored.restored and place.as_it_was()
    [told] = [one for one in place.events if isinstance(one, Warned)]
    assert "do not end: stuck; it is put back all the same" in told.text


@pytest.mark.parametrize("site", [PATCH, BESIDE])
@pytest.mark.parametrize("moment", range(1, 7))
def test_a_second_signal_ends_the_waiting_and_not_the_putting_back(tmp_path: Path, site: str, moment: int) -> None:
    place = Place(tmp_path, site)

    async def interrupted() -> None:
        await place.take()
        work = asyncio.ensure_future(place.occupation.give_back())
        loop = asyncio.get_running_loop()
        asked = 0

        def signal(*_: str) -> None:
            nonlocal asked
            asked += 1
            if asked == moment:
                loop.call_soon_threadsafe(work.cancel)

        place.cluster.before = signal
        with contextlib.suppress(asyncio.CancelledError):
            await work
        assert asked >= moment and work.cancelled()

    asyncio.run(interrupted())
    assert place.as_it_was()
    assert ("Deployment", "other") not in place.cluster.objects
    restored = place.restored()
    assert restored[-1].what == "Deployment demo/vllm" and not restored[-1].restored
    assert restored[-1].reason == (
        "interrupted before it was done; the saved object is back, and whether it serves was not waited for"
    )


def test_a_pod_that_is_turned_away_does_not_scale_the_baseline_down(tmp_path: Path) -> None:
    place = Place(tmp_path)
    looks = 0

    def turned_away(verb: str, kind: str, name: str) -> None:
        """The first Pod of the baseline fails; its ReplicaSet's next one comes up a few looks later."""
        if verb == "replace":
            live = place.cluster.objects["Deployment", "vllm"]
            live["status"]["availableReplicas"] = 0
            for key, one in place.cluster.objects.items():
                if key[0] == "Pod":
                    one["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no GPU"}

    def recovers(verb: str, kind: str, name: str) -> None:
        nonlocal looks
        looks += (verb, kind) == ("list", "Event")
        if looks == 5:
            place.cluster.control("vllm")
            place.cluster.objects["Deployment", "vllm"]["status"]["availableReplicas"] = 1

    def from_now() -> None:
        place.cluster.after, place.cluster.before = turned_away, recovers

    [restored] = place.given_back(from_now)
    assert looks >= 5
    assert restored.restored and place.as_it_was()
    scaled = [one for one in place.cluster.writes if one[0] == "scale"]
    assert len(scaled) == 1  # to free the GPU, before it was put back


def service(**labels: str) -> Object:
    return {"kind": "Service", "metadata": {"name": "vllm", "labels": labels}, "spec": {"selector": {"app": "vllm"}}}


def with_service(place: Place, times: int = 1) -> list[BaselineRestored]:
    async def all_of_it() -> None:
        await place.take()
        try:
            for _ in range(times):
                await place.occupation.service(service())
        finally:
            await place.occupation.give_back()

    asyncio.run(all_of_it())
    return place.restored()


def test_the_service_is_made_once_and_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    restored = with_service(place, 2)
    assert [one.what for one in restored] == ["Service demo/vllm", "Deployment demo/vllm"]
    assert all(one.restored for one in restored)
    assert [verb for verb, kind, _ in place.cluster.writes if kind == "Service"] == ["create", "delete"]


def test_somebody_elses_service_is_neither_changed_nor_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    theirs = place.cluster.create(service(theirs="yes"))
    with pytest.raises(TargetError, match="somebody else made the Service vllm since the survey"):
        with_service(place)
    assert place.cluster.objects["Service", "vllm"] == theirs
    assert place.as_it_was()


def test_a_service_that_was_made_again_by_somebody_else_is_theirs(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def made_again(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("get", "Service"):
            place.cluster.objects["Service", "vllm"] = {**service(), "metadata": {"name": "vllm", "uid": "theirs"}}

    place.cluster.before = made_again
    with pytest.raises(TargetError, match="made again, by somebody else"):
        with_service(place, 2)
    assert place.cluster.objects["Service", "vllm"]["metadata"]["uid"] == "theirs"


def test_a_service_whose_answer_is_lost_is_removed_all_the_same(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def lost(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("create", "Service"):
            raise ClusterError("the connection was reset", unsure=True)

    place.cluster.after = lost
    with pytest.raises(ClusterError, match="reset"):
        with_service(place)
    assert ("Service", "vllm") not in place.cluster.objects
    assert place.as_it_was()
