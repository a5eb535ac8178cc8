"""What is there before a run: whether the plan can be carried out here, and what it would change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.plan.model import Arm, Plan
from runner.target.base import Survey
from runner.target.kubernetes.baseline import main_container
from runner.target.kubernetes.belonging import launch_of
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.difference import RUNTIME, Difference, differences
from runner.target.kubernetes.either_or import clashes
from runner.target.kubernetes.hidden import variables
from runner.target.kubernetes.leftover import leftovers, unlike
from runner.target.kubernetes.lint import lint
from runner.target.kubernetes.neighbours import holders, is_gpu
from runner.target.kubernetes.ownership import autoscalers, conflicts, external_owners, is_hand, owned_by
from runner.target.kubernetes.render import PREFIX, RUN, Rendered, RenderError, render
from runner.target.kubernetes.settings import Settings
from runner.target.kubernetes.strategy import for_dry_run

_DRY = "dry-run"


@dataclass
class Ground:
    """The survey of one plan on one cluster. Everything blocks, and nothing is changed."""

    cluster: Cluster
    settings: Settings
    plan: Plan
    found: Survey = field(default_factory=Survey)
    baseline: dict[str, Any] | None = None
    """The Deployment that is there, as it was surveyed."""
    own_env: frozenset[str] = frozenset()
    """The variables that the conditions set: only their values are shown."""

    def survey(self) -> Survey:
        """Look at everything; what makes no sense to look at after a problem is left out. Raises ClusterError."""
        self.found.facts.update(
            {
                "context": self.cluster.context,
                "namespace": self.cluster.namespace,
                "server": f"{self.cluster.server}, Kubernetes {self.cluster.version}",
            }
        )
        baseline = self.baseline = self._baseline()
        if self.found.problems or self.found.refusals:
            return self.found
        live = baseline if self.settings.patches else None
        if not self.settings.patches:
            self._unmade("Deployment", self.settings.name)
        if self.settings.through_service:
            self._unmade("Service", self.settings.service)
        rendered = [(arm, self._rendered(arm, live)) for arm in self.plan.arms]
        self.own_env = frozenset[str]().union(*(variables(one.deployment) for _, one in rendered if one is not None))
        if not self.found.problems:
            classes = self._runtime_classes()
            for _, one in rendered:
                assert one is not None
                self._lint(one.deployment, live, classes)
        if self.found.problems or self.found.refusals:
            return self.found
        results = {}
        for arm, one in rendered:
            assert one is not None
            result = self._dry_run(arm, one)
            if result is None:
                continue
            results[arm.id] = result
            # what is kept of the object that is there is judged as well
            self._lint(result, live, classes)
            if arm.id == self.plan.baseline and baseline is not None:
                self.found.differences.extend(one.one() for one in self._differing(baseline, result))
        if live is not None:
            self._kept(live, {arm.id: one.deployment for arm, one in rendered if one is not None}, results)
        self._contrasts(results)
        if baseline is not None:
            self._changes(baseline)
        self._holders()
        return self.found

    def _baseline(self) -> dict[str, Any] | None:
        named = self.settings.baseline
        if named is None:
            return None
        live = self.cluster.get("Deployment", named.deployment)
        if live is None:
            there = ", ".join(one["metadata"]["name"] for one in self.cluster.list("Deployment")) or "none"
            self.found.problems.append(
                f"the baseline, Deployment {named.deployment}, does not exist in the namespace "
                f"{self.cluster.namespace}; Deployments there: {there}"
            )
            return None
        if owned_by(live, MANAGER):
            self.found.refusals.append(held_by_another(live))
        if live["spec"].get("paused"):
            self.found.refusals.append(
                f"the Deployment {named.deployment} is paused, so nothing of it is rolled out, and what its template "
                f"says need not be what runs: kubectl rollout resume deployment/{named.deployment} first"
            )
        for owner in external_owners(live):
            if owner.fights:
                self.found.refusals.append(
                    f"the Deployment {named.deployment} is not only yours: {owner.words()}. It would undo every "
                    f"condition; pause that first"
                )
            else:
                self.found.notes.append(f"the Deployment {named.deployment}: {owner.words()}")
        for scaler in self._autoscalers(named.deployment):
            self.found.refusals.append(
                f"the Deployment {named.deployment} is scaled by the {scaler}, which would start a second engine, or "
                f"end one; remove it for the time"
            )
        return live

    def _autoscalers(self, name: str) -> list[str]:
        try:
            return autoscalers(self.cluster.list("HorizontalPodAutoscaler"), name)
        except ClusterError as error:
            self.found.notes.append(f"whether an autoscaler changes {name} is not known: {error}")
            return []

    def _unmade(self, kind: str, name: str) -> None:
        """What the run makes is not there yet: what somebody else made is never removed."""
        there = self.cluster.get(kind, name)
        if there is None:
            return
        if owned_by(there, MANAGER):
            self.found.refusals.append(left_by_another(kind, there))
            return
        take = f"to run the conditions in it, say kubernetes: {{baseline: {{deployment: {name}}}}}, else "
        self.found.refusals.append(
            f"the {kind} {name} exists already; {take if kind == 'Deployment' else ''}give the conditions' another "
            f"name: kubernetes: {{name: ...}}"
        )

    def _rendered(self, arm: Arm, live: dict[str, Any] | None) -> Rendered | None:
        selector = None if live is None else live["spec"]["selector"]
        container = engine_container(self.settings, live)
        try:
            found = render(self.settings, self.plan, arm, selector=selector, launch=_DRY, run=_DRY, container=container)
        except RenderError as error:
            self.found.problems.append(str(error))
            return None
        for clash in [] if live is None else clashes(found.deployment, live):
            self._once(self.found.problems, clash.words())
        return found

    def _runtime_classes(self) -> set[str] | None:
        try:
            return {one["metadata"]["name"] for one in self.cluster.list("RuntimeClass")}
        except ClusterError:
            return None

    def _lint(self, deployment: dict[str, Any], live: dict[str, Any] | None, classes: set[str] | None) -> None:
        for finding in lint(
            deployment,
            startup_seconds=self.plan.limits.startup_seconds,
            runtime_classes=classes,
            live=live,
            allow=self.settings.allow,
            container=engine_container(self.settings, live),
        ):
            line = f"{finding.rule}: {finding.path}: {finding.words}"
            self._once(self.found.problems if finding.severity == "error" else self.found.notes, line)

    def _dry_run(self, arm: Arm, rendered: Rendered) -> dict[str, Any] | None:
        """What the server would make of the manifest, and whose fields that would take; None where it must not, or
        cannot, be."""
        manifest = rendered.deployment
        live = self.cluster.get("Deployment", self.settings.name) if self.settings.patches else None
        asked = for_dry_run(manifest, live)
        if asked is not manifest:
            self._once(self.found.changes, "taken over for the time: spec.strategy.type, to be Recreate")
        try:
            result = self.cluster.apply(asked, dry_run=True)
        except ClusterError as error:
            if error.reason != "Conflict":
                self.found.problems.append(f"the server does not take the condition `{arm.label}`: {error}")
                return None
            if not self._taken_over(error):
                return None
            try:
                result = self.cluster.apply(asked, force=True, dry_run=True)
            except ClusterError as second:
                self.found.problems.append(f"the server does not take the condition `{arm.label}`: {second}")
                return None
        result["spec"]["strategy"] = manifest["spec"].get("strategy", result["spec"]["strategy"])
        return result

    def _taken_over(self, error: ClusterError) -> bool:
        """List the fields that would be taken: from the user's own hands, which is told; from nobody else."""
        foreign = False
        for one in conflicts(error.causes):
            if is_hand(one.manager):
                self._once(self.found.changes, f"taken over from {one.manager}: {one.field}")
            else:
                foreign = True
                self._once(
                    self.found.refusals,
                    f"the field {one.field} is owned by {one.manager}, and not by a person's kubectl: it would be "
                    f"taken from that. Leave it out of what is rendered, or run the conditions beside it: kubernetes: "
                    f"{{baseline: {{take-over: scale-to-zero}}}}",
                )
        return not foreign

    def _differing(self, baseline: dict[str, Any], result: dict[str, Any]) -> Iterator[Difference]:
        before, after = baseline, result
        if not self.settings.patches:
            before, after = (
                {"spec": {"template": {"spec": one["spec"]["template"]["spec"]}}} for one in (before, after)
            )
        for one in differences(before, after, ignore=RUNTIME, own_env=self.own_env):
            # the limit is of the run's time alone, as its annotation is
            if PREFIX not in one.path and one.path != "spec.revisionHistoryLimit":
                yield one

    def _kept(
        self, live: dict[str, Any], manifests: Mapping[str, dict[str, Any]], results: Mapping[str, dict[str, Any]]
    ) -> None:
        """What each condition leaves as it is; what only some of them leave would not stay so."""
        kept = {arm: leftovers(manifests[arm], result, live=live) for arm, result in results.items()}
        label = {arm.id: arm.label for arm in self.plan.arms}
        shared = unlike(kept, manifests)
        for one in shared:
            self.found.problems.append(
                f"`{label[one.kept]}` keeps {one.path} of the Deployment that is there, and `{label[one.rendered]}` "
                f"writes it: from then on `{label[one.kept]}` would run without it. Say it for every "
                f"condition: in kubernetes: (a variable: {{env: ...}}), or in the template"
            )
        apart = {one.path for one in shared}
        for leftover in kept.get(self.plan.baseline, []):
            if leftover.path not in apart:
                self.found.notes.append(f"kept from the baseline, in every condition alike: {leftover.one()}")

    def _contrasts(self, results: Mapping[str, dict[str, Any]]) -> None:
        """In what the conditions differ, as the server would have them: that, and nothing else, is compared."""
        first = results.get(self.plan.baseline)
        for arm in self.plan.others:
            if first is None or arm.id not in results:
                continue
            for one in differences(first, results[arm.id], ignore=RUNTIME, own_env=self.own_env):
                if PREFIX not in one.path:
                    base = self.plan.arm(self.plan.baseline).label
                    self.found.notes.append(f"`{arm.label}` differs from `{base}`: {one.one()}")

    def _changes(self, baseline: dict[str, Any]) -> None:
        name = f"Deployment {self.cluster.namespace}/{baseline['metadata']['name']}"
        if self.settings.patches:
            count = len(self.plan.launches)
            first = f"{name}: patched and rolled out {count} time{'s' * (count > 1)}, then replaced by what it is now"
        else:
            first = f"{name}: scaled from {baseline['spec'].get('replicas', 1)} to 0 for the time of the run, then back"
        self.found.changes.insert(0, first)

    def _holders(self) -> None:
        for resource in self.settings.limits:
            if not is_gpu(resource):
                continue
            try:
                pods = self.cluster.list("Pod", everywhere=True)
            except ClusterError as error:
                self.found.notes.append(f"who holds {resource} is not known: {error}")
                return
            for holder in holders(pods, resource):
                self.found.notes.append(f"{resource} is held by {holder}")

    @staticmethod
    def _once(lines: list[str], line: str) -> None:
        if line not in lines:
            lines.append(line)


def engine_container(settings: Settings, live: dict[str, Any] | None) -> str:
    """The name of the engine's container: as the settings say, else that of the Deployment that is taken over, else
    the Deployment's own."""
    if settings.container is not None:
        return settings.container
    return settings.name if live is None else str(main_container(live)["name"])


def held_by_another(live: dict[str, Any]) -> str:
    """Why a Deployment of which fields are a run's must not be touched, and the way out."""
    return (
        f"the Deployment {live['metadata']['name']} is held by {_another_run(live)}, or by one that was killed and "
        f"left it so: fields of it are owned by {MANAGER}. {_AFTER_IT}the command that puts the saved object back, the "
        f"baseline.json beside it"
    )


def left_by_another(kind: str, there: dict[str, Any]) -> str:
    """Why an object of the conditions' own name, which a run made, must not be touched, and the way out."""
    return (
        f"the {kind} {there['metadata']['name']} exists already: it was made by {_another_run(there)}, or by one that "
        f"was killed and left it. {_AFTER_IT}the command that removes it, and the one that puts back what that run "
        f"scaled to zero"
    )


_AFTER_IT = (
    "Wait for that run; if there is none any more, `run report` with that run's directory makes its report, and tells "
)


def _another_run(thing: dict[str, Any]) -> str:
    """A run by its name, where the object says it: by its template's launch, or by its own label."""
    launch = launch_of((thing.get("spec") or {}).get("template") or {})
    run = (thing["metadata"].get("labels") or {}).get(RUN) if launch is None else launch.rpartition(".")[0]
    return "another run" if run is None else f"another run, {run}"
