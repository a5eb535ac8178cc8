"""Spec and site file put together: which one wins, where each value is from, and what only shows then."""

import json
from pathlib import Path

import pytest
from kubernetes_plans import blocks, planned
from spec_files import GOOD

from runner.engine.environment import HIDDEN
from runner.target.kubernetes.settings import Settings, merge, problems


def merged(folder: Path, spec: str = "{}", site: str = "{}") -> Settings:
    plan, written, place = blocks(folder, spec, site)
    return merge(written, place, experiment=plan.name)


def test_nothing_said_gives_the_defaults(tmp_path: Path) -> None:
    found = merged(tmp_path)
    assert (found.name, found.service, found.container, found.image) == ("good", "good", None, None)
    assert (found.command, found.port, found.replicas) == (["vllm", "serve"], 8000, 1)
    assert (found.transport, found.shm, found.termination_grace_seconds) == ("pod-ip", "2Gi", 30)
    assert (found.image_pull_policy, found.gpu_command) == ("IfNotPresent", ["nvidia-smi"])
    assert (found.kubeconfig, found.context, found.namespace, found.baseline) == (None, None, None, None)
    assert set(found.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("key", "ours", "theirs"),
    [
        ("image", "a:1", "b:2"),
        ("port", 9000, 9001),
        ("shm", "1Gi", "3Gi"),
        ("transport", "node-port", "port-forward"),
        ("command", ["a"], ["b", "c"]),
        ("container", "a", "b"),
        ("image-pull-policy", "Never", "Always"),
        ("termination-grace-seconds", 0, 90),
        ("runtime-class-name", "nvidia", "runc"),
        ("cache", {"emptyDir": {}}, {"hostPath": {"path": "/c"}}),
        ("tolerations", [{"key": "a"}], []),
        ("allow", ["service-links"], ["mutable-tag"]),
        ("image-pull-secrets", ["a"], ["b"]),
        ("gpu-command", ["a"], ["b"]),
    ],
)
def test_the_site_file_wins_over_the_spec_and_the_spec_over_the_default(
    tmp_path: Path, key: str, ours: object, theirs: object
) -> None:
    field, spec, site = key.replace("-", "_"), json.dumps({key: ours}), json.dumps({key: theirs})
    for written, wanted, origin in [((spec, "{}"), ours, "spec"), ((spec, site), theirs, "site file")]:
        found = merged(tmp_path, *written)
        assert (getattr(found, field), found.origins[key]) == (wanted, origin)
    assert merged(tmp_path).origins[key] == "default"


def test_maps_are_merged_key_by_key(tmp_path: Path) -> None:
    found = merged(
        tmp_path,
        "{env: {A: spec, B: spec}, node-selector: {x: '1'}, resources: {limits: {nvidia.com/gpu: 1, memory: 8Gi}},"
        " probes: {startup: {periodSeconds: 1}, readiness: null}, secrets: {S: {name: a, key: k}}}",
        "{env: {B: site, C: site}, node-selector: {y: '2'}, resources: {limits: {memory: 9Gi}, requests: {cpu: 2}},"
        " probes: {startup: {periodSeconds: 2}}, secrets: {S: {name: b, key: k}}}",
    )
    assert found.env == {"A": "spec", "B": "site", "C": "site"}
    assert found.node_selector == {"x": "1", "y": "2"}
    assert (found.limits, found.requests) == ({"nvidia.com/gpu": "1", "memory": "9Gi"}, {"cpu": "2"})
    assert found.probes == {"startup": {"periodSeconds": 2}, "readiness": None}
    assert found.secrets["S"].name == "b"
    origins = {key: origin for key, origin in found.origins.items() if "." in key}
    assert origins == {
        "env.A": "spec",
        "env.B": "site file",
        "env.C": "site file",
        "node-selector.x": "spec",
        "node-selector.y": "site file",
        "resources.limits.nvidia.com/gpu": "spec",
        "resources.limits.memory": "site file",
        "resources.requests.cpu": "site file",
        "probes.startup": "site file",
        "probes.readiness": "spec",
        "secrets.S": "site file",
    }


def test_volumes_are_merged_by_name_and_mounts_by_path(tmp_path: Path) -> None:
    found = merged(
        tmp_path,
        "{volumes: [{name: models, emptyDir: {}}, {name: logs, emptyDir: {}}],"
        " volume-mounts: [{name: models, mountPath: /models}]}",
        "{volumes: [{name: models, hostPath: {path: /srv}}],"
        " volume-mounts: [{name: models, mountPath: /models, readOnly: true}, {name: logs, mountPath: /logs}]}",
    )
    assert found.volumes == [{"name": "models", "hostPath": {"path": "/srv"}}, {"name": "logs", "emptyDir": {}}]
    assert found.volume_mounts == [
        {"name": "models", "mountPath": "/models", "readOnly": True},
        {"name": "logs", "mountPath": "/logs"},
    ]
    assert found.origins["volumes.models"] == "site file"
    assert found.origins["volumes.logs"] == "spec"


def test_a_baseline_that_is_patched_gives_its_name_and_its_own_service_is_left_alone(tmp_path: Path) -> None:
    found = merged(tmp_path, "{name: vllm-qwen}", "{baseline: {deployment: prod.vllm}}")
    assert (found.name, found.origins["name"]) == ("prod.vllm", "site file")
    assert found.service == "prod-vllm-experiment"
    assert found.patches
    found = merged(tmp_path, "{name: vllm-qwen}", "{baseline: {deployment: prod, take-over: scale-to-zero}}")
    assert (found.name, found.service, found.patches) == ("vllm-qwen", "vllm-qwen", False)


@pytest.mark.parametrize(
    ("experiment", "name"),
    [("a.b-c", "a-b-c"), ("3b", "e-3b"), ("x" * 60, "x" * 60), ("0" * 60, "e-" + "0" * 60)],
)
def test_an_experiments_name_becomes_one_that_a_service_can_have(tmp_path: Path, experiment: str, name: str) -> None:
    _, written, place = blocks(tmp_path)
    assert merge(written, place, experiment=experiment).name == name


def test_a_long_baselines_service_still_has_a_name_that_fits(tmp_path: Path) -> None:
    name = merged(tmp_path, f"{{baseline: {{deployment: {'b' * 200}}}}}").service
    assert name == "b" * 52 + "-experiment"


def test_what_is_recorded_hides_secrets_and_says_which_templates(tmp_path: Path) -> None:
    found = merged(
        tmp_path,
        "{secrets: {HF_TOKEN: {name: hf, key: token}}, templates: {service: two.txt}}",
        "{env: {API_TOKEN: visible, URL: 'http://me:pw@a', N: '1'}, allow: [token-in-plain-env], namespace: gpu}",
    ).described()
    assert found["env"] == {"API_TOKEN": HIDDEN, "URL": f"http://{HIDDEN}@a", "N": "1"}
    assert found["secrets"] == {"HF_TOKEN": "token of the Secret hf"}
    assert found["templates"] == {"deployment": "the program's own", "service": str(tmp_path / "two.txt")}
    assert found["namespace"] == "gpu"
    assert "image" not in found, "what nobody said is left out"
    assert "visible" not in json.dumps(found)


@pytest.mark.parametrize(
    ("spec", "site", "words"),
    [
        ("{port: 1}", "{}", "no image is named; write kubernetes: {image: "),
        (
            "{name: a, image: 'a:1'}",
            "{baseline: {deployment: a, take-over: scale-to-zero}}",
            "are both called a, and the baseline is to be scaled to zero",
        ),
        (
            "{image: 'a:1', volume-mounts: [{name: modles, mountPath: /m}]}",
            "{volumes: [{name: models, emptyDir: {}}]}",
            'mounts the volume modles, which neither spec nor site file has; did you mean "models"?',
        ),
        ("{image: 'a:1', volume-mounts: [{name: cache, mountPath: /m}]}", "{}", "add it to kubernetes.volumes"),
        (
            "{image: 'a:1', secrets: {A: {name: s, key: k}}}",
            "{env: {A: b}}",
            "A is taken from a Secret by kubernetes.secrets, and has a value in kubernetes.env",
        ),
        ("{image: 'a:1'}", "{secrets: {WORD: {name: s, key: k}}}", "has a value in the env of with drafts"),
        (
            "{image: 'a:1', shm: 1Gi, volumes: [{name: m, emptyDir: {}}]}",
            "{volume-mounts: [{name: m, mountPath: /dev/shm}]}",
            "mounts /dev/shm, and kubernetes.shm does too",
        ),
    ],
)
def test_what_only_shows_when_both_are_put_together(tmp_path: Path, spec: str, site: str, words: str) -> None:
    good = GOOD.replace("    label: with drafts", "    env: {WORD: a}\n    label: with drafts")
    plan, written, place = blocks(tmp_path, spec, site, good)
    found = problems(merge(written, place, experiment=plan.name), plan)
    assert len(found) == 1 and words in found[0], found


def test_good_settings_have_no_problem(tmp_path: Path) -> None:
    plan, settings = planned(
        tmp_path,
        "{volume-mounts: [{name: models, mountPath: /m}, {name: shm, mountPath: /b}, {name: m, mountPath: /dev/shm}],"
        " volumes: [{name: m, emptyDir: {}}]}",
        "{volumes: [{name: models, emptyDir: {}}], cache: {emptyDir: {}}, secrets: {B: {name: s, key: k}}}",
    )
    assert problems(settings, plan) == []
