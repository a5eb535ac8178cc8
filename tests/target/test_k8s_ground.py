"""The survey of a cluster: what is kept, what would be lost on the way, and what forbids the run."""

from __future__ import annotations

from pathlib import Path

from k8s_surveyed import Surveyed, production, survey
from spec_files import GOOD

from runner.target.kubernetes.belonging import LAUNCH
from runner.target.kubernetes.cluster import MANAGER
from runner.target.kubernetes.render import RUN

ONLY_ON = GOOD.replace("    label: with drafts\n", "    label: with drafts\n    env: {X: '1'}\n")
BOTH = ONLY_ON.replace("  off: {}\n", "  off: {env: {X: '0'}}\n")


def test_what_only_one_condition_writes_over_is_a_problem(tmp_path: Path) -> None:
    """The first `off` would run with the baseline's X, and each later one with none."""
    there = Surveyed(Deployment=[production(env=[{"name": "X", "value": "0"}, {"name": "Y", "value": "7"}])])
    found = survey(tmp_path, there, good=ONLY_ON)
    (problem,) = found.problems
    assert problem.startswith("`off` keeps spec.template.spec.containers[vllm].env[X] of the Deployment that is there")
    assert "`with drafts` writes it" in problem
    kept = [one for one in found.notes if one.startswith("kept from the baseline, in every condition alike")]
    assert any(one.endswith("env[Y]: (kept)") for one in kept), "a name, and never the value"
    assert not any("env[X]" in one for one in kept)


def test_what_every_condition_writes_or_keeps_is_none(tmp_path: Path) -> None:
    there = Surveyed(Deployment=[production(env=[{"name": "X", "value": "3"}, {"name": "Y", "value": "7"}])])
    assert survey(tmp_path, there, good=BOTH).problems == []
    assert survey(tmp_path, there).problems == []


def test_what_one_condition_adds_to_the_deployment_goes_again(tmp_path: Path) -> None:
    assert survey(tmp_path, Surveyed(Deployment=[production()]), good=ONLY_ON).problems == []


def test_a_paused_deployment_is_refused(tmp_path: Path) -> None:
    (refused,) = survey(tmp_path, Surveyed(Deployment=[production(paused=True)])).refusals
    assert refused.startswith("the Deployment vllm is paused") and "kubectl rollout resume deployment/vllm" in refused
    assert survey(tmp_path, Surveyed(Deployment=[production(paused=False)])).refusals == []


def test_the_history_kept_for_the_time_of_the_run_is_no_difference_of_the_conditions(tmp_path: Path) -> None:
    found = survey(tmp_path, Surveyed(Deployment=[production(revisionHistoryLimit=3)]))
    assert found.differences != []
    assert not any("revisionHistoryLimit" in one for one in found.differences)


def test_what_a_killed_run_left_is_told_from_what_somebody_made(tmp_path: Path) -> None:
    ours = [{"manager": MANAGER, "fieldsV1": {"f:spec": {}}}]
    left = production(name="good")
    left["metadata"]["managedFields"] = ours
    left["spec"]["template"]["metadata"]["annotations"] = {LAUNCH: "good-1.2"}
    service = {"metadata": {"name": "good", "labels": {RUN: "good-1"}, "managedFields": ours}, "spec": {"ports": []}}
    site = "{transport: cluster-ip}"
    refused = survey(tmp_path, Surveyed(Deployment=[left], Service=[service]), site).refusals
    assert [one.split(",", 1)[0] for one in refused] == [
        "the Deployment good exists already: it was made by another run",
        "the Service good exists already: it was made by another run",
    ]
    assert all(", good-1, or by one that was killed" in one and "`run report`" in one for one in refused)
    (theirs,) = survey(tmp_path, Surveyed(Deployment=[production(name="good")]), site).refusals
    assert "another run" not in theirs and "give the conditions' another name" in theirs


def test_a_held_baseline_is_refused_with_the_way_out(tmp_path: Path) -> None:
    held = production()
    held["metadata"]["managedFields"] = [{"manager": MANAGER, "fieldsV1": {"f:spec": {}}}]
    (refused,) = survey(tmp_path, Surveyed(Deployment=[held])).refusals
    assert refused.startswith("the Deployment vllm is held by another run, or by one that was killed and left it so")
    assert "`run report` with that run's directory" in refused
