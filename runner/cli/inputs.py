"""What several commands read: the spec, the site file, the target."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.access import OPEN, Access
from runner.cli.client import NoAccess, described, read_access
from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.spec.authorities import AuthoritiesError, read_authorities
from runner.spec.load import Spec, load_site, load_spec
from runner.spec.problem import SpecError
from runner.spec.site import Site
from runner.target.base import Target
from runner.target.choose import TARGETS, UnknownTarget, choose_target

SITE_FILE = Path("site.yaml")


@dataclass(frozen=True)
class Inputs:
    """A valid spec on a known target. `origin` is who named the target; `client` what the record says of what sends,
    and `access` by what engines let it in; `refused` says why the plan cannot be carried out here, and is empty where
    it can."""

    spec: Spec
    site: Site
    plan: Plan
    target: Target
    origin: str
    client: dict[str, Any]
    access: Access
    refused: list[str]


def _name(text: str) -> str:
    # an empty variable of a script must not become the default
    if not text:
        raise ArgumentTypeError("it is empty; leave --target out for the default")
    return text


def add_inputs(parser: ArgumentParser) -> None:
    """The arguments SPEC, --target and --site."""
    parser.add_argument("spec", type=Path, metavar="SPEC", help="the experiment, a YAML file")
    parser.add_argument(
        "--target",
        type=_name,
        metavar="NAME",
        help="where engines run (default: $RUNNER_TARGET, the site file, embedded)",
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE",
        help="what belongs to this place (default: site.yaml, if it is there)",
    )


def read_inputs(options: Namespace) -> Inputs | None:
    """Everything validated, or None after saying on stderr what is wrong."""
    problems: list[str] = []
    site, authorities = Site(), ""
    try:
        if options.site is not None:
            site = load_site(options.site)
        elif SITE_FILE.exists():
            site = load_site(SITE_FILE)
        if site.load.ca_file is not None:
            authorities = read_authorities(Path(site.load.ca_file))
    except SpecError as error:
        problems.append(str(error))
    except AuthoritiesError as error:  # it could be used when the site file was read
        problems.append(f"run: load.ca-file of the site file: {error}")
    name = origin = ""
    try:
        name, origin = choose_target(options.target, os.environ, site)
    except UnknownTarget as error:
        problems.append(f"run: {error}")
    try:
        spec = load_spec(options.spec)
        plan = _placed(build_plan(spec, name), site)
    except SpecError as error:
        problems.append(str(error))
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return None
    access, refused = OPEN, []
    try:
        access = read_access(site.load, os.environ, authorities)
    except NoAccess as error:
        refused.append(f"run: load.bearer-token of the site file: {error}")
    target = TARGETS[name](site, spec, access)
    refused += [f"run: target {name}: {one}" for one in target.problems(plan)]
    client = described(plan.load, site.load, os.environ, authorities)
    return Inputs(spec, site, plan, target, origin, client, access, refused)


def _placed(plan: Plan, site: Site) -> Plan:
    """The plan as this place carries it out."""
    if site.load.processes is None:
        return plan
    return plan.model_copy(update={"load": plan.load.model_copy(update={"processes": site.load.processes})})
