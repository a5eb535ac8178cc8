"""One run's hold on a Deployment: what it was, what was written over it, and how it is put back."""

import copy
import json
import time
from collections.abc import Mapping
from typing import Any

from runner.target.kubernetes.belonging import deleting, launch_of
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.difference import RUNTIME, Difference, differences
from runner.target.kubernetes.ownership import owned_by
from runner.target.kubernetes.strategy import preparation

_ATTEMPTS = 20
_BETWEEN = 1.0


class NotOurs(Exception):
    """Somebody else changed the object meanwhile. `theirs` is what they changed, `undone` what a restore over it would
    undo; each one line a field. `deleted`: it is not there any more."""

    def __init__(self, what: str, theirs: list[Difference], undone: list[Difference], *, deleted: bool = False) -> None:
        super().__init__(what)
        self.theirs, self.undone, self.deleted = theirs, undone, deleted

    def lines(self) -> list[str]:
        """Both differences, each under its heading."""
        return [
            *(f"changed by somebody else since this run's last write: {one.one()}" for one in self.theirs),
            *(f"putting the saved object back would change: {one.one()}" for one in self.undone),
        ]


class Hold:
    """Writes to one Deployment, each only over what the write before left. All calls block and raise ClusterError."""

    def __init__(self, cluster: Cluster, name: str, saved: dict[str, Any] | None) -> None:
        """`saved` is the object as it was; None where there was none."""
        self._cluster, self.name, self.saved = cluster, name, saved
        self._last = saved
        self._sent: str | None = None
        self._meant: dict[str, Any] | None = None

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Server-side apply of a condition's manifest. Raises NotOurs where somebody else wrote in between."""
        for attempt in range(_ATTEMPTS):
            try:
                live = self._prepared(manifest)
                fenced = copy.deepcopy(manifest)
                if live is not None:
                    fenced["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
                self._sent = _launch(manifest)
                self._last = self._cluster.apply(fenced, force=True)
            except ClusterError as error:
                # The controller writes its status at any time, which moves the version and nothing else.
                if error.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_BETWEEN / 10)
            else:
                return self._last
        raise AssertionError("the last attempt returns or raises")

    def _prepared(self, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """The live object, ready for the manifest; None where there is none."""
        live = self._cluster.get("Deployment", self.name)
        if live is None:
            if self._last is not None:
                raise self._deleted()
            return None
        self._own(live)
        first = preparation(manifest, live)
        if first is None:
            return live
        self._meant = _with(live, strategy=first["spec"]["strategy"])
        self._last, self._meant = self._cluster.apply(first, force=True), None
        return self._last

    def scale(self, replicas: int) -> dict[str, Any]:
        """Scale the Deployment, and nothing else of it."""
        for attempt in range(_ATTEMPTS):
            live = self._cluster.get("Deployment", self.name)
            if live is None:
                raise self._deleted()
            self._own(live)
            self._meant = _with(live, replicas=replicas)
            try:
                self._cluster.scale(self.name, replicas, resource_version=live["metadata"]["resourceVersion"])
            except ClusterError as error:
                if error.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_BETWEEN / 10)
                continue
            scaled = self._cluster.get("Deployment", self.name)
            if scaled is None:
                raise self._deleted()
            self._own(scaled)
            return scaled
        raise AssertionError("the last attempt returns or raises")

    def untouched(self) -> bool:
        """Whether the object is still, or again, as it was saved, and nothing of it is this run's."""
        live = self._cluster.get("Deployment", self.name)
        return live is not None and self.saved is not None and self._as_saved(live)

    def _as_saved(self, live: dict[str, Any]) -> bool:
        return not differences(self.saved, live, ignore=RUNTIME) and not owned_by(live, MANAGER)

    def made(self) -> dict[str, Any] | None:
        """The Deployment as it is now, where this run made it; None where it did not, or it is gone. Raises NotOurs
        where somebody else changed it since."""
        live = self._cluster.get("Deployment", self.name)
        if live is None or (self._last is None and (self._sent is None or _launch(live) != self._sent)):
            return None
        last = self._last
        if not (deleting(live) and last is not None and live["metadata"]["uid"] == last["metadata"]["uid"]):
            self._own(live)
        return live

    def put_back(self) -> dict[str, Any]:
        """Replace the object by the saved one, and give every field back to its owner; returns it as it is then.

        A replacement makes its writer the owner of what it changes. The second one, which changes nothing, may say who
        owns what: as in the saved object. Raises NotOurs.
        """
        saved = self.saved
        assert saved is not None
        for attempt in range(_ATTEMPTS):
            live = self._cluster.get("Deployment", self.name)
            if live is None:
                raise self._deleted()
            if self._as_saved(live):
                return live
            if differences(saved, live, ignore=RUNTIME):  # else a replacement arrived, and its answer did not
                self._own(live)
            try:
                self._last = self._replace(saved, live)
            except ClusterError as error:
                if error.status is not None and error.status < 500 and error.reason != "Conflict":
                    raise
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_BETWEEN)
        raise ClusterError("the object did not stay as it was put back")

    def _replace(self, saved: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
        body = {key: value for key, value in saved.items() if key != "status"}
        body["metadata"] = {
            **saved["metadata"],
            "resourceVersion": live["metadata"]["resourceVersion"],
            "generation": live["metadata"]["generation"],
        }
        return self._cluster.replace(body)

    def _deleted(self) -> NotOurs:
        return NotOurs(f"the Deployment {self.name} was deleted meanwhile", [], [], deleted=True)

    def _own(self, live: dict[str, Any]) -> None:
        """Raises NotOurs unless the object is as this run left it, but for what its controller writes. A write whose
        answer was lost is known by its launch, or by being just what was meant to be written."""
        last = self._last
        if last is None:
            if _launch(live) is None or _launch(live) != self._sent:
                raise NotOurs(f"somebody else made the Deployment {self.name} meanwhile", [], [])
            return
        if live["metadata"]["uid"] != last["metadata"]["uid"]:
            raise NotOurs(f"the Deployment {self.name} was deleted and made again meanwhile", *self._both(live))
        if not differences(last, live, ignore=RUNTIME):
            return
        if self._meant is not None and not differences(self._meant, live, ignore=RUNTIME):
            self._last, self._meant = live, None
            return
        if self._sent is not None and _launch(live) == self._sent and _launch(last) != self._sent:
            self._last = live
            return
        raise NotOurs(f"somebody else changed the Deployment {self.name} meanwhile", *self._both(live))

    def _both(self, live: dict[str, Any]) -> tuple[list[Difference], list[Difference]]:
        last, saved = self._last, self.saved
        return (
            differences(last, live, ignore=RUNTIME) if last is not None else [],
            differences(live, saved, ignore=RUNTIME) if saved is not None else [],
        )


def _with(live: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """The object as it will be once these fields of its spec are written."""
    return {**live, "spec": {**live["spec"], **spec}}


def _launch(deployment: Mapping[str, Any]) -> str | None:
    """Which launch a Deployment's template is of."""
    return launch_of(deployment["spec"]["template"])


def written_out(saved: Mapping[str, Any]) -> str:
    """The saved object as `kubectl replace` and `kubectl create` take it: without what would forbid that later.
    Who owned which field stays in it, so that nothing is this run's own any more once it is put back."""
    body = {key: value for key, value in saved.items() if key != "status"}
    gone = ("resourceVersion", "uid", "generation", "creationTimestamp")
    body["metadata"] = {key: value for key, value in saved["metadata"].items() if key not in gone}
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"
