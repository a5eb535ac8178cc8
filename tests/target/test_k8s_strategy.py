"""From RollingUpdate to Recreate: what is applied first, when, and what a dry run is asked instead."""

from typing import Any

import pytest

from runner.target.kubernetes.strategy import for_dry_run, preparation

RECREATE = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"strategy": {"type": "Recreate"}, "replicas": 1}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def live(strategy: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "prod", "namespace": "gpu", "resourceVersion": "7", "uid": "u", "labels": {"a": "b"}}
    return {"metadata": metadata, "spec": {"strategy": strategy, "template": {"spec": {}}}}


def test_leftovers_of_a_rolling_update_are_owned_first_and_no_pod_template_is_touched() -> None:
    first = preparation(RECREATE, live(ROLLING))
    assert first == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "prod", "namespace": "gpu", "resourceVersion": "7"},
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
    }


def test_a_dry_run_is_asked_about_all_but_the_strategy() -> None:
    asked = for_dry_run(RECREATE, live(ROLLING))
    assert asked["spec"] == {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "replicas": 1,
    }
    assert RECREATE["spec"] == {"strategy": {"type": "Recreate"}, "replicas": 1}, "the object itself stays as it is"


@pytest.mark.parametrize(
    ("deployment", "there"),
    [
        (RECREATE, None),
        (RECREATE, live({"type": "Recreate"})),
        ({**RECREATE, "spec": {"strategy": ROLLING}}, live(ROLLING)),
        ({**RECREATE, "spec": {}}, live(ROLLING)),
    ],
    ids=["nothing there", "is Recreate", "stays rolling", "says nothing"],
)
def test_elsewhere_nothing_comes_first(deployment: dict[str, Any], there: dict[str, Any] | None) -> None:
    assert preparation(deployment, there) is None
    assert for_dry_run(deployment, there) == deployment
