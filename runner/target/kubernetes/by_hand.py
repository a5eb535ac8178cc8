"""The commands by which a person puts back what a run changed, as a shell takes them."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from runner.target.kubernetes.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ByHand:
    """`kubectl` on one cluster; `kubeconfig` where the site file names one: else kubectl finds the runner's own."""

    context: str | None
    namespace: str
    kubeconfig: str | None

    @classmethod
    def on(cls, cluster: Cluster, kubeconfig: str | None) -> "ByHand":
        """In a Pod there is no context to name."""
        return cls(None if cluster.in_cluster else cluster.context, cluster.namespace, kubeconfig)

    def remove(self, named: str) -> str:
        """What a run made and nobody had before, as `deployment/NAME`."""
        return self._kubectl("delete", named, "--ignore-not-found")

    def replace(self, deployment: str, saved: Path) -> str:
        """The Deployment in which the conditions ran. Scaled to zero first: a baseline that surges would wait for the
        GPU that the last condition's Pod holds, and never end it."""
        return f"{self._kubectl('scale', 'deployment', deployment, '--replicas=0')} && {self.put_back(saved)}"

    def put_back(self, saved: Path) -> str:
        """A Deployment whose Pods are gone already."""
        return self._kubectl("replace", "-f", str(saved.absolute()))

    def create(self, saved: Path) -> str:
        """A Deployment that is not there any more."""
        return self._kubectl("create", "-f", str(saved.absolute()))

    def _kubectl(self, *words: str) -> str:
        where = [] if self.kubeconfig is None else ["--kubeconfig", self.kubeconfig]
        where += [] if self.context is None else ["--context", self.context]
        return shlex.join(["kubectl", *where, "--namespace", self.namespace, *words])
