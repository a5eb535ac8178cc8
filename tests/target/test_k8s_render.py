"""What a condition becomes in a cluster: field by field, word by word, by the program's templates and by one's own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_plans import planned
from spec_files import GOOD

from runner.plan.model import Plan
from runner.target.kubernetes.belonging import LAUNCH
from runner.target.kubernetes.render import (
    KEEP_HISTORY,
    Rendered,
    RenderError,
    container_words,
    label_value,
    literal,
    render,
)
from runner.target.kubernetes.settings import Settings


def rendered(plan: Plan, resolved: Settings, arm: int = 0, **over: Any) -> Rendered:
    given = {"selector": None, "launch": "launch-1", "run": "run-1", **over}
    return render(resolved, plan, plan.arms[arm], **given)


def pod(found: Rendered) -> dict[str, Any]:
    spec: dict[str, Any] = found.deployment["spec"]["template"]["spec"]
    return spec


def engine(found: Rendered) -> dict[str, Any]:
    (container,) = pod(found)["containers"]
    assert isinstance(container, dict)
    return container


def test_no_old_replica_set_of_a_deployment_that_is_taken_over_is_pruned(tmp_path: Path) -> None:
    plan, resolved = planned(tmp_path)
    over = rendered(plan, resolved, selector={"matchLabels": {"app": "vllm"}})
    assert over.deployment["spec"]["revisionHistoryLimit"] == KEEP_HISTORY == 2147483647
    assert "revisionHistoryLimit" not in rendered(plan, resolved).deployment["spec"]


def test_the_smallest_deployment_field_by_field(tmp_path: Path) -> None:
    found = rendered(*planned(tmp_path), arm=1)
    names = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": "good"}
    ours = {**names, "app.kubernetes.io/managed-by": "llm-experiment-runner"}
    own = {
        "llm-experiment-runner/experiment": "good",
        "llm-experiment-runner/arm": "on",
        "llm-experiment-runner/run": "run-1",
    }
    ask = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "timeoutSeconds": 5}
    assert found.deployment == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "good", "labels": ours},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": names},
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": 1050,
            "template": {
                "metadata": {"labels": {**ours, **own}, "annotations": {LAUNCH: "launch-1"}},
                "spec": {
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 30,
                    "containers": [
                        {
                            "name": "good",
                            "image": "vllm/vllm-openai:v0.26.0",
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["vllm", "serve"],
                            "args": [
                                "some/model",
                                "--max-num-seqs",
                                "16",
                                "--enforce-eager",
                                "--nobody-ever-heard-of-it",
                                "0.30",
                                "--spec-tokens",
                                "5",
                                "--host",
                                "0.0.0.0",
                                "--port",
                                "8000",
                            ],
                            "ports": [{"containerPort": 8000, "protocol": "TCP"}],
                            "startupProbe": {**ask, "failureThreshold": 180},
                            "readinessProbe": ask,
                            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                        }
                    ],
                    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}],
                },
            },
        },
    }
    assert found.service == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "good", "labels": {**ours, **own}},
        "spec": {
            "type": "ClusterIP",
            "selector": {**names, "llm-experiment-runner/run": "run-1"},
            "ports": [{"name": "http", "port": 8000, "targetPort": 8000, "protocol": "TCP"}],
        },
    }


def test_every_setting_has_its_field(tmp_path: Path) -> None:
    good = GOOD.replace("    label: with drafts", "    env: {B: condition, C: condition}\n    label: with drafts")
    plan, resolved = planned(
        tmp_path,
        "{name: llm, container: engine, image: 'a/b:1', image-pull-policy: Never, image-pull-secrets: [r1, r2],"
        " command: [/bin/v, serve], port: 9000, env: {A: block, B: block}, secrets: {HF_TOKEN: {name: hf, key: token}},"
        " resources: {limits: {nvidia.com/gpu: 1}, requests: {cpu: 0.5}}, runtime-class-name: nvidia,"
        " node-selector: {gpu: l4}, tolerations: [{key: gpu, operator: Exists}],"
        " volumes: [{name: models, hostPath: {path: /srv}}], volume-mounts: [{name: models, mountPath: /models}],"
        " shm: 1Gi, cache: {hostPath: {path: /c}}, termination-grace-seconds: 7, transport: node-port}",
        "{namespace: gpu}",
        good,
    )
    found = rendered(plan, resolved, arm=1)
    assert found.deployment["metadata"]["name"] == found.service["metadata"]["name"] == "llm"
    assert found.deployment["metadata"]["namespace"] == found.service["metadata"]["namespace"] == "gpu"
    assert found.deployment["spec"]["progressDeadlineSeconds"] == 900 + 7 + 120
    spec, one = pod(found), engine(found)
    assert spec["terminationGracePeriodSeconds"] == 7
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["nodeSelector"] == {"gpu": "l4"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "r1"}, {"name": "r2"}]
    assert spec["volumes"] == [
        {"name": "models", "hostPath": {"path": "/srv"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "cache", "hostPath": {"path": "/c"}},
    ]
    assert one["volumeMounts"] == [
        {"name": "models", "mountPath": "/models"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "cache", "mountPath": "/cache"},
    ]
    assert (one["name"], one["image"], one["imagePullPolicy"]) == ("engine", "a/b:1", "Never")
    assert one["command"] == ["/bin/v", "serve"]
    assert one["args"][-2:] == ["--port", "9000"]
    assert one["ports"] == [{"containerPort": 9000, "protocol": "TCP"}]
    assert one["env"] == [
        {"name": "XDG_CACHE_HOME", "value": "/cache"},
        {"name": "A", "value": "block"},
        {"name": "B", "value": "condition"},
        {"name": "C", "value": "condition"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    ]
    assert one["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "0.5"}}
    assert one["startupProbe"]["httpGet"] == {"path": "/health", "port": 9000}
    assert found.service["spec"]["type"] == "NodePort"
    assert found.service["spec"]["ports"][0]["port"] == 9000


def test_what_is_taken_over_keeps_its_selector_its_labels_and_its_container(tmp_path: Path) -> None:
    plan, resolved = planned(tmp_path, "{name: llm}", "{baseline: {deployment: prod}}")
    selector = {"matchLabels": {"app": "prod"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
    found = rendered(plan, resolved, selector=selector, container="vllm")
    assert found.deployment["metadata"] == {"name": "prod"}, "somebody's object is not labelled"
    assert found.deployment["spec"]["selector"] == selector
    assert found.deployment["spec"]["template"]["metadata"]["labels"] == {
        "app": "prod",
        "llm-experiment-runner/experiment": "good",
        "llm-experiment-runner/arm": "off",
        "llm-experiment-runner/run": "run-1",
    }
    assert engine(found)["name"] == "vllm"
    assert found.service["metadata"]["name"] == "prod-experiment"
    assert found.service["spec"]["selector"] == {"app": "prod", "llm-experiment-runner/run": "run-1"}, "no other's Pods"
    expressions = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    found = rendered(plan, resolved, selector=expressions)
    assert found.service["spec"]["selector"]["llm-experiment-runner/run"] == "run-1", "never a selector of all Pods"


def test_our_labels_never_get_into_the_selector_which_nobody_can_change(tmp_path: Path) -> None:
    plan, resolved = planned(tmp_path)
    one, other = (rendered(plan, resolved, arm, run=f"run-{arm}") for arm in (0, 1))
    assert one.deployment["spec"]["selector"] == other.deployment["spec"]["selector"]
    assert "llm-experiment-runner" not in json.dumps(one.deployment["spec"]["selector"])


def test_each_launch_is_another_pod_template_and_a_plan_names_none(tmp_path: Path) -> None:
    plan, resolved = planned(tmp_path)
    one, other = (rendered(plan, resolved, launch=launch).deployment["spec"] for launch in ("a", "b"))
    assert one["template"] != other["template"]
    one["template"]["metadata"]["annotations"] = other["template"]["metadata"]["annotations"] = {}
    assert one == other
    metadata = rendered(plan, resolved, launch=None, run="").deployment["spec"]["template"]["metadata"]
    assert "annotations" not in metadata
    assert "llm-experiment-runner/run" not in metadata["labels"]


@pytest.mark.parametrize(("seconds", "attempts"), [(0.5, 1), (5, 1), (5.1, 2), (299, 60), (900, 180), (3600, 720)])
def test_the_startup_probe_lasts_as_long_as_the_budget_and_the_deadline_longer(
    tmp_path: Path, seconds: float, attempts: int
) -> None:
    plan, resolved = planned(tmp_path, good=GOOD.replace("limits:", f"limits:\n  startup-seconds: {seconds}"))
    found = rendered(plan, resolved)
    probe = engine(found)["startupProbe"]
    assert probe["failureThreshold"] == attempts
    assert probe["periodSeconds"] * attempts >= seconds
    assert found.deployment["spec"]["progressDeadlineSeconds"] > probe["periodSeconds"] * attempts + 30


@pytest.mark.parametrize(
    ("probes", "key", "wanted"),
    [
        ("{startup: {periodSeconds: 10}}", "startupProbe", {"periodSeconds": 10, "failureThreshold": 90}),
        ("{startup: null}", "startupProbe", None),
        ("{readiness: {exec: {command: [a]}}}", "readinessProbe", {"exec": {"command": ["a"]}, "periodSeconds": 5}),
        ("{liveness: {failureThreshold: 9}}", "livenessProbe", {"failureThreshold": 9, "periodSeconds": 5}),
        ("{liveness: null}", "livenessProbe", None),
    ],
)
def test_a_probe_is_laid_over_the_templates_own(
    tmp_path: Path, probes: str, key: str, wanted: dict[str, Any] | None
) -> None:
    found = engine(rendered(*planned(tmp_path, f"{{probes: {probes}}}"))).get(key)
    if wanted is None:
        assert found is None
    else:
        assert found is not None and wanted.items() <= found.items()
        assert ("httpGet" in found) is ("exec" not in wanted)


def test_shm_that_the_author_mounts_is_not_made_twice(tmp_path: Path) -> None:
    volumes = "{volumes: [{name: m, emptyDir: {}}], volume-mounts: [{name: m, mountPath: /dev/shm}]}"
    found = rendered(*planned(tmp_path, volumes))
    assert [volume["name"] for volume in pod(found)["volumes"]] == ["m"]
    assert engine(found)["volumeMounts"] == [{"name": "m", "mountPath": "/dev/shm"}]


def expanded(word: str) -> str:
    """What Kubernetes makes of a word of command, args or env: $(NAME) is replaced, $$ is one $."""
    return re.sub(r"\$(\$|\((?P<name>[^)]*)\)|)", lambda found: "REPLACED" if found["name"] is not None else "$", word)


# what a word can be: no NUL, which no process can be given, and no half of a surrogate pair, which is no character
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
hostile = st.sampled_from(
    [
        '{"a": "b: c"}',
        "yes",
        "on",
        "0x10",
        "1e3",
        "null",
        "~",
        "",
        " a ",
        "a\nb",
        "\r",
        "\t",
        "{{ model }}",
        "{% raw %}",
        "{# x #}",
        "$(HOME)",
        "$$",
        "$",
        "a: b # c",
        "- a",
        "'",
        '"',
        "\\",
        "\x85",
        "\u2028",
        "\ufeff",
        "\x7f",
        "\x1b[0m",
        "한국어",
        "🙂",
        "&a *a !b",
        "<script>",
        "2026-01-01",
        "%",
        "@",
        "`",
    ]
)


@pytest.fixture(scope="module")
def smallest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Settings]:
    return planned(tmp_path_factory.mktemp("smallest"))


@settings(max_examples=100, deadline=None)
@given(argv=st.lists(words | hostile | st.tuples(words, hostile).map("".join), max_size=6), value=words | hostile)
def test_any_word_goes_through_template_and_yaml_as_it_is(
    smallest: tuple[Plan, Settings], argv: list[str], value: str
) -> None:
    plan, resolved = smallest
    arm = plan.arms[0].model_copy(update={"argv": argv, "env": {"V": value}})
    found = engine(render(resolved, plan, arm, selector=None, launch="l", run="r"))
    assert [expanded(word) for word in found["args"]] == ["some/model", *argv, "--host", "0.0.0.0", "--port", "8000"]
    assert expanded(found["env"][0]["value"]) == value


def test_each_hostile_word_is_tried(tmp_path: Path) -> None:
    plan, resolved = planned(tmp_path)
    argv = list(hostile.elements)  # type: ignore[attr-defined]
    arm = plan.arms[0].model_copy(update={"argv": argv})
    found = engine(render(resolved, plan, arm, selector=None, launch="l", run="r"))
    assert [expanded(word) for word in found["args"]][1:-4] == argv
    assert found["args"] == [literal(word) for word in container_words(resolved, plan, arm)]


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("on", "on"),
        ("a" * 63, "a" * 63),
        ("on, spec-tokens=1", "on-spec-tokens-1-"),
        ("켜짐", ""),
        ("a" * 64, "a" * 54),
    ],
)
def test_a_label_says_as_much_of_a_text_as_it_can(text: str, begins: str) -> None:
    found = label_value(text)
    assert found.startswith(begins)
    assert (found == text) is (begins == text)


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_text_becomes_a_label_that_kubernetes_takes_and_two_stay_two(one: str, other: str) -> None:
    found, beside = label_value(one), label_value(other)
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", found)
    assert (found == beside) is (one == other)


OWN = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ name | tojson }}}
spec:
  selector: {{ selector | tojson }}
  strategy: {type: Recreate}
  template:
    metadata:
      labels: {{ pod_labels | tojson }}
      annotations: {{ annotations | tojson }}
    spec:
      containers:
        - name: {{ container | tojson }}
          image: {{ image | tojson }}
          command: {{ command | tojson }}
          args: {{ args | tojson }}
          env: [{name: MINE, value: {{ values.mine | tojson }}}]
        - {name: exporter, image: "exporter:1"}
"""


def with_template(folder: Path, text: str, kind: str = "deployment") -> tuple[Plan, Settings]:
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    good = GOOD.replace("    label: with drafts", "    template-values: {mine: 'a: b'}\n    label: with drafts")
    return planned(folder, f"{{templates: {{{kind}: own.yaml}}}}", good=good)


def test_a_template_of_ones_own_with_values_of_ones_own(tmp_path: Path) -> None:
    plan, resolved = with_template(tmp_path, OWN)
    found = rendered(plan, resolved, arm=1)
    one, other = pod(found)["containers"]
    assert one["env"] == [{"name": "MINE", "value": "a: b"}]
    assert other == {"name": "exporter", "image": "exporter:1"}
    assert found.service["kind"] == "Service", "the other template is still the program's own"


def test_a_template_of_ones_own_may_extend_the_programs(tmp_path: Path) -> None:
    text = (
        '{% extends "packaged/deployment.yaml.j2" %}\n'
        "{% block pod %}\n      hostNetwork: true{% endblock %}\n"
        "{% block container %}\n          workingDir: /models{% endblock %}\n"
        "{% block containers %}\n        - {name: exporter, image: 'exporter:1'}{% endblock %}\n"
    )
    plan, resolved = with_template(tmp_path, text)
    found = rendered(plan, resolved)
    assert pod(found)["hostNetwork"] is True
    one, other = pod(found)["containers"]
    assert (one["workingDir"], other["name"]) == ("/models", "exporter")


BAD = [
    ("metadata: {name: {{ name | tojson }}}", "metadata: {name: {{ nmae | tojson }}}", ":3: 'nmae' is undefined"),
    ("image: {{ image | tojson }}", "image: {{ ''.__class__ }}", ":14: access to attribute '__class__'"),
    ("image: {{ image | tojson }}", "image: {{ args.append('x') }}", ":14: access to attribute 'append'"),
    ("image: {{ image | tojson }}", "image: {{ 1 / 0 }}", ":14: ZeroDivisionError: division by zero"),
    ("image: {{ image | tojson }}", "image: {{ range(999999999) | list }}", ":14: OverflowError: Range too big"),
    ("image: {{ image | tojson }}", "image: {{ image | to_json }}", ":14: No filter named 'to_json'"),
    ("image: {{ image | tojson }}", "image: {{ image", ":15: expected token 'end of print statement'"),
    (
        "image: {{ image | tojson }}",
        "{% include '../../etc/passwd' %}",
        ":14: it names ../../etc/passwd, which is not there",
    ),
    (
        "image: {{ image | tojson }}",
        "image: {{ range | tojson }}",
        ":14: TypeError: a function cannot be written as JSON",
    ),
    ("image: {{ image | tojson }}", "image: [", "what it yields is not valid YAML in line"),
    ("image: {{ image | tojson }}", "image: a\n          image: b", 'found duplicate key "image"'),
    ("image: {{ image | tojson }}", "image: 2026-01-01", "cannot be sent to a cluster"),
    ("image: {{ image | tojson }}", "image: {1: a}", "a key that is no text"),
    (OWN, "", "it yields nothing, and must yield one"),
    (OWN, "{# nothing #}", "it yields nothing, and must yield one"),
    (OWN, "- a", "it yields list, not an object"),
    (OWN, f"{OWN}---\n{OWN}", "it yields 2 objects, and must yield one"),
    ("kind: Deployment", "kind: StatefulSet", "it yields an object of kind 'StatefulSet', not 'Deployment'"),
    ("{name: {{ name | tojson }}}", "{name: mine}", "is called 'mine', not 'good'; write name: {{ name | tojson }}"),
    ("{name: {{ name | tojson }}}", "{name: {{ name }}, namespace: x}", "names the namespace 'x'; leave it out"),
    (
        "name: {{ container | tojson }}",
        "name: vllm",
        "called good, the engine's, and its containers are vllm, exporter",
    ),
    (
        "args: {{ args | tojson }}",
        "args: [{{ args | join(' ') | tojson }}]",
        "args are not the planned words (word 1 is",
    ),
    ("args: {{ args | tojson }}", "args: {{ args[:-1] | tojson }}", 'word 12, "8000", is missing'),
    ("args: {{ args | tojson }}", "args: {{ (args + ['x']) | tojson }}", 'word 13, "x", is too many'),
    ("args: {{ args | tojson }}", "args: [{{ args | join(', ') }}]", 'word 3 is 16, not "16"'),
    ("          args: {{ args | tojson }}\n", "", "args are not the planned words (there are none)"),
    ("command: {{ command | tojson }}", "command: [sh]", 'command are not the planned words (word 1 is "sh"'),
    ("selector: {{ selector | tojson }}", "selector: {}", "spec.selector is not the planned one"),
    ("labels: {{ pod_labels | tojson }}", "labels: {{ labels | tojson }}", "lack llm-experiment-runner/experiment"),
    ("      annotations: {{ annotations | tojson }}\n", "", "lack llm-experiment-runner/launch"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD, ids=[f"{one[1][:40]}" for one in BAD])
def test_a_template_that_does_not_yield_what_it_must(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in OWN
    plan, resolved = with_template(tmp_path, OWN.replace(old, new))
    with pytest.raises(RenderError) as raised:
        rendered(plan, resolved, arm=1)
    text = str(raised.value)
    assert text.startswith(str(tmp_path / "own.yaml")), text
    assert words in text
    assert "docs/kubernetes.md" in text
    assert "\n" not in text


def test_a_variable_that_the_spec_sets_and_the_template_drops(tmp_path: Path) -> None:
    plan, resolved = with_template(tmp_path, OWN)
    arm = plan.arms[1].model_copy(update={"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}})
    with pytest.raises(RenderError, match="env lacks VLLM_USE_V2_MODEL_RUNNER with its planned value"):
        render(resolved, plan, arm, selector=None, launch="l", run="r")


def test_a_value_that_only_some_conditions_have_is_an_error_for_the_others(tmp_path: Path) -> None:
    plan, resolved = with_template(tmp_path, OWN)
    with pytest.raises(RenderError, match=r"own\.yaml:17: .*has no attribute 'mine'"):
        rendered(plan, resolved, arm=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Service\nmetadata: {name: {{ name | tojson }}x}\n", "not valid YAML|is called 'goodx', not 'good'"),
        ("kind: ConfigMap\n", "of kind 'ConfigMap', not 'Service'"),
    ],
)
def test_the_services_own_template_is_checked_too(tmp_path: Path, text: str, words: str) -> None:
    plan, resolved = with_template(tmp_path, text, "service")
    with pytest.raises(RenderError, match=words):
        rendered(plan, resolved)


def test_a_template_that_has_gone_or_is_no_text(tmp_path: Path) -> None:
    plan, resolved = with_template(tmp_path, OWN)
    (tmp_path / "own.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(RenderError, match=r"own\.yaml: it cannot be read"):
        rendered(plan, resolved)
    (tmp_path / "own.yaml").unlink()
    with pytest.raises(RenderError, match=r"own\.yaml: there is no such file"):
        rendered(plan, resolved)
