"""From settings, plan and condition to the objects that a cluster is sent, by Jinja templates that are reviewed.

Values are put into a template as JSON, which is YAML, and what comes out is compared with what was planned: a
container that would not get exactly the planned words is an error, not an experiment.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from jinja2 import (
    ChoiceLoader,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from runner.plan.model import Arm, Plan
from runner.resources import resource
from runner.spec.kubernetes_meaning import CACHE, SHM
from runner.target.kubernetes.belonging import LAUNCH
from runner.target.kubernetes.settings import CACHE_PATH, CACHE_VARIABLE, SHM_PATH, Settings

MANAGED_BY: Final = "llm-experiment-runner"
PREFIX: Final = f"{MANAGED_BY}/"
RUN: Final = f"{PREFIX}run"
"""The label of a run's objects."""

KEEP_HISTORY: Final = 2**31 - 1
"""The `revisionHistoryLimit` at which Kubernetes removes no old ReplicaSet: those of a Deployment that is taken over
are what its owner can roll back to, and each launch adds one."""

_SERVICE_TYPES: Final = {"node-port": "NodePort"}
_HEALTH: Final = "/health"
_PERIOD_SECONDS: Final = 5
_TIMEOUT_SECONDS: Final = 5
_ROLLOUT_SECONDS: Final = 120
"""What a rollout may take beside the engine's start and the old one's end: to schedule, and to mount."""
_HANDLERS: Final = frozenset({"httpGet", "exec", "tcpSocket", "grpc"})
_WAY_OUT: Final = "; docs/kubernetes.md says what a template must yield"
# JSON allows these raw; YAML reads them as line ends, or not at all
_NOT_YAML: Final = re.compile("[\x7f-\x9f\u00ad\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class RenderError(Exception):
    """A template that does not yield what it must. The text names the file, the line where one is known, and the way
    out."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of one condition, as the API takes them."""

    deployment: dict[str, Any]
    service: dict[str, Any]


def render(
    settings: Settings,
    plan: Plan,
    arm: Arm,
    *,
    selector: dict[str, Any] | None,
    launch: str | None,
    run: str,
    container: str | None = None,
) -> Rendered:
    """The objects of a condition.

    `selector` is the `spec.selector` of a Deployment that is taken over: it cannot be changed, and what is not ours of
    its labels stays as it is. `container` is the name of that one's container, used where the settings name none.
    `launch` tells one start from the next and `run` is the run's id; without them, as in a plan, the objects have
    neither. Raises RenderError.
    """
    context = context_of(settings, plan, arm, selector=selector, launch=launch, run=run, container=container)
    deployment_file, service_file = settings.templates.deployment, settings.templates.service
    deployment = _Template("deployment.yaml.j2", deployment_file).yields(context, "Deployment", settings.name)
    _check_deployment(deployment, context, deployment_file or "templates/kubernetes/deployment.yaml.j2")
    service = _Template("service.yaml.j2", service_file).yields(context, "Service", settings.service)
    return Rendered(deployment, service)


def container_words(settings: Settings, plan: Plan, arm: Arm) -> list[str]:
    """The words that the engine gets as its arguments, after `settings.command`."""
    return [plan.model, *arm.argv, "--host", "0.0.0.0", "--port", str(settings.port)]


def literal(text: str) -> str:
    """A text as Kubernetes must be given it: in a container's command, args and env it replaces $(NAME), and reads $$
    as one $."""
    return text.replace("$", "$$")


def label_value(text: str) -> str:
    """A text as the value of a label. One that had to be changed ends with a piece of its digest, so that two texts
    stay two values."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:54].strip("-._")
    return f"{plain}-{digest}" if plain else digest


def context_of(
    settings: Settings,
    plan: Plan,
    arm: Arm,
    *,
    selector: dict[str, Any] | None,
    launch: str | None,
    run: str,
    container: str | None,
) -> dict[str, Any]:
    """What a template sees; `docs/kubernetes.md` has the same table in words."""
    own = {f"{PREFIX}experiment": label_value(plan.name), f"{PREFIX}arm": label_value(arm.id)}
    if run:
        own[RUN] = label_value(run)
    names = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": label_value(settings.name)}
    standard = {**names, "app.kubernetes.io/managed-by": MANAGED_BY}
    chosen = {"matchLabels": names} if selector is None else selector
    pod_selector = dict(chosen.get("matchLabels") or {})
    shm_mounted = any(mount.get("mountPath") == SHM_PATH for mount in settings.volume_mounts)
    return {
        "name": settings.name,
        "service": settings.service,
        "container": settings.container or container or settings.name,
        "namespace": settings.namespace,
        # of somebody else's Deployment nothing is labelled but the Pods of the run
        "labels": standard if selector is None else {},
        "pod_labels": {**(standard if selector is None else {}), **pod_selector, **own},
        "service_labels": {**standard, **own},
        "annotations": {LAUNCH: launch} if launch else {},
        "selector": chosen,
        # what a Service takes: the run's label keeps it from Pods that are not of this run, and a selector of
        # expressions alone has no labels to give
        "pod_selector": {**pod_selector, **{name: value for name, value in own.items() if name == RUN}} or own,
        "replicas": settings.replicas,
        "image": settings.image,
        "image_pull_policy": settings.image_pull_policy,
        "image_pull_secrets": list(settings.image_pull_secrets),
        "command": [literal(word) for word in settings.command],
        "args": [literal(word) for word in container_words(settings, plan, arm)],
        "model": plan.model,
        "argv": list(arm.argv),
        "arm": arm.id,
        "experiment": plan.name,
        "run": run,
        "port": settings.port,
        "env": {name: literal(value) for name, value in {**_made_env(settings), **settings.env, **arm.env}.items()},
        "secrets": {name: {"name": one.name, "key": one.key} for name, one in settings.secrets.items()},
        "resources": _filled({"limits": settings.limits, "requests": settings.requests, "claims": settings.claims}),
        "runtime_class_name": settings.runtime_class_name,
        "node_selector": dict(settings.node_selector),
        "tolerations": list(settings.tolerations),
        "volumes": [*settings.volumes, *_made_volumes(settings, shm_mounted)],
        "volume_mounts": [*settings.volume_mounts, *_made_mounts(settings, shm_mounted)],
        "shm": settings.shm,
        "cache": settings.cache,
        "probes": _probes(settings, plan),
        "startup_seconds": plan.limits.startup_seconds,
        "revision_history_limit": None if selector is None else KEEP_HISTORY,
        "progress_deadline_seconds": progress_deadline(settings, plan),
        "termination_grace_seconds": settings.termination_grace_seconds,
        "service_type": _SERVICE_TYPES.get(settings.transport, "ClusterIP"),
        "values": dict(arm.template_values),
        "launch": launch,
    }


def progress_deadline(settings: Settings, plan: Plan) -> int:
    """Seconds after which Kubernetes may call a rollout stuck: the old engine's end, the new one's start, and what is
    between."""
    return math.ceil(plan.limits.startup_seconds) + settings.termination_grace_seconds + _ROLLOUT_SECONDS


def _probes(settings: Settings, plan: Plan) -> dict[str, Any]:
    ask = {"httpGet": {"path": _HEALTH, "port": settings.port}, "periodSeconds": _PERIOD_SECONDS}
    # As many as the time allows, however often the author would have it asked.
    period = (settings.probes.get("startup") or {}).get("periodSeconds")
    each = period if isinstance(period, int) and period > 0 else _PERIOD_SECONDS
    attempts = math.ceil(plan.limits.startup_seconds / each)
    usual: dict[str, dict[str, Any] | None] = {
        "startup": {**ask, "timeoutSeconds": _TIMEOUT_SECONDS, "failureThreshold": attempts},
        "readiness": {**ask, "timeoutSeconds": _TIMEOUT_SECONDS},
        "liveness": None,
    }
    for name, given in settings.probes.items():
        base = usual[name] or (ask if given is not None else {})
        if given is not None and _HANDLERS & given.keys():
            base = {key: value for key, value in base.items() if key not in _HANDLERS}
        usual[name] = None if given is None else {**base, **given}
    return usual


def _made_env(settings: Settings) -> dict[str, str]:
    return {} if settings.cache is None else {CACHE_VARIABLE: CACHE_PATH}


def _made_volumes(settings: Settings, shm_mounted: bool) -> Iterator[dict[str, Any]]:
    if not shm_mounted:
        yield {"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": settings.shm}}
    if settings.cache is not None:
        yield {"name": CACHE, **settings.cache}


def _made_mounts(settings: Settings, shm_mounted: bool) -> Iterator[dict[str, Any]]:
    if not shm_mounted:
        yield {"name": SHM, "mountPath": SHM_PATH}
    if settings.cache is not None:
        yield {"name": CACHE, "mountPath": CACHE_PATH}


def _filled(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parts.items() if value}


class _Template:
    """One template: the program's own, or the author's."""

    def __init__(self, packaged: str, own: str | None) -> None:
        folder = resource("templates", "kubernetes")
        self._path = Path(own) if own is not None else folder / packaged
        self._name = own if own is not None else f"templates/kubernetes/{packaged}"
        loader = ChoiceLoader(
            [FileSystemLoader(self._path.parent), PrefixLoader({"packaged": FileSystemLoader(folder)})]
        )
        self._environment = ImmutableSandboxedEnvironment(
            loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
        )
        self._environment.policies["json.dumps_function"] = _json
        self._environment.policies["json.dumps_kwargs"] = {}

    def yields(self, context: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
        """The one object of this kind and name."""
        found = self._parsed(self._text(context))
        if found.get("kind") != kind:
            self._refuse(f"it yields an object of kind {found.get('kind')!r}, not {kind!r}")
        metadata = found.get("metadata")
        given = metadata.get("name") if isinstance(metadata, dict) else None
        if given != name:
            variable = "name" if kind == "Deployment" else "service"
            self._refuse(
                f"the {kind} is called {given!r}, not {name!r}; write name: {{{{ {variable} | tojson }}}} in metadata"
            )
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        if namespace not in (None, context["namespace"]):
            self._refuse(
                f"it names the namespace {namespace!r}; leave it out: the site file says it, "
                f"kubernetes: {{namespace: ...}}"
            )
        return found

    def _text(self, context: dict[str, Any]) -> str:
        try:
            return self._environment.get_template(self._path.name).render(context)
        except TemplateSyntaxError as error:
            self._refuse(str(error.message), error.lineno, error.filename)
        except TemplateNotFound as error:
            if error.name == self._path.name:
                self._refuse("there is no such file")
            others = f"a template is looked up in {self._path.parent}, or as packaged/NAME"
            self._refuse(f"it names {error.name}, which is not there: {others}", *_place(error.__traceback__))
        except (OSError, UnicodeDecodeError) as error:
            self._refuse(f"it cannot be read: {error}")
        except TemplateError as error:
            self._refuse(str(error.message or type(error).__name__), *_place(error.__traceback__))
        except RecursionError:
            self._refuse("it calls itself without end")
        except Exception as error:  # whatever an expression of the author's raises
            self._refuse(f"{type(error).__name__}: {error}", *_place(error.__traceback__))

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            documents = [one for one in YAML(typ="safe", pure=True).load_all(text) if one is not None]
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            row = "" if mark is None else f" in line {mark.line + 1}: {_line(text, mark.line)}"
            self._refuse(
                f"what it yields is not valid YAML{row} ({error.problem or error.context}); write values with tojson: "
                f"{{{{ image | tojson }}}}"
            )
        except (YAMLError, ValueError, RecursionError) as error:
            self._refuse(f"what it yields is not valid YAML: {error}")
        if len(documents) != 1:
            count = len(documents) or "nothing"
            self._refuse(f"it yields {count}{' objects' * bool(documents)}, and must yield one")
        if not isinstance(documents[0], dict):
            self._refuse(f"it yields {type(documents[0]).__name__}, not an object of Kubernetes")
        try:
            found = json.loads(json.dumps(documents[0], allow_nan=False))
        except (TypeError, ValueError) as error:
            self._refuse(f"what it yields cannot be sent to a cluster: {error}; quote dates and the like")
        if found != documents[0]:
            self._refuse("what it yields has a key that is no text; quote it")
        assert isinstance(found, dict)
        return found

    def _refuse(self, what: str, line: int | None = None, file: str | None = None) -> NoReturn:
        # a file that this one includes is named by its own path
        other = file is not None and Path(file) != self._path
        name = str(file) if other else self._name
        raise RenderError(f"{name}{f':{line}' if line else ''}: {what}{_WAY_OUT}") from None


def _check_deployment(deployment: dict[str, Any], context: dict[str, Any], file: str) -> None:
    """Whether the engine's container is there, and would get exactly the planned words."""

    def refuse(what: str) -> NoReturn:
        raise RenderError(f"{file}: {what}{_WAY_OUT}")

    spec = deployment.get("spec")
    pod = _map(_map(spec).get("template"))
    listed = _map(pod.get("spec")).get("containers")
    containers = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    names = [str(one.get("name")) for one in containers]
    if names.count(context["container"]) != 1:
        there = f"its containers are {', '.join(names)}" if names else "it has no container"
        refuse(
            f"there must be one container called {context['container']}, the engine's, and {there}; write "
            f"name: {{{{ container | tojson }}}}, or name it in kubernetes: {{container: ...}}"
        )
    engine = containers[names.index(context["container"])]
    for key in ("command", "args"):
        wanted, given = context[key], engine.get(key)
        if given != wanted:
            refuse(
                f"the container's {key} are not the planned words ({_first_difference(given, wanted)}); write "
                f"{key}: {{{{ {key} | tojson }}}}"
            )
    if _map(spec).get("selector") != context["selector"]:
        refuse("spec.selector is not the planned one; write selector: {{ selector | tojson }}")
    labels = _map(_map(pod.get("metadata")).get("labels"))
    missing = [name for name, value in context["pod_labels"].items() if labels.get(name) != value]
    if missing:
        refuse(f"the Pod's labels lack {', '.join(missing)}; write labels: {{{{ pod_labels | tojson }}}}")
    annotations = _map(_map(pod.get("metadata")).get("annotations"))
    if any(annotations.get(name) != value for name, value in context["annotations"].items()):
        refuse(
            f"the Pod's annotations lack {LAUNCH}, without which an unchanged Pod would not be started anew; write "
            f"annotations: {{{{ annotations | tojson }}}}"
        )
    given_env = {str(one.get("name")): one.get("value") for one in engine.get("env") or [] if isinstance(one, dict)}
    for name, value in context["env"].items():
        if given_env.get(name) != value:
            refuse(f"the container's env lacks {name} with its planned value; write out the variable env")


def _first_difference(given: Any, wanted: list[str]) -> str:
    if not isinstance(given, list):
        return "there are none" if given is None else f"they are no list but {type(given).__name__}"
    for index, word in enumerate(wanted):
        if index >= len(given):
            return f"word {index + 1}, {json.dumps(word)}, is missing"
        if given[index] != word:
            return f"word {index + 1} is {json.dumps(given[index])}, not {json.dumps(word)}"
    return f"word {len(wanted) + 1}, {json.dumps(given[len(wanted)])}, is too many"


def _json(value: Any, **_: Any) -> str:
    """A value as JSON that is YAML as well."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_no_json)
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _no_json(value: Any) -> NoReturn:
    if isinstance(value, Undefined):
        str(value)  # raises, and names the variable
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _place(trace: TracebackType | None) -> tuple[int | None, str | None]:
    """Line and file of a template where an error came up: Jinja puts its lines into the traceback."""
    place: tuple[int | None, str | None] = (None, None)
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.endswith(".py") and not name.startswith("<"):
            place = (trace.tb_lineno, name)
        trace = trace.tb_next
    return place


def _line(text: str, index: int) -> str:
    lines = text.splitlines()
    return json.dumps(lines[index].strip()[:80], ensure_ascii=False) if index < len(lines) else "(its end)"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
