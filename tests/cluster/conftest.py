"""The lane that needs a cluster: the kit's own, or the one that $RUNNER_TEST_KUBECONFIG names. Where there is none it
is skipped, and says so; in CI there must be one."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import cluster_kit
import engine_image as images
import pytest
from cluster import ENGINE_IMAGE, KUBECONFIG, Cluster, Namespace, fresh_namespace

NUMBERS = itertools.count(1)
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of them starts a cluster; where the kit is being built, it waits for that."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster that is up, with one `nvidia.com/gpu` and a RuntimeClass nvidia."""
    if named := os.environ.get(KUBECONFIG):
        yield Cluster(Path(named), Path(named))
        return
    words = cluster_kit.missing()
    if words is None:
        with cluster_kit.running() as kit:
            yield Cluster.of_kit(kit)
    elif os.environ.get("CI") == "true":
        pytest.fail(words)
    else:
        pytest.skip(words)


@pytest.fixture(scope="session")
def engine_image(cluster: Cluster) -> str:
    """The name of the embedded engine's image, which the cluster has."""
    if cluster.kit is None:
        name = os.environ.get(ENGINE_IMAGE)
        if not name:
            pytest.fail(
                f"${KUBECONFIG} is set: name the embedded engine's image in that cluster by ${ENGINE_IMAGE}; "
                f"tests/cluster/README.md says how it is made and loaded"
            )
        return name
    image = images.make()
    cluster.kit.load(image.archive)
    return image.name


@pytest.fixture
def namespace(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A namespace of the test's own, gone afterwards with all that is in it."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40].strip("-")
    folder = tmp_path / "kubeconfigs"
    folder.mkdir()
    with fresh_namespace(cluster, f"t{next(NUMBERS)}-{words}-{os.getpid()}", folder) as made:
        yield made
