"""The commands by which a person puts back what a run changed, as a shell takes them."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from runner.target.kubernetes.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ByHand:
    """`kubectl` on one cluster, whatever shell it is given to: another kubeconfig may have a context of the same
    name."""

    context: str | None
    namespace: str
    kubeconfig: str | None

    @classmethod
    def on(cls, cluster: Cluster) -> "ByHand":
        """In a Pod without a kubeconfig there is no context to name."""
        return cls(None if cluster.kubeconfig is None else cluster.context, cluster.namespace, cluster.kubeconfig)

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
        several = self.kubeconfig is not None and os.pathsep in self.kubeconfig
        start = ["env", f"KUBECONFIG={self.kubeconfig}", "kubectl"] if several else ["kubectl"]
        where = ["--kubeconfig", self.kubeconfig] if self.kubeconfig is not None and not several else []
        where += [] if self.context is None else ["--context", self.context]
        return shlex.join([*start, *where, "--namespace", self.namespace, *words])
