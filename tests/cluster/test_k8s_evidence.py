"""What proves a condition in a Pod: its own words, its own arguments, the whole of its log; and what the cluster, the
lint and the API server say before and meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Namespace, Recorder, fresh_namespace
from cluster_runs import write_site, write_spec
from finished_run import Finished
from vllm_cpu import ROOT

NO_GPU: dict[str, Any] = {"resources": {}, "runtime_class_name": None}
TEMPLATE = ROOT / "templates" / "kubernetes" / "deployment.yaml.j2"


def ignoring(spec: dict[str, Any]) -> None:
    faults = [{"kind": "flag-ignored", "flag": "speculative", "form": "parsed-only"}]
    spec["conditions"]["on"]["env"] = {"SIMULATOR_FAULTS": json.dumps(faults)}


WARNING = """\
{% extends "packaged/deployment.yaml.j2" %}
{% block pod %}
      nodeSelector: {beta.kubernetes.io/os: linux}{% endblock %}
"""


@pytest.fixture(scope="module")
def space(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    with fresh_namespace(cluster, "evidence", tmp_path_factory.mktemp("kubeconfigs")) as namespace:
        yield namespace


@pytest.fixture(scope="module")
def ignored(
    space: Namespace, engine_image: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Finished, list[dict[str, Any]]]:
    """A run whose second condition is accepted and not used, and the Pods that there were; the API server has
    something to say about the template."""
    folder = tmp_path_factory.mktemp("ignored")
    (folder / "warning.yaml.j2").write_text(WARNING, encoding="utf-8")
    write_site(folder, engine_image, **NO_GPU, templates={"deployment": "warning.yaml.j2"})
    write_spec(folder, ignoring)
    with Recorder(space) as recorder:
        ran = space.run(folder, "spec.yaml")
    print(ran.stderr)
    return ran, list({one.uid: one.object for one in recorder.seen}.values())


def test_a_setting_that_is_accepted_and_ignored_is_refused(ignored: tuple[Finished, list[dict[str, Any]]]) -> None:
    ran, _ = ignored
    assert ran.code == 4, ran.stderr
    off, on = ran.record.engines
    assert off.refused is None and len(off.rounds) == 1
    assert on.refused is not None and on.rounds == []
    assert on.evidence is not None
    found = {one.name: one for one in on.evidence.arguments}
    assert (found["spec_method"].wanted, found["spec_method"].verdict) == ("ngram", "ignored")
    assert (found["spec_tokens"].wanted, found["spec_tokens"].verdict) == (5, "ignored")
    assert "wanted 'ngram', ignored: parsed as wanted, but the engine's configuration says" in ran.report


def test_the_command_of_the_record_is_the_live_pods(ignored: tuple[Finished, list[dict[str, Any]]]) -> None:
    ran, pods = ignored
    for engine in ran.record.engines:
        assert engine.launched is not None
        [pod] = [one for one in pods if one["metadata"]["uid"] == engine.launched.facts["Pod UID"]]
        container = pod["spec"]["containers"][0]
        assert engine.launched.command == [*container["command"], *container["args"]]
        assert ("--spec-method" in engine.launched.command) == (engine.arm == "on")
        assert engine.launched.facts["image digest"] == pod["status"]["containerStatuses"][0]["imageID"]


def test_the_log_is_kept_from_the_engines_first_line(ignored: tuple[Finished, list[dict[str, Any]]]) -> None:
    ran, _ = ignored
    for engine in ran.record.engines:
        assert engine.launched is not None and engine.launched.log is not None
        log = (ran.directory / engine.launched.log).read_text(encoding="utf-8").splitlines()
        assert log[2].endswith("version 0.26.0")  # the banner is the first that it prints


def test_a_warning_of_the_api_server_is_told_everywhere(ignored: tuple[Finished, list[dict[str, Any]]]) -> None:
    ran, _ = ignored
    [warned] = ran.record.warnings
    assert "beta.kubernetes.io/os" in warned.text and "deprecated" in warned.text
    assert ran.stderr.count(warned.text) == 1
    assert warned.text in re.sub(r"\\([\[\]])", r"\1", ran.report)


# --- refused before anything is made ---

DROPPING = TEMPLATE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"runtime_class_name": "gvisor"}, "the cluster has no RuntimeClass gvisor"),
        ({"image": "testcluster.local/engine:latest"}, 'has the tag "latest" that is another image tomorrow'),
        ({"templates": {"deployment": "dropping.yaml.j2"}}, "args"),
    ],
    ids=["runtime-class", "mutable-tag", "template-drops-arguments"],
)
def test_what_cannot_be_trusted_is_refused(
    space: Namespace, engine_image: str, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    loop = "{%- for word in args %}"
    assert loop in DROPPING
    dropping = DROPPING.replace(loop, "{%- for word in args[:3] %}")
    (tmp_path / "dropping.yaml.j2").write_text(dropping, encoding="utf-8")
    settings = {"image": engine_image, **NO_GPU, **settings}
    write_site(tmp_path, settings.pop("image"), **settings)
    write_spec(tmp_path)
    ran = space.run(tmp_path, "spec.yaml")
    print(ran.stderr)
    assert ran.code == 2
    assert words in ran.stderr
    assert ran.stdout == ""
    assert space.list("deployments") == []


def test_a_rule_that_is_switched_off_lets_pass(space: Namespace, engine_image: str, tmp_path: Path) -> None:
    """As far as the cluster's own look at it, that changes nothing."""
    write_site(tmp_path, "testcluster.local/engine:latest", **NO_GPU, allow=["mutable-tag"])
    write_spec(tmp_path)
    planned = space.run(tmp_path, "plan", "spec.yaml")
    print(planned.stdout, planned.stderr)
    assert planned.code == 0
    assert "tomorrow" not in planned.stdout + planned.stderr
    assert space.list("deployments") == []


# --- the way to the cluster ---


def garbled(path: Path) -> None:
    path.write_text("apiVersion: v1\nkind: Config\nclusters: [", encoding="utf-8")


def absent(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "settings", "words"),
    [
        (absent, {}, "kubeconfig"),
        (garbled, {}, "kubeconfig"),
        (lambda _: None, {"context": "gpu-box"}, "gpu-box"),
    ],
    ids=["missing", "unreadable", "wrong-context"],
)
def test_a_kubeconfig_that_leads_nowhere(
    space: Namespace, engine_image: str, tmp_path: Path, spoil: Any, settings: dict[str, Any], words: str
) -> None:
    path = tmp_path / "my.kubeconfig"
    path.write_bytes(space.kubeconfig.read_bytes())
    spoil(path)
    write_site(tmp_path, engine_image, **NO_GPU, kubeconfig=str(path), **settings)
    write_spec(tmp_path)
    ran = space.run(tmp_path, "spec.yaml")
    print(ran.stderr)
    assert ran.code == 2
    assert words in ran.stderr and "Traceback" not in ran.stderr
    assert ran.stdout == ""
