"""Others at work on the user's Deployment, or in its way, while a run has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import baselines
import pytest
from cluster import Namespace
from cluster_restore import (
    alone,
    assert_as_it_was,
    assert_put_back_by_hand,
    baseline_of,
    rounds_of,
    wait_for,
)
from cluster_runs import baseline_there, patched, write_site, write_spec

Act = Callable[[Namespace], object]


@pytest.mark.parametrize(
    ("act", "said", "differing"),
    [
        pytest.param(
            lambda namespace: baselines.by_set_env(namespace, "vllm", BY_COLLEAGUE="1"),
            "somebody else changed the Deployment vllm meanwhile",
            "spec.template.spec.containers[vllm].env[BY_COLLEAGUE]",
            id="set-env",
        ),
        pytest.param(
            lambda namespace: namespace.kubectl("scale", "deployment", "vllm", "--replicas=0"),
            "somebody else changed the Deployment vllm meanwhile",
            "spec.replicas: 1 → 0",
            id="scale",
        ),
        pytest.param(
            lambda namespace: namespace.kubectl("delete", "deployment", "vllm"),
            "the Deployment vllm was deleted meanwhile",
            None,
            id="delete",
        ),
    ],
)
def test_what_somebody_else_did_meanwhile_is_shown_and_left(
    namespace: Namespace, engine_image: str, tmp_path: Path, act: Act, said: str, differing: str | None
) -> None:
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=patched())
    process = namespace.start(tmp_path, str(write_spec(tmp_path, rounds_of(2000))), "--yes")
    wait_for(tmp_path, "round-started", process)
    act(namespace)
    theirs = namespace.get("deployment", "vllm")
    ran = namespace.finish(tmp_path, process, 120)
    assert ran.code == 7, ran.stdout + ran.stderr
    restored = baseline_of(ran).restored
    assert restored is not None and not restored.restored
    assert restored.reason == said
    assert len(ran.record.engines) <= 2
    after = namespace.get("deployment", "vllm")
    assert (after and after["spec"]) == (theirs and theirs["spec"])
    if differing is not None:
        changed = f"changed by somebody else since this run's last write: {differing}"
        undone = "putting the saved object back would change: "
        for shown in (ran.stdout, ran.report.replace("\\", "")):
            assert changed in shown and undone in shown, shown
    assert_put_back_by_hand(namespace, before, ran)


def test_a_restore_that_the_cluster_refuses_is_told_with_its_reason(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    """A quota that came meanwhile forbids the baseline's Pod."""
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=patched())
    spec = write_spec(tmp_path, alone, rounds_of(100), lambda one: one["limits"].update({"startup-seconds": 30}))
    process = namespace.start(tmp_path, str(spec), "--yes")
    wait_for(tmp_path, "round-started", process)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    namespace.kubectl("create", "--filename", "-", stdin=json.dumps(quota))
    ran = namespace.finish(tmp_path, process, 180)
    assert ran.code == 7, ran.stdout + ran.stderr
    restored = baseline_of(ran).restored
    assert restored is not None and not restored.restored and restored.reason is not None
    assert "exceeded quota: none" in restored.reason
    namespace.kubectl("delete", "resourcequota", "none")
    assert_put_back_by_hand(namespace, before, ran)


def test_of_two_runs_at_once_the_second_is_refused(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=patched())
    spec = write_spec(tmp_path, alone, rounds_of(200))
    process = namespace.start(tmp_path, str(spec), "--yes")
    wait_for(tmp_path, "round-started", process)
    second = namespace.run(tmp_path, str(spec), "--yes")
    [directory] = (tmp_path / "runs").iterdir()
    assert second.code == 8, second.stderr
    assert f"the Deployment vllm is held by another run, {directory.name}" in second.stderr
    first = namespace.finish(tmp_path, process, 180)
    assert first.code == 0, first.stdout + first.stderr
    assert_as_it_was(namespace, before)
