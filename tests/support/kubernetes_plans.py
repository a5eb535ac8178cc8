"""A plan and resolved settings for tests of the Kubernetes target, without a cluster."""

import re
from pathlib import Path

from spec_files import GOOD, write

from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.spec.kubernetes import KubernetesSettings, KubernetesSite
from runner.spec.load import load_site, load_spec
from runner.target.kubernetes.settings import Settings, merge


def blocks(
    folder: Path, spec: str = "{}", site: str = "{}", good: str = GOOD
) -> tuple[Plan, KubernetesSettings, KubernetesSite]:
    """The plan of the good spec and the two `kubernetes:` blocks, each written in flow style."""
    read = load_spec(write(folder, f"{good}kubernetes: {spec}\n"))
    place = folder / "site.yaml"
    place.write_text(f"kubernetes: {site}\n", encoding="utf-8")
    return build_plan(read, "kubernetes"), read.experiment.kubernetes.beside(read.folder), load_site(place).kubernetes


def planned(folder: Path, spec: str = "{}", site: str = "{}", good: str = GOOD) -> tuple[Plan, Settings]:
    """The plan and the merged settings; an image is named where the blocks name none."""
    if not re.search(r'\bimage"?:', spec + site):
        spec = spec.replace("{", "{image: 'vllm/vllm-openai:v0.26.0', ", 1).replace(", }", "}")
    plan, written, place = blocks(folder, spec, site, good)
    return plan, merge(written, place, experiment=plan.name)
