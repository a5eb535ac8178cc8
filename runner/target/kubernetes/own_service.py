"""The Service that a run makes for its own Pods: created, never put over somebody else's, and removed."""

from typing import Any

from runner.target.base import TargetError
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.render import RUN, label_value


class OwnService:
    """One Service of one run. All calls block and raise ClusterError."""

    def __init__(self, cluster: Cluster, name: str, run: str) -> None:
        self._cluster, self._name, self._run = cluster, name, label_value(run)
        self._made: dict[str, Any] | None = None

    def make(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The Service, made at the first call. Raises TargetError where it is somebody else's."""
        if self._made is None:
            self._made = self._create(manifest)
        elif self.live() is None:
            raise TargetError(f"the Service {self._name} was deleted meanwhile, or made again, by somebody else")
        return self._made

    def _create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        metadata = manifest["metadata"]
        labels = {**(metadata.get("labels") or {}), RUN: self._run}
        try:
            return self._cluster.create({**manifest, "metadata": {**metadata, "labels": labels}})
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
        own = self.live()
        if own is None:
            raise TargetError(
                f"somebody else made the Service {self._name} since the survey; it is left as it is: give the "
                f"conditions' another name: kubernetes: {{name: ...}}"
            )
        return own

    def live(self) -> dict[str, Any] | None:
        """The Service as it is, where it is this run's: by its UID, and where the answer was lost, by the run's
        label."""
        live, made = self._cluster.get("Service", self._name), self._made
        if live is None:
            return None
        if made is not None:
            return live if live["metadata"]["uid"] == made["metadata"]["uid"] else None
        return live if (live["metadata"].get("labels") or {}).get(RUN) == self._run else None

    def remove(self) -> None:
        """Delete it, where it is this run's."""
        live = self.live()
        if live is not None:
            self._cluster.delete("Service", self._name, uid=live["metadata"]["uid"])
