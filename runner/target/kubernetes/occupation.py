"""A run's time on a cluster: the baseline saved and probed, its place taken, and given back however the run ends."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from runner.access import OPEN, Access
from runner.record.events import BaselineSaved, Warned
from runner.record.parts import Compared
from runner.target.base import Declined, Stay, TargetError
from runner.target.kubernetes.baseline import compared, deployment_facts, probe_pod, serving_pod, unreached
from runner.target.kubernetes.belonging import pods_of
from runner.target.kubernetes.by_hand import ByHand
from runner.target.kubernetes.calls import Patience, read, written
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.difference import RUNTIME, differences
from runner.target.kubernetes.giving_back import Outcome, Taken, give_back
from runner.target.kubernetes.ground import engine_container, held_by_another
from runner.target.kubernetes.history import forget_launches
from runner.target.kubernetes.hold import Hold, NotOurs, written_out
from runner.target.kubernetes.own_service import OwnService
from runner.target.kubernetes.ownership import owned_by
from runner.target.kubernetes.rolling import rolled_out, selected_pods
from runner.target.kubernetes.rollout import gone
from runner.target.kubernetes.settings import Settings

SAVED = "baseline.json"
_GONE_SECONDS = 120.0
_LOST_SECONDS = 30.0
"""For which the API server may be away before anything is measured."""
_AWAY_SECONDS = 600.0
"""For which the API server may be away while something is given back: a cluster that is started again, or moved."""
_SEEN_SECONDS = 5.0
_POLL = 0.5


class Occupation:
    """Holds the Deployment in which the conditions run, and the baseline where that is another one."""

    def __init__(self, cluster: Cluster, settings: Settings, stay: Stay, access: Access = OPEN) -> None:
        """`access` is for the baseline's engine too: a Deployment with a key is probed with the same one."""
        self._cluster, self._settings, self._stay, self._access = cluster, settings, stay, access
        self._limit = stay.plan.limits.startup_seconds
        self._facts: dict[str, str | None] = {}
        self._commands = ByHand.on(cluster)
        self._taken: list[Taken] = []
        self._service: OwnService | None = None
        self._baseline: Hold | None = None
        self._patience = self._patient(_LOST_SECONDS)
        self.hold = Hold(cluster, settings.name, None)
        """Of the Deployment in which the conditions run."""

    async def save(self) -> None:
        """Keep and probe what is there. Raises Declined where it is not in order: nothing was changed."""
        named = self._settings.baseline
        if named is not None:
            try:
                self._baseline = await self._saved(named.deployment)
            except (TargetError, ClusterError, OSError) as error:
                raise Declined(f"{error}; nothing was changed") from None
            if self._settings.patches:
                self.hold = self._baseline

    async def take_place(self) -> None:
        """Let the baseline give up its GPU, where the conditions run beside it. Raises TargetError."""
        baseline = self._baseline
        if baseline is self.hold:
            return
        if baseline is not None:
            try:
                scaled = await written(lambda: baseline.scale(0))
                await self._gone(scaled)
            except (ClusterError, NotOurs) as error:
                raise TargetError(f"the Deployment {baseline.name} could not be scaled to zero: {error}") from None
        self._take(
            f"Deployment {self._cluster.namespace}/{self.hold.name}",
            "removed",
            self._commands.remove(f"deployment/{self.hold.name}"),
            self._removed,
            self._hastily_removed,
        )

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
        """Make the Service that leads to the conditions' Pods, once; it is removed with the rest. Raises TargetError
        where it is somebody else's."""
        if self._service is None:
            name = manifest["metadata"]["name"]
            service = self._service = OwnService(self._cluster, name, self._stay.run)
            self._take(
                f"Service {self._cluster.namespace}/{name}",
                "removed",
                self._commands.remove(f"service/{name}"),
                lambda: self._service_removed(service),
                lambda: self._hastily_service_removed(service),
            )
        service = self._service
        return await written(lambda: service.make(manifest))

    async def give_back(self) -> None:
        """Put everything back, the last taken first, and say of each whether it is what it was; what fails keeps
        nothing else from being put back. Never raises but for being cancelled, and tells that first."""
        self._patience = self._patient(_AWAY_SECONDS)
        await give_back(self._taken, self._stay.emit)

    async def _saved(self, name: str) -> Hold:
        saved = await read(lambda: self._cluster.get("Deployment", name))
        if saved is None:
            raise TargetError(f"the Deployment {name} is not there any more")
        if owned_by(saved, MANAGER):  # since the survey
            raise TargetError(held_by_another(saved))
        self._facts = await self._look(saved, quiet=True)
        path = self._stay.directory.absolute() / SAVED
        path.touch(mode=0o600)  # it may hold what somebody put into plain variables
        path.write_text(written_out(saved), encoding="utf-8")
        hold = Hold(self._cluster, name, saved)
        commands = self._commands
        self._take(
            f"Deployment {self._cluster.namespace}/{name}",
            "replaced by the saved object",
            commands.replace(name, path) if self._settings.patches else commands.put_back(name, path),
            lambda: self._put_back(hold),
            lambda: self._hastily_put_back(hold),
            facts=self._facts,
            deleted=commands.create(path),
        )
        return hold

    async def _put_back(self, hold: Hold) -> Outcome:
        saved, ask = hold.saved, self._patience.ask
        assert saved is not None
        if hold is self.hold and not await ask(lambda: read(hold.untouched)):
            # A baseline that surges would wait for the GPU that the last condition's Pod holds, and never end it.
            scaled = await ask(lambda: written(lambda: hold.scale(0)))
            try:
                await self._gone(scaled)
            except TargetError as error:  # its node may be lost: the baseline may come up all the same
                self._warn(f"Deployment {self._cluster.namespace}/{hold.name}", f"{error}; it is put back all the same")
        before = await ask(lambda: read(lambda: selected_pods(self._cluster, saved)))
        live = await ask(lambda: written(hold.put_back))
        if hold is self.hold:
            for left_over in await written(lambda: forget_launches(self._cluster, live, self._stay.run)):
                self._warn(f"Deployment {self._cluster.namespace}/{hold.name}", left_over)
        if saved["spec"].get("replicas", 1) > 0:
            await rolled_out(
                self._cluster,
                live,
                container=None,
                limit=self._limit,
                before=before,
                halt=None,
                lost=_AWAY_SECONDS,
            )
        else:
            await self._gone(live)
        after = await ask(lambda: read(lambda: self._cluster.get("Deployment", hold.name)))
        if after is None:
            raise NotOurs(f"the Deployment {hold.name} was deleted meanwhile", [], [], deleted=True)
        left = [one.one() for one in differences(saved, after, ignore=RUNTIME)]
        if owned_by(after, MANAGER):
            left.append(f"fields of it are still owned by {MANAGER}")
        fields = Compared(
            fact="every field and its owner",
            before="as saved",
            after=f"{len(left)} differ" if left else "as saved",
            equal=not left,
        )
        found = [*compared(self._facts, await self._look(after, quiet=False)), fields]
        unlike = [one.fact for one in found[:-1] if one.equal is False]
        reasons = ["fields of it differ"] * bool(left) + [f"not as before: {', '.join(unlike)}"] * bool(unlike)
        return Outcome("; ".join(reasons) or None, tuple(found), tuple(left))

    def _hastily_put_back(self, hold: Hold) -> str:
        if hold is self.hold and not hold.untouched():
            with contextlib.suppress(ClusterError):
                self._seen(hold.scale(0))
        live = hold.put_back()
        if hold is self.hold:
            forget_launches(self._cluster, live, self._stay.run)
        return "the saved object is back, and whether it serves was not waited for"

    def _seen(self, scaled: dict[str, Any]) -> None:
        """Give the Deployment controller a moment to see a write that frees the GPU, before the next one."""
        deadline = time.monotonic() + _SEEN_SECONDS
        while time.monotonic() < deadline:
            live = self._cluster.get("Deployment", scaled["metadata"]["name"]) or scaled
            if (live.get("status") or {}).get("observedGeneration", 0) >= scaled["metadata"]["generation"]:
                return
            time.sleep(_POLL / 5)

    async def _removed(self) -> Outcome:
        """Delete the Deployment that this run made, and wait until its Pods are gone."""
        ask = self._patience.ask
        live = await ask(lambda: read(self.hold.made))
        if live is not None:
            uid = live["metadata"]["uid"]
            await ask(lambda: written(lambda: self._cluster.delete("Deployment", self.hold.name, uid=uid)))
            await self._gone(live)
        return Outcome()

    def _hastily_removed(self) -> str:
        live = self.hold.made()
        if live is not None:
            self._cluster.delete("Deployment", self.hold.name, uid=live["metadata"]["uid"])
        return "it is deleted, and the end of its Pods was not waited for"

    async def _service_removed(self, service: OwnService) -> Outcome:
        await self._patience.ask(lambda: written(service.remove))
        return Outcome()

    @staticmethod
    def _hastily_service_removed(service: OwnService) -> str:
        service.remove()
        return "it is deleted"

    async def _gone(self, deployment: dict[str, Any]) -> None:
        """Wait until no Pod of it runs any more: a GPU is free only then. Raises TargetError."""
        labels = deployment["spec"]["selector"].get("matchLabels") or {}
        grace = deployment["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        deadline = time.monotonic() + grace + _GONE_SECONDS
        sets: dict[str, dict[str, Any]] = {}
        while True:
            for one in await self._listed("ReplicaSet", labels):
                sets[one["metadata"]["uid"]] = one  # one that is deleted may go before its Pods
            pods = pods_of(deployment, sets.values(), await self._listed("Pod", labels))
            left = [pod["metadata"]["name"] for pod in pods if not gone([pod])]
            if not left:
                return
            if time.monotonic() > deadline:
                raise TargetError(f"Pods of {deployment['metadata']['name']} do not end: {', '.join(left)}")
            await asyncio.sleep(_POLL)

    async def _listed(self, kind: str, labels: dict[str, str]) -> list[dict[str, Any]]:
        return await self._patience.ask(lambda: read(lambda: self._cluster.list(kind, labels=labels)))

    def _patient(self, seconds: float) -> Patience:
        about = f"namespace {self._cluster.namespace}"
        return Patience(seconds, lambda why: self._warn(about, f"{why}; waiting for it, for up to {seconds:g} s"))

    def _warn(self, about: str, text: str) -> None:
        """Tell what goes on; that it cannot be recorded keeps nothing from being put back."""
        with contextlib.suppress(Exception):
            self._stay.emit(Warned(source="the cluster", about=about, text=text))

    async def _look(self, deployment: dict[str, Any], *, quiet: bool) -> dict[str, str | None]:
        """The facts of a Deployment and of the engine that it runs. Raises TargetError where that is not in order;
        `quiet`: or where it serves others."""
        name = deployment["metadata"]["name"]
        labels = deployment["spec"]["selector"].get("matchLabels") or {}
        replica_sets = await self._listed("ReplicaSet", labels)
        pods = await self._listed("Pod", labels)
        container = self._settings.container if self._settings.patches else None
        facts = deployment_facts(deployment, replica_sets, container)
        pod = serving_pod(deployment, replica_sets, pods)
        if pod is None and deployment["spec"].get("replicas", 1) > 0:
            raise TargetError(f"the Deployment {name} has no Pod of its newest revision that is Ready")
        if pod is None:
            return facts
        idle_seconds = self._stay.plan.limits.idle_seconds
        patience = idle_seconds if quiet else self._limit
        probed = await probe_pod(self._cluster, deployment, pod, patience, idle_seconds, container, self._access)
        unmet = probed.unmet or (probed.busy if quiet else None)
        if unmet is not None:
            raise TargetError(f"the Deployment {name}: {unmet}")
        if quiet and self._settings.transport == "pod-ip":
            lost = await unreached(deployment, pod, container, self._access)
            if lost is not None:
                raise TargetError(
                    f"the Deployment {name}: {lost}, and nor would the conditions'. Run on the cluster's node or in "
                    f"the cluster, or choose another way: kubernetes: {{transport: node-port}}"
                )
        return {**facts, **probed.facts}

    def _take(
        self,
        what: str,
        how: str,
        by_hand: str,
        back: Callable[[], Awaitable[Outcome]],
        hastily: Callable[[], str],
        facts: dict[str, str | None] | None = None,
        deleted: str | None = None,
    ) -> None:
        """Say what is about to be taken, and from then on give it back."""
        existed = facts is not None
        saved = BaselineSaved(
            what=what,
            existed=existed,
            how=how,
            facts=facts or {},
            artifact=SAVED if existed else None,
            by_hand=by_hand,
        )
        self._taken.append(Taken(saved, back, hastily, deleted or by_hand))
        self._stay.emit(saved)
