"""The article's whole experiment on a cluster whose one GPU the user's own Deployment holds."""

from __future__ import annotations

import json
from pathlib import Path

import baselines
from cluster import Namespace
from vllm_cpu import ROOT


def test_the_whole_experiment(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    manifest = baselines.vllm(engine_image, name="vllm-qwen", env={"SIMULATOR_TIME_SCALE": "0.15"})
    baselines.by_apply(namespace, manifest)
    namespace.rolled_out("vllm-qwen")
    before = namespace.deployment("vllm-qwen")
    site = {
        "target": "kubernetes",
        "kubernetes": {
            "image": engine_image,
            "env": {"SIMULATOR_TIME_SCALE": "0.15"},
            "baseline": {"deployment": "vllm-qwen"},
        },
    }
    (tmp_path / "site.yaml").write_text(json.dumps(site))
    ran = namespace.run(tmp_path, str(ROOT / "specs" / "ngram-spec.yaml"), "--yes")
    print(ran.stderr, ran.stdout)
    print(ran.report)
    after = namespace.deployment("vllm-qwen")
    assert before == after
    assert ran.code == 0
