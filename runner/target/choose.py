"""Which target measures: said on the command line, in the environment or in the site file, never guessed."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from runner.access import Access
from runner.spec.load import Spec
from runner.spec.nearest import hint
from runner.spec.site import Site
from runner.target.base import Target
from runner.target.embedded import EmbeddedTarget
from runner.target.endpoint import EndpointTarget
from runner.target.process import ProcessTarget

ENVIRONMENT = "RUNNER_TARGET"
DEFAULT = "embedded"


def _kubernetes(site: Site, spec: Spec, access: Access) -> Target:
    from runner.target.kubernetes.target import KubernetesTarget  # noqa: PLC0415 - its client takes a second to import

    return KubernetesTarget(spec, site, access)


def _process(site: Site, spec: Spec) -> Target:
    token = site.load.bearer_token
    secret = None if token is None else token.env
    return ProcessTarget(spec.experiment.process.beside(spec.folder), site.process, secret)


TARGETS: Mapping[str, Callable[[Site, Spec, Access], Target]] = {
    "embedded": lambda site, *_: EmbeddedTarget(site.embedded),
    "process": lambda site, spec, _: _process(site, spec),
    "endpoint": lambda site, _, access: EndpointTarget(site.endpoint, access),
    "kubernetes": _kubernetes,
}


class UnknownTarget(Exception):
    """A target that this version does not have."""


def choose_target(option: str | None, environ: Mapping[str, str], site: Site) -> tuple[str, str]:
    """The target's name and who named it. Raises UnknownTarget: another one is never taken instead."""
    for name, origin in (
        (option, "--target"),
        (environ.get(ENVIRONMENT), f"${ENVIRONMENT}"),
        (site.target, "the site file"),
        (DEFAULT, "default"),
    ):
        if name:
            if name not in TARGETS:
                raise UnknownTarget(
                    f'{origin} names the target "{name}", which this version does not have; {hint(name, TARGETS)} '
                    f"(no other target is ever used in its place)"
                )
            return name, origin
    raise AssertionError("the default always has a name")


def found_kubeconfig(environ: Mapping[str, str]) -> Path | None:
    """A kubeconfig that exists, readable or not: a sign that there is a cluster that could be measured."""
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    usual = [Path(environ.get("HOME", "/")) / ".kube" / "config", Path("/etc/rancher/k3s/k3s.yaml")]
    return next((path for path in named or usual if _exists(path)), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # it is there, and somebody else's
