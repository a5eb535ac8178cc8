"""The ways by which requests reach a Pod, each recorded, and nothing of it left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, Namespace, fresh_namespace
from cluster_runs import write_site, write_spec
from watched_run import Watched

NO_GPU: dict[str, Any] = {"resources": {}, "runtime_class_name": None}


@pytest.fixture(scope="module")
def space(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    with fresh_namespace(cluster, "transport", tmp_path_factory.mktemp("kubeconfigs")) as namespace:
        yield namespace


def streamed(spec: dict[str, Any]) -> None:
    """With a check that rests on the times of tokens."""
    spec["phases"]["load"] = {"concurrency": [2], "requests": 12, "stream": True}
    spec["invariants"]["latency-cross-check"] = {}


def nothing_left(space: Namespace) -> bool:
    return all(space.list(kind) == [] for kind in ("deployments", "services"))


@pytest.mark.parametrize("transport", ["cluster-ip", "node-port"])
def test_a_way_through_a_service(space: Namespace, engine_image: str, tmp_path: Path, transport: str) -> None:
    write_site(tmp_path, engine_image, **NO_GPU, transport=transport)
    write_spec(tmp_path)
    ran = space.run(tmp_path, "spec.yaml")
    print(ran.stderr)
    assert ran.code == 0, ran.stderr
    for engine in ran.record.engines:
        assert engine.launched is not None
        assert engine.launched.transport == transport and engine.launched.transport_doubt is None
        port = int(engine.launched.endpoint.rpartition(":")[2])
        assert port == 8000 if transport == "cluster-ip" else 30000 <= port < 32768
    assert transport in ran.report
    assert nothing_left(space)


def test_a_forwarded_port_from_outside_the_network_measures_no_token_times(
    space: Namespace, engine_image: str, tmp_path: Path
) -> None:
    write_site(tmp_path, engine_image, **NO_GPU, transport="port-forward")
    write_spec(tmp_path, streamed)
    watched = Watched(space, tmp_path, "spec.yaml", inside=False)
    ran = watched.finish()
    print(ran.stderr)
    assert ran.code == 6, ran.stderr
    for engine in ran.record.engines:
        assert engine.launched is not None
        assert engine.launched.transport == "port-forward"
        assert engine.launched.transport_doubt is not None
        assert engine.launched.transport_doubt in ran.report
        assert engine.launched.endpoint.startswith("http://127.0.0.1:")
        assert [len(one.ok) for one in engine.rounds] == [12]
    assert ran.failing() == {"latency-cross-check": "inconclusive"}
    assert nothing_left(space)


def test_a_pod_that_cannot_be_reached_from_here_is_told_within_seconds(
    space: Namespace, engine_image: str, tmp_path: Path, cluster: Cluster
) -> None:
    if cluster.kit is None:
        pytest.skip("where this machine reaches the cluster's Pods there is nothing to see")
    write_site(tmp_path, engine_image, **NO_GPU)
    write_spec(tmp_path)
    started = time.time()
    watched = Watched(space, tmp_path, "spec.yaml", inside=False)
    said = watched.until("cannot be reached from here at http://10.")
    ran = watched.finish()
    print(said - started, ran.stderr)
    assert ran.code == 3
    [engine] = ran.record.engines
    assert engine.failed is not None
    assert "kubernetes: {transport: port-forward}" in engine.failed.reason
    assert said - started < 90  # the start-up budget is 120 s
    assert nothing_left(space)
