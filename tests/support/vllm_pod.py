"""The real vLLM of `tests/real_engine/install` in a Pod of the kit's cluster: its environment, its interpreter and this
machine's `/usr` by hostPath, in the image of a small Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import vllm_cpu
from cluster_kit import PYTHON

MODEL = str(vllm_cpu.MODELS / "tiny-model")
ENV = {"HOME": "/tmp", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1"}
FLAGS = "--served-model-name tiny --max-model-len 2048 --enforce-eager --kv-cache-memory-bytes 64M --max-num-seqs 4"
SHM = "1Gi"
STARTUP = {
    "httpGet": {"path": "/health", "port": 8000},
    "periodSeconds": 2,
    "failureThreshold": 150,
    "timeoutSeconds": 5,
}
"""Five minutes: it takes 40 s on a machine with two idle cores, and longer beside other work."""


def command() -> list[str]:
    """The container's command; the model and the arguments follow."""
    return [str(vllm_cpu.program("vllm")), "serve"]


def folders() -> dict[str, Path]:
    """What the Pod needs of this machine, by the volume's name: each at its own path, read-only."""
    interpreter = vllm_cpu.program("python").resolve().parents[1]
    found = {"usr": Path("/usr"), "engine": vllm_cpu.home(), "models": vllm_cpu.MODELS}
    if not interpreter.is_relative_to("/usr"):
        found["interpreter"] = interpreter
    return found


def volumes() -> list[dict[str, Any]]:
    return [{"name": name, "hostPath": {"path": str(place)}} for name, place in folders().items()]


def mounts() -> list[dict[str, Any]]:
    return [{"name": name, "mountPath": str(place), "readOnly": True} for name, place in folders().items()]


def settings() -> dict[str, Any]:
    """The `kubernetes:` block of a site file, but for what names the cluster."""
    return {
        "image": PYTHON,
        "command": command(),
        "env": dict(ENV),
        "volumes": volumes(),
        "volume-mounts": mounts(),
        "shm": SHM,
        "probes": {"startup": dict(STARTUP)},
    }


def deployment(name: str, *args: str) -> dict[str, Any]:
    """A manifest made by hand, as a user who has such a machine would."""
    shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM}}
    container = {
        "name": name,
        "image": PYTHON,
        "command": command(),
        "args": [MODEL, *args, "--host", "0.0.0.0", "--port", "8000"],
        "env": [{"name": key, "value": value} for key, value in ENV.items()],
        "ports": [{"containerPort": 8000}],
        "startupProbe": dict(STARTUP),
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        "volumeMounts": [*mounts(), {"name": "shm", "mountPath": "/dev/shm"}],
    }
    pod = {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": [*volumes(), shm],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }
