"""A run's time on a cluster: the baseline saved and probed, its place taken, and given back however the run ends."""

import asyncio
import shlex
import time
from typing import Any

from runner.record.events import BaselineRestored, BaselineSaved, Compared
from runner.target.base import Declined, Stay, TargetError
from runner.target.kubernetes.baseline import compared, deployment_facts, probe_pod, serving_pod
from runner.target.kubernetes.calls import read, written
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.difference import RUNTIME, differences
from runner.target.kubernetes.ground import engine_container
from runner.target.kubernetes.hold import Hold, NotOurs, written_out
from runner.target.kubernetes.ownership import owned_by
from runner.target.kubernetes.rolling import pods_of, rolled_out
from runner.target.kubernetes.settings import Settings

SAVED = "baseline.json"
_GONE_SECONDS = 120.0
_POLL = 0.5


class Occupation:
    """Holds the Deployment in which the conditions run, and the baseline where that is another one."""

    def __init__(self, cluster: Cluster, settings: Settings, stay: Stay) -> None:
        self._cluster, self._settings, self._stay = cluster, settings, stay
        self._limit = stay.plan.limits.startup_seconds
        self._facts: dict[str, str | None] = {}
        self._by_hand = ""
        self._services: list[dict[str, Any]] = []
        self.baseline: Hold | None = None
        self.hold: Hold
        """Of the Deployment in which the conditions run."""

    @property
    def _separate(self) -> bool:
        """Whether the conditions run in a Deployment of their own, which is removed afterwards."""
        return self.baseline is not self.hold

    async def save(self) -> None:
        """Keep and probe what is there. Raises Declined where it is not in order: nothing was changed."""
        named = self._settings.baseline
        if named is None:
            self.hold = Hold(self._cluster, self._settings.name, None)
        else:
            try:
                await self._saved(named.deployment)
            except (TargetError, ClusterError) as error:
                raise Declined(f"{error}; nothing was changed") from None
            assert self.baseline is not None
            patched = named.take_over == "patch"
            self.hold = self.baseline if patched else Hold(self._cluster, self._settings.name, None)
        self._stay.emit(self._event())

    async def take_place(self) -> None:
        """Let the baseline give up its GPU, where the conditions run beside it. Raises TargetError."""
        if self.baseline is None or not self._separate:
            return
        baseline = self.baseline
        try:
            scaled = await written(lambda: baseline.scale(0))
            await self._gone(scaled)
        except (ClusterError, NotOurs) as error:
            raise TargetError(f"the Deployment {baseline.name} could not be scaled to zero: {error}") from None

    @property
    def selector(self) -> dict[str, Any] | None:
        """What the Deployment selects its Pods by, which cannot be changed; None where it is not there yet."""
        selector: dict[str, Any] | None = None if self.hold.saved is None else self.hold.saved["spec"]["selector"]
        return selector

    @property
    def container(self) -> str:
        """The name of the engine's container."""
        return engine_container(self._settings, self.hold.saved)

    async def service(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Make the Service that leads to the conditions' Pods; it is removed with the rest."""
        return await written(lambda: self._made(manifest))

    def _made(self, manifest: dict[str, Any]) -> dict[str, Any]:
        made = self._cluster.apply(manifest)
        known = {one["metadata"]["uid"] for one in self._services}
        if made["metadata"]["uid"] not in known:
            self._services.append(made)
        return made

    async def give_back(self) -> None:
        """Put everything back, and say whether it is what it was. Never raises but for being cancelled, which is told
        first."""
        started = time.monotonic()

        def tell(reason: str | None, found: list[Compared], differing: list[str]) -> None:
            self._stay.emit(
                BaselineRestored(
                    what=self._what,
                    how=self._how,
                    restored=reason is None,
                    reason=reason,
                    compared=found,
                    differences=differing,
                    by_hand=self._by_hand,
                    seconds=round(time.monotonic() - started, 3),
                )
            )

        try:
            tell(*await self._given_back())
        except asyncio.CancelledError:
            tell("interrupted before it was done", [], [])
            raise
        except NotOurs as error:
            tell(str(error), [], error.lines())
        except (ClusterError, TargetError) as error:
            tell(str(error), [], [])

    async def _given_back(self) -> tuple[str | None, list[Compared], list[str]]:
        """Why it is not restored (None: it is), the facts before and after, and fields that differ."""
        left_behind = await written(self._services_removed)
        if self._separate:
            await self._removed()
        if self.baseline is None:
            return left_behind, [], []
        baseline, saved = self.baseline, self.baseline.saved
        assert saved is not None
        if not self._separate and not await read(baseline.untouched):
            # A baseline that surges would wait for the GPU that the last condition's Pod holds, and never end it.
            await self._gone(await written(lambda: baseline.scale(0)))
        before = await read(lambda: pods_of(self._cluster, saved))
        live = await written(baseline.put_back)
        if saved["spec"].get("replicas", 1) > 0:
            await rolled_out(self._cluster, live, container=None, limit=self._limit, before=before)
        else:
            await self._gone(live)
        after = await read(lambda: self._cluster.get("Deployment", baseline.name))
        if after is None:
            raise NotOurs("it was deleted meanwhile", [], [])
        facts = await self._look(after, self._limit)
        left = [one.one() for one in differences(saved, after, ignore=RUNTIME)]
        if owned_by(after, MANAGER):
            left.append(f"fields of it are still owned by {MANAGER}")
        found = compared(self._facts, facts)
        unlike = [one.fact for one in found if one.equal is False]
        reasons = ["fields of it differ"] * bool(left) + [f"not as before: {', '.join(unlike)}"] * bool(unlike)
        reasons += [left_behind] * (left_behind is not None)
        return "; ".join(reasons) or None, found, left

    async def _removed(self) -> None:
        """Delete what this run made, and wait until its Pods are gone."""
        live = await read(lambda: self._cluster.get("Deployment", self.hold.name))
        if live is not None and self.hold.is_last(live):
            uid = live["metadata"]["uid"]
            await written(lambda: self._cluster.delete("Deployment", self.hold.name, uid=uid))
            await self._gone(live)

    def _services_removed(self) -> str | None:
        """Delete the Services that this run made; what could not be removed, which keeps nothing else from being put
        back."""
        try:
            for service in self._services:
                self._cluster.delete("Service", service["metadata"]["name"], uid=service["metadata"]["uid"])
        except ClusterError as error:
            return f"a Service of this run is still there: {error}"
        return None

    async def _gone(self, deployment: dict[str, Any]) -> None:
        """Wait until no Pod of it is left: a GPU is free only then. Raises TargetError."""
        labels = deployment["spec"]["selector"].get("matchLabels") or {}
        grace = deployment["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        deadline = time.monotonic() + grace + _GONE_SECONDS
        while pods := await read(lambda: self._cluster.list("Pod", labels=labels)):
            if time.monotonic() > deadline:
                names = ", ".join(pod["metadata"]["name"] for pod in pods)
                raise TargetError(f"Pods of {deployment['metadata']['name']} do not end: {names}")
            await asyncio.sleep(_POLL)

    @property
    def _what(self) -> str:
        name = self.hold.name if self.baseline is None else self.baseline.name
        return f"Deployment {self._cluster.namespace}/{name}"

    @property
    def _how(self) -> str:
        if self.baseline is None:
            return "removed: it did not exist before"
        return "scaled back, and compared" if self._separate else "replaced by the saved object"

    def _event(self) -> BaselineSaved:
        where = ["--context", self._cluster.context, "--namespace", self._cluster.namespace]
        free = ""
        if self.baseline is None:
            words = ["kubectl", *where, "delete", "deployment", self.hold.name]
        else:
            free = shlex.join(["kubectl", *where, "scale", "deployment", self.baseline.name, "--replicas=0"])
            words = ["kubectl", *where, "replace", "-f", str(self._stay.directory.absolute() / SAVED)]
        self._by_hand = f"{free} && {shlex.join(words)}" if free else shlex.join(words)
        return BaselineSaved(
            what=self._what,
            existed=self.baseline is not None,
            how=self._how,
            facts=self._facts,
            artifact=SAVED if self.baseline is not None else None,
            by_hand=self._by_hand,
        )

    async def _saved(self, name: str) -> None:
        saved = await read(lambda: self._cluster.get("Deployment", name))
        if saved is None:
            raise TargetError(f"the Deployment {name} is not there any more")
        self.baseline = Hold(self._cluster, name, saved)
        self._facts = await self._look(saved, self._stay.plan.limits.idle_seconds)
        path = self._stay.directory / SAVED
        path.touch(mode=0o600)  # it may hold what somebody put into plain variables
        path.write_text(written_out(saved), encoding="utf-8")

    async def _look(self, deployment: dict[str, Any], patience: float) -> dict[str, str | None]:
        """The facts of a Deployment and of the engine that it runs. Raises TargetError where that is not in order."""
        labels = deployment["spec"]["selector"].get("matchLabels") or {}
        replica_sets = await read(lambda: self._cluster.list("ReplicaSet", labels=labels))
        pods = await read(lambda: self._cluster.list("Pod", labels=labels))
        facts = deployment_facts(deployment, replica_sets)
        pod = serving_pod(deployment, replica_sets, pods)
        if pod is None and deployment["spec"].get("replicas", 1) > 0:
            raise TargetError(f"the Deployment {deployment['metadata']['name']} has no Pod that is Ready")
        if pod is None:
            return facts
        probed = await read(lambda: probe_pod(self._cluster, deployment, pod, patience))
        if probed.unmet is not None:
            raise TargetError(f"the Deployment {deployment['metadata']['name']}: {probed.unmet}")
        return {**facts, **probed.facts}
