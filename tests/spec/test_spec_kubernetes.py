"""The `kubernetes:` block, in a spec and in a site file: each mistake at its place, and what it means to be beside."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from spec_files import GOOD, run, write

from runner.resources import resource
from runner.spec.load import load_site, load_spec

Capsys = pytest.CaptureFixture[str]

# the block's body, where the message points (its first occurrence there), its key, words in it
FAULTS = [
    ("nmae: a", "nmae", "nmae", 'unknown key "nmae"; did you mean "name"?'),
    ("namespace: a", "namespace", "namespace", "unknown key"),
    ("name: Vllm", "Vllm", "name", "must begin with a lower-case letter"),
    ("name: 3b", "3b", "name", "must begin with a lower-case letter"),
    ("name: vllm-", "vllm-", "name", "end with a letter or a digit"),
    ("name: my.vllm", "my.vllm", "name", "lower-case letters, digits and dashes"),
    ("name: " + "a" * 64, "aaa", "name", "has 64 characters; at most 63 fit"),
    ('image: "vllm/vllm openai:1"', '"vllm', "image", "must be an image such as"),
    ("image: http://a/b:1", "http", "image", "must be an image such as"),
    ("image: Vllm/Openai:1", "Vllm", "image", "in lower case"),
    ("image-pull-policy: Sometimes", "Sometimes", "image-pull-policy", "must be one of IfNotPresent, Always, Never"),
    ("command: []", "[]", "command", "must not be empty"),
    ("command: vllm", "vllm", "command", "must be a list"),
    ("port: 65536", "65536", "port", "at most 65535"),
    ("replicas: 2", "2", "replicas", "at most 1"),
    ("env: {HF_TOKEN: x}", "HF_TOKEN", "env.HF_TOKEN", "secrets: {HF_TOKEN: {name: SECRET, key: KEY}}"),
    ('env: {"A=B": x}', '"A=B"', "env.A=B", "cannot be the name of an environment variable"),
    ("env: {한글: x}", "한글", "env.한글", "cannot be the name of an environment variable"),
    ("env: {A: 1}", "1", "env.A", 'quote it: "1"'),
    ('env: {A: "\\0"}', '"\\0"', "env.A", "a NUL character"),
    ("secrets: {A: {name: s}}", "{name", "secrets.A.key", "is required here"),
    ("secrets: {A: {name: S, key: k}}", "S,", "secrets.A.name", "must be the name of a Kubernetes object"),
    ("secrets: {A: {name: s, key: a b}}", "a b", "secrets.A.key", "must be a key of a Secret"),
    ('secrets: {"A=B": {name: s, key: k}}', '"A=B"', "secrets.A=B", "cannot be the name of an environment variable"),
    ("secrets: {A: {name: s, key: k}}\n  env: {A: b}", "A: {", "secrets.A", "in kubernetes.env too"),
    ("resources: {limit: {}}", "limit", "resources.limit", 'did you mean "limits"?'),
    ("resources: {limits: {memory: 24GB}}", "24GB", "resources.limits.memory", "is no quantity of Kubernetes"),
    ("resources: {limits: {memory: -1}}", "-1", "resources.limits.memory", "is no quantity of Kubernetes"),
    ("resources: {limits: {memory: true}}", "true", "resources.limits.memory", "is no quantity of Kubernetes"),
    ("resources: {limits: {nvidia.com/gpu: 0.5}}", "0.5", "resources.limits.nvidia.com/gpu", "must be a whole number"),
    ("resources: {requests: {nvidia.com/gpu: 1}}", "nvidia", "resources.requests.nvidia.com/gpu", "write limits:"),
    (
        "resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}",
        "1}",
        "resources.requests.nvidia.com/gpu",
        "are one; leave the request out",
    ),
    ("shm: 2 Gi", "2 Gi", "shm", "such as 2Gi"),
    ("cache: {}", "{}", "cache", "must not be empty"),
    ("cache: {hostPath: {path: /a}, emptyDir: {}}", "{hostPath", "cache", "at most 1 item"),
    ("volumes: [{hostPath: {path: /a}}]", "{hostPath", "volumes[0]", 'a volume needs "name"'),
    ("volumes: [{name: a}]", "{name", "volumes[0]", "its name and one source"),
    ("volumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]", "{name", "volumes[0]", "its name and one source"),
    ("volumes: [{name: shm, emptyDir: {}}]", "shm", "volumes[0].name", "is made by kubernetes: {shm: ...}"),
    ("volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]", "a, emptyDir: {}}]", "volumes[1].name", "twice"),
    ("volume-mounts: [{name: a}]", "{name", "volume-mounts[0]", 'a mount needs "mountPath"'),
    ("volume-mounts: [{name: a, mountPath: b}]", "b}", "volume-mounts[0].mountPath", "must be an absolute path"),
    ("probes: {startup: 5}", "5", "probes.startup", "must be a mapping"),
    ("probes: {start: {}}", "start", "probes.start", 'did you mean "startup"?'),
    ("probes: {startup: {httpGet: {}, exec: {}}}", "startup", "probes.startup", 'here are "httpGet" and "exec"'),
    ("tolerations: [{a: .inf}]", "[{", "tolerations", "cannot be written as JSON"),
    ("templates: {deployment: tow.txt}", "tow.txt", "templates.deployment", 'did you mean "two.txt"?'),
    ("templates: {deployment: .}", ".}", "templates.deployment", "is no file"),
    ("templates: {ingress: a}", "ingress", "templates.ingress", "unknown key"),
    ("allow: [mutable-tags]", "mutable-tags", "allow[0]", 'did you mean "mutable-tag"?'),
    ("transport: nodeport", "nodeport", "transport", 'did you mean "node-port"?'),
    ("baseline: vllm", "vllm", "baseline", "must be a mapping"),
    ("baseline: {take-over: patch}", "{take", "baseline.deployment", "is required here"),
    ("baseline: {deployment: a, take-over: stop}", "stop", "baseline.take-over", "patch, scale-to-zero"),
    ("name: b\n  baseline: {deployment: a}", "b\n", "name", 'leave "name" out'),
    (
        "name: a\n  baseline: {deployment: a, take-over: scale-to-zero}",
        "a\n",
        "name",
        "the conditions need another name",
    ),
]


@pytest.mark.parametrize(("body", "at", "key", "words"), FAULTS, ids=[fault[0][:60] for fault in FAULTS])
def test_one_mistake_is_one_message_at_its_place(
    tmp_path: Path, capsys: Capsys, body: str, at: str, key: str, words: str
) -> None:
    text = f"{GOOD}kubernetes:\n  {body}\n"
    place = text.index(at, len(GOOD) + len("kubernetes:\n  "))
    line, column = text.count("\n", 0, place) + 1, place - (text.rfind("\n", 0, place) + 1) + 1
    spec = write(tmp_path, text)
    said = run(capsys, "validate", spec)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{spec}:{line}:{column}: kubernetes.{key}: "), said.err
    assert words in said.err[0]
    assert "value error" not in said.err[0].lower()


def test_a_secret_that_has_a_value_in_an_env_of_the_spec(tmp_path: Path, capsys: Capsys) -> None:
    text = GOOD.replace("    label: with drafts", "    env: {CACHE: a}\n    label: with drafts")
    said = run(capsys, "validate", write(tmp_path, f"{text}kubernetes: {{secrets: {{CACHE: {{name: s, key: k}}}}}}\n"))
    assert (said.code, len(said.err)) == (2, 1)
    assert 'kubernetes.secrets.CACHE: "CACHE" has a value in an env of this file too' in said.err[0]


BLOCK = """\
name: vllm-qwen
container: engine
image: vllm/vllm-openai:v0.26.0@sha256:0123456789abcdef
image-pull-policy: Never
image-pull-secrets: [registry]
command: [/opt/vllm/bin/vllm, serve]
port: 9000
replicas: 1
env: {OMP_NUM_THREADS: "4"}
secrets: {HF_TOKEN: {name: hf.eu, key: token_1}}
resources:
  limits: {nvidia.com/gpu: 1, memory: 24Gi, cpu: 3.5, ephemeral-storage: "1e9"}
  requests: {cpu: 500m}
runtime-class-name: nvidia
node-selector: {kubernetes.io/hostname: gpu-1}
tolerations: [{key: gpu, operator: Exists}]
volumes: [{name: models, hostPath: {path: /srv/models}}]
volume-mounts: [{name: models, mountPath: /models, readOnly: true}]
shm: 1Gi
cache: {persistentVolumeClaim: {claimName: cache}}
probes: {startup: {periodSeconds: 10}, readiness: null}
termination-grace-seconds: 5
templates: {deployment: two.txt}
allow: [service-links]
transport: node-port
gpu-command: [/usr/bin/nvidia-smi]
baseline: {deployment: vllm-qwen, take-over: patch}
"""


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai",
        "a:1",
        "ghcr.io/a/b_c/d:v1.0-RC_1",
        "localhost:5000/a",
        f"Registry.example:5000/a/b:x@sha256:{'0a' * 32}",
        f"a@sha256:{'0a' * 32}",
    ],
)
def test_an_image_may_have_a_registry_a_tag_and_a_digest(tmp_path: Path, image: str) -> None:
    spec = load_spec(write(tmp_path, f'{GOOD}kubernetes: {{image: "{image}"}}\n'))
    assert spec.experiment.kubernetes.image == image


def indented(block: str) -> str:
    return "kubernetes:\n" + "".join(f"  {line}\n" for line in block.splitlines())


def test_every_key_of_the_block_is_read_and_fits_the_schema(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, GOOD + indented(BLOCK)))
    block = spec.experiment.kubernetes
    assert block.model_fields_set == set(type(block).model_fields), "the block has every key there is"
    assert block.resources.limits == {
        "nvidia.com/gpu": "1",
        "memory": "24Gi",
        "cpu": "3.5",
        "ephemeral-storage": "1e9",
    }
    assert block.probes.readiness is None and "readiness" in block.probes.model_fields_set
    assert block.beside(spec.folder).templates.deployment == str(tmp_path / "two.txt")
    schema = json.loads(resource("schemas", "experiment.schema.json").read_bytes())
    value = YAML(typ="safe", pure=True).load(GOOD + indented(BLOCK))
    assert list(Draft202012Validator(schema).iter_errors(value)) == []


@pytest.mark.parametrize(
    "body",
    [
        "name: Vllm",
        "image: http://a",
        "resources: {limits: {memory: 24GB}}",
        "resources: {limit: {}}",
        "shm: 2 Gi",
        "cache: {}",
        "probes: {start: {}}",
        "secrets: {A: {name: S, key: k}}",
        "baseline: {take-over: patch}",
        "command: []",
        "allow: [mutable-tags]",
        "namespace: a",
    ],
)
def test_the_schema_refuses_what_the_runner_refuses(body: str) -> None:
    schema = json.loads(resource("schemas", "experiment.schema.json").read_bytes())
    value = YAML(typ="safe", pure=True).load(f"{GOOD}kubernetes: {{{body}}}\n")
    assert not Draft202012Validator(schema).is_valid(value)


def site(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_site_files_paths_start_from_its_folder_and_home_is_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "service.j2").touch()
    text = "kubernetes:\n  kubeconfig: {}\n  templates: {{service: ./service.j2}}\n"
    found = load_site(site(folder, text.format("../k3s.yaml"))).kubernetes
    assert found.kubeconfig == str(tmp_path / "k3s.yaml")
    assert found.templates.service == str(folder / "service.j2")
    assert load_site(site(folder, text.format("~/.kube/other"))).kubernetes.kubeconfig == "/home/somebody/.kube/other"
    assert load_site(site(folder, text.format("/etc/k3s.yaml"))).kubernetes.kubeconfig == "/etc/k3s.yaml"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("contxt: a", '2:3: kubernetes.contxt: unknown key "contxt"; did you mean "context"?'),
        ("namespace: My", '2:14: kubernetes.namespace: "My" must begin with one, consist of'),
        ("kubeconfig: ~nobody-here/k", "2:15: kubernetes.kubeconfig: ~nobody-here is nobody's home directory here"),
        ("templates: {service: a.j2}", '2:24: kubernetes.templates.service: the template "a.j2" does not exist'),
        ("env: {HF_TOKEN: x}", "2:9: kubernetes.env.HF_TOKEN: this sounds like a secret"),
        ("name: b\n  baseline: {deployment: a}", "2:9: kubernetes.name: the conditions run in the baseline"),
    ],
)
def test_a_mistake_of_the_site_files_block(tmp_path: Path, capsys: Capsys, body: str, place: str) -> None:
    path = site(tmp_path, f"kubernetes:\n  {body}\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", path)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{path}:{place}"), said.err


def test_a_token_in_plain_sight_is_for_the_lint_where_its_rule_is_switched_off(tmp_path: Path) -> None:
    text = "kubernetes: {env: {API_TOKEN: none}, allow: [token-in-plain-env]}\n"
    assert load_site(site(tmp_path, text)).kubernetes.env == {"API_TOKEN": "none"}
