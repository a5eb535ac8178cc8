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
        free = self._kubectl("scale", "deployment", deployment, "--replicas=0")
        return f"{free} && {self.put_back(deployment, saved)}"

    def put_back(self, deployment: str, saved: Path) -> str:
        """A Deployment whose Pods are gone already."""
        return self._raw("replace", f"/{deployment}", saved)

    def create(self, saved: Path) -> str:
        """A Deployment that is not there any more."""
        return self._raw("create", "", saved)

    def _raw(self, verb: str, path: str, saved: Path) -> str:
        """Of the very object: kubectl's plain `replace` and `create` write all of it into its annotation
        last-applied-configuration, and its owner's next `kubectl apply` would take away what is not in their file.
        The answer is the whole object, which is nothing to look at."""
        deployments = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        return f"{self._kubectl(verb, '--raw', deployments + path, '-f', str(saved.absolute()))} >/dev/null"

    def _kubectl(self, *words: str) -> str:
        where = [] if self.kubeconfig is None else ["--kubeconfig", self.kubeconfig]
        where += [] if self.context is None else ["--context", self.context]
        return shlex.join(["kubectl", *where, "--namespace", self.namespace, *words])
