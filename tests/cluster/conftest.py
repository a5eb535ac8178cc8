"""The lane that needs a cluster: the kit's own, or the one that $RUNNER_TEST_KUBECONFIG names. Where there is none it
is skipped, and says so; in CI there must be one."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_kit
import engine_image as images
import httpx
import pytest
from cluster import ENGINE_IMAGE, KUBECONFIG, Cluster, Namespace, fresh_namespace
from cluster_client import (
    Relay,
    connect,
    open_descriptors,
    token_of_new_account,
)
from kubernetes import config

from runner.target.kubernetes.cluster import Cluster as Client

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


@pytest.fixture
def warned() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def kubeconfig(namespace: Any) -> Path:
    """The kubeconfig of whoever rules the cluster."""
    return Path(namespace.cluster.kubeconfig)


@pytest.fixture
def client(kubeconfig: Path, namespace: Any, warned: list[tuple[str, str]]) -> Iterator[Client]:
    made = connect(kubeconfig, namespace.name, warned)
    yield made
    made.close()


@pytest.fixture
def relay(client: Client) -> Iterator[Relay]:
    url = httpx.URL(client.server)
    made = Relay(url.host, url.port or 443)
    yield made
    made.close()


@pytest.fixture
def relayed(kubeconfig: Path, client: Client, relay: Relay, tmp_path: Path) -> Iterator[Client]:
    """The same cluster, reached through the relay."""
    text = kubeconfig.read_text(encoding="utf-8")
    inside = tmp_path / "relayed.kubeconfig"
    inside.write_text(text.replace(client.server, f"https://127.0.0.1:{relay.port}"), encoding="utf-8")
    made = connect(inside, client.namespace)
    yield made
    made.close()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No thread and no descriptor more than before. Named first, so that it looks last."""
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    yield
    assert set(threading.enumerate()) <= threads
    assert open_descriptors() <= descriptors


@pytest.fixture
def nobody(client: Client, kubeconfig: Path, tmp_path: Path) -> Iterator[Client]:
    """A user with a token and no rights."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        token = token_of_new_account(api, client.namespace)
        authority = Path(api.configuration.ssl_ca_cert).read_text(encoding="ascii")
    (tmp_path / "ca.crt").write_text(authority, encoding="ascii")
    theirs = tmp_path / "nobody.kubeconfig"
    theirs.write_text(
        f"""
current-context: nobody
contexts: [{{name: nobody, context: {{cluster: c, user: nobody}}}}]
clusters: [{{name: c, cluster: {{server: "{client.server}", certificate-authority: ca.crt}}}}]
users: [{{name: nobody, user: {{token: "{token}"}}}}]
""",
        encoding="utf-8",
    )
    made = connect(theirs, client.namespace)
    yield made
    made.close()
