"""Small experiments on a cluster, through the command line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import baselines
from cluster import Namespace
from journals import EFFECTS

Edit = Callable[[dict[str, Any]], Any]

SCALE = {"SIMULATOR_TIME_SCALE": "0.1"}
SPEC: dict[str, Any] = {
    "name": "small",
    "engine": {"version": "0.26.0"},
    "model": baselines.MODEL,
    "args": {"served-model-name": "qwen", "max-model-len": 4096, "max-num-seqs": 16, "enforce-eager": True},
    "conditions": {
        "off": {},
        "on": {
            "args": {"spec-method": "ngram", "spec-tokens": 5},
            "side-effects": EFFECTS,
        },
    },
    "prompts": {"p": {"messages": [{"role": "user", "content": "Repeat this sentence three times: one two three."}]}},
    "request": {"model": "qwen", "max_tokens": 64, "temperature": 0},
    "phases": {"load": {"concurrency": [2], "requests": 6}},
    "limits": {"startup-seconds": 120, "idle-seconds": 20},
    "invariants": {"same-output": {}},
}


def write_spec(folder: Path, *edits: Edit, base: dict[str, Any] | None = None) -> Path:
    """A small experiment, off and on, after `edits`."""
    value = copy.deepcopy(SPEC if base is None else base)
    for edit in edits:
        edit(value)
    path = folder / "spec.yaml"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def write_site(folder: Path, image: str, *, target: str | None = "kubernetes", **settings: Any) -> Path:
    """`site.yaml` in `folder`, which the command line finds: the embedded engine's image, and `settings` (keys with _
    for -) over it."""
    block: dict[str, Any] = {
        "image": image,
        "env": SCALE,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "runtime-class-name": "nvidia",
        "termination-grace-seconds": 5,
        "probes": {"startup": {"periodSeconds": 1}, "readiness": {"periodSeconds": 1}},
    }
    block.update({name.replace("_", "-"): value for name, value in settings.items()})
    site = {"kubernetes": block} if target is None else {"target": target, "kubernetes": block}
    path = folder / "site.yaml"
    path.write_text(json.dumps(site), encoding="utf-8")
    return path


def patched(name: str = "vllm") -> dict[str, str]:
    """The baseline as a setting: the conditions run in it."""
    return {"deployment": name}


def beside(name: str = "vllm") -> dict[str, str]:
    """The baseline as a setting: it gives up its GPU for the time."""
    return {"deployment": name, "take-over": "scale-to-zero"}


def baseline_there(namespace: Namespace, image: str, **more: Any) -> dict[str, Any]:
    """A user's Deployment `vllm` by client-side apply, rolled out; the object as it is then."""
    manifest = baselines.vllm(image, env={**SCALE, **more.pop("env", {})}, **more)
    baselines.by_apply(namespace, manifest)
    namespace.rolled_out("vllm")
    return namespace.deployment("vllm")
