"""What is known to go wrong with a Deployment of an engine, found before it is applied.

The object may be what a template yielded, or what the API server would make of it (a dry run's answer): defaults that
it would fill in are judged as if they were written.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from runner.engine.environment import is_secret
from runner.spec.kubernetes import LintRule

_DEADLINE_SECONDS: Final = 600
"""Kubernetes' own progressDeadlineSeconds."""
_MUTABLE: Final = frozenset(
    {"latest", "nightly", "main", "master", "dev", "devel", "develop", "edge", "head", "stable", "test", "canary"}
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found: where, and in words with the way out. A note is no error: it could not be
    judged."""

    rule: LintRule
    path: str
    words: str
    severity: Literal["error", "note"] = "error"


def lint(
    deployment: dict[str, Any],
    *,
    startup_seconds: float,
    runtime_classes: Collection[str] | None,
    live: dict[str, Any] | None,
    allow: Collection[LintRule],
    container: str | None = None,
) -> list[Finding]:
    """What the rules that are not in `allow` find.

    `startup_seconds` is the engine's budget, `runtime_classes` are the cluster's (None where it would not say), `live`
    is the object of this name that is there, and `container` names the engine's: only its liveness probe is judged.
    """
    rules: dict[LintRule, Callable[[], Iterator[tuple[str, str]]]] = {
        "replicas-not-one": lambda: _replicas(deployment),
        "rolling-update-on-one-gpu": lambda: _strategy(deployment),
        "progress-deadline-below-startup": lambda: _progress_deadline(deployment, startup_seconds),
        "liveness-kills-slow-start": lambda: _liveness(deployment, startup_seconds, container),
        "mutable-tag": lambda: _tags(deployment),
        "token-in-plain-env": lambda: _tokens(deployment, live),
        "missing-runtime-class": lambda: _runtime_class(deployment, runtime_classes),
        "service-links": lambda: _service_links(deployment),
        "selector-differs": lambda: _selector(deployment, live),
        "container-differs": lambda: _containers_beside(deployment, live, container),
    }
    found = []
    for rule, findings in rules.items():
        if rule in allow:
            continue
        unknown = rule == "missing-runtime-class" and runtime_classes is None
        for path, words in findings():
            off = "" if unknown else f" (this rule is switched off by kubernetes: {{allow: [{rule}]}})"
            found.append(Finding(rule, path, f"{words}{off}", "note" if unknown else "error"))
    return found


def _replicas(deployment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    replicas = _map(deployment.get("spec")).get("replicas", 1)
    if replicas != 1:
        yield (
            "spec.replicas",
            f"{replicas} Pods would share the load, and the counters of one would be compared with the requests to "
            f"all; write replicas: 1",
        )


def _strategy(deployment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    strategy = _map(_map(deployment.get("spec")).get("strategy"))
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    surge = _map(strategy.get("rollingUpdate")).get("maxSurge", "25%")
    if _is_zero(surge):
        return
    said = "no strategy is RollingUpdate, which" if "type" not in strategy else "RollingUpdate"
    yield (
        "spec.strategy",
        f"{said} starts the new Pod before the old one has gone (maxSurge {surge}): it waits for a GPU that the old "
        f"one holds, and neither ever ends; write strategy: {{type: Recreate}}",
    )


def _progress_deadline(deployment: Mapping[str, Any], startup_seconds: float) -> Iterator[tuple[str, str]]:
    spec = _map(deployment.get("spec"))
    given = spec.get("progressDeadlineSeconds")
    deadline = _DEADLINE_SECONDS if given is None else given
    if not _is_number(deadline) or deadline > startup_seconds:
        return
    said = f"is {deadline}" if given is not None else f"is not set, which is {_DEADLINE_SECONDS}"
    yield (
        "spec.progressDeadlineSeconds",
        f"it {said}, and the engine may take {startup_seconds:g} s to start (limits: {{startup-seconds}}): a slow load "
        f"would be called a failure; write more than {math.ceil(startup_seconds)}: "
        f"{{{{ progress_deadline_seconds | tojson }}}} is",
    )


def _liveness(
    deployment: Mapping[str, Any], startup_seconds: float, container: str | None
) -> Iterator[tuple[str, str]]:
    for path, one in _containers(deployment, init=False):
        liveness, startup = one.get("livenessProbe"), one.get("startupProbe")
        if not isinstance(liveness, Mapping) or container not in (None, one.get("name")):
            continue
        if isinstance(startup, Mapping):
            given = _budget(startup)
            said = f"its startup probe gives up, and kills it, after {given:g} s"
        else:
            given = _budget(liveness)
            said = f"without a startup probe, its liveness probe kills it after {given:g} s"
        if given < startup_seconds:
            yield (
                f"{path}.livenessProbe",
                f"the engine may take {startup_seconds:g} s to start (limits: {{startup-seconds}}), and {said}; leave "
                f"the liveness probe out, or give the startup probe periodSeconds times failureThreshold of at least "
                f"that",
            )


def _budget(probe: Mapping[str, Any]) -> float:
    """Seconds that a probe lets pass before the container is killed."""
    numbers = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}
    delay, period, threshold = (probe[key] if _is_number(probe.get(key)) else usual for key, usual in numbers.items())
    return float(delay + period * threshold)


def _tags(deployment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path, one in _containers(deployment):
        image = one.get("image")
        if not isinstance(image, str) or "@sha256:" in image:
            continue
        _, colon, tag = image.rpartition("/")[2].partition(":")
        if colon and tag and tag.lower() not in _MUTABLE and not tag.lower().startswith(("nightly", "latest", "dev-")):
            continue
        said = f'the tag "{tag}"' if tag else 'no tag, which is "latest",'
        yield (
            f"{path}.image",
            f"{image} has {said} that is another image tomorrow: the run could not be repeated; name a release, such "
            f"as vllm/vllm-openai:v0.26.0, or a digest, NAME@sha256:...",
        )


def _tokens(deployment: Mapping[str, Any], live: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    there = [
        (_map(variable).get("name"), _map(variable).get("value"))
        for _, one in _containers(live or {})
        for variable in _list(one.get("env"))
    ]
    for path, one in _containers(deployment):
        for index, variable in enumerate(_list(one.get("env"))):
            name = _map(variable).get("name")
            if isinstance(name, str) and is_secret(name) and _map(variable).get("value"):
                # an apply cannot put a reference in the place of a value that somebody else set
                way = (
                    ", and have it referred to in the Deployment itself, where it comes from"
                    if (name, _map(variable)["value"]) in there
                    else f": kubernetes: {{secrets: {{{name}: {{name: SECRET, key: KEY}}}}}}"
                )
                yield (
                    f"{path}.env[{index}]",
                    f"{name} sounds like a secret, and its value stands in plain sight; put it into a Secret{way}",
                )


def _runtime_class(deployment: Mapping[str, Any], runtime_classes: Collection[str] | None) -> Iterator[tuple[str, str]]:
    named = _pod(deployment).get("runtimeClassName")
    path = "spec.template.spec.runtimeClassName"
    if not named:
        return
    if runtime_classes is None:
        yield path, f"whether the cluster has the RuntimeClass {named} is not known: it would not say"
    elif named not in runtime_classes:
        there = f"it has {', '.join(sorted(runtime_classes))}" if runtime_classes else "it has none"
        yield (
            path,
            f"the cluster has no RuntimeClass {named} ({there}): no Pod would be made; install the runtime's class, or "
            f"leave kubernetes: {{runtime-class-name}} out where the node's own runtime knows the GPU",
        )


def _service_links(deployment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = _pod(deployment).get("enableServiceLinks")
    if given is not False:
        said = "it is not set, which is true" if given is None else f"it is {str(given).lower()}"
        yield (
            "spec.template.spec.enableServiceLinks",
            f"{said}: Kubernetes sets variables for every Service, and those of one called vllm (VLLM_PORT) are read "
            f"by the engine as its own settings; write enableServiceLinks: false",
        )


def _selector(deployment: Mapping[str, Any], live: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if live is None:
        return
    wanted, there = (_map(_map(one.get("spec")).get("selector")) for one in (deployment, live))
    if {key: value for key, value in wanted.items() if value} != {key: value for key, value in there.items() if value}:
        yield (
            "spec.selector",
            f"the Deployment that is there selects {_words(there)}, and this one {_words(wanted)}; a selector "
            f"never changes: write selector: {{{{ selector | tojson }}}}, or choose another kubernetes: {{name}}",
        )


def _containers_beside(
    deployment: Mapping[str, Any], live: Mapping[str, Any] | None, container: str | None
) -> Iterator[tuple[str, str]]:
    """Server-side apply merges containers by name: one of another name is added, and the old one stays."""
    there = [str(_map(one).get("name")) for one in _list(_pod(live or {}).get("containers"))]
    rendered = [str(one.get("name")) for _, one in _containers(deployment, init=False)]
    engine = [container] if container is not None else rendered
    if there and not any(name in there for name in engine):
        yield (
            "spec.template.spec.containers",
            f"{', '.join(engine)} would be added beside {', '.join(there)}, the container of the Deployment that is "
            f"there, and two engines would start; name the one to change: kubernetes: {{container: {there[0]}}}",
        )


def _containers(deployment: Mapping[str, Any], init: bool = True) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in ("containers", "initContainers") if init else ("containers",):
        for index, one in enumerate(_list(_pod(deployment).get(key))):
            if isinstance(one, Mapping):
                yield f"spec.template.spec.{key}[{index}]", one


def _pod(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map(_map(_map(deployment.get("spec")).get("template")).get("spec"))


def _is_zero(amount: Any) -> bool:
    return amount == 0 or (isinstance(amount, str) and amount.strip().rstrip("%") == "0")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(selector: Mapping[str, Any]) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in _map(selector.get("matchLabels")).items())
    return " and ".join(part for part in (labels, "by expressions" * bool(selector.get("matchExpressions"))) if part)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
