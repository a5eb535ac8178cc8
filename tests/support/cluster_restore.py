"""What must hold of a user's Deployment after a run, and runs that are met while they are under way."""

from __future__ import annotations

import copy
import json
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import Namespace, Object
from cluster_kit import checked, kubectl
from finished_run import Finished

from runner.record.record import Baseline

UNTOUCHED = ("resourceVersion", "generation", "managedFields")
MANAGER = "llm-experiment-runner"
SECRET = "hf_neverToBeSeen0123456789"
"""The value of a variable of the baseline, which stands in its own object and in the saved one and nowhere else."""


def plain(deployment: Object) -> Any:
    """The object without what Kubernetes moves by itself."""
    kept = copy.deepcopy(deployment)
    for key in UNTOUCHED:
        kept["metadata"].pop(key, None)
    kept["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    kept.pop("status", None)
    return kept


def owners(deployment: Object) -> list[Any]:
    """Who owns which field, but for the status."""
    return [
        (entry["manager"], entry["operation"], entry["fieldsV1"])
        for entry in deployment["metadata"]["managedFields"]
        if entry.get("subresource") != "status"
    ]


def template_hash(namespace: Namespace, name: str = "vllm") -> str:
    """That of the Deployment's newest ReplicaSet, which must have its revision."""
    deployment = namespace.deployment(name)
    revision = deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
    sets = [
        one
        for one in namespace.list("replicasets", app=name)
        if one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
    ]
    assert len(sets) == 1, sets
    return str(sets[0]["metadata"]["labels"]["pod-template-hash"])


def assert_as_it_was(namespace: Namespace, before: Object) -> None:
    """Field by field, owner by owner, with its replicas Ready, and nothing else in the namespace."""
    after = namespace.deployment(before["metadata"]["name"])
    assert plain(after) == plain(before)
    assert owners(after) == owners(before)
    assert after["status"].get("readyReplicas", 0) == before["spec"]["replicas"]
    assert [one["metadata"]["name"] for one in namespace.list("deployments")] == [before["metadata"]["name"]]


def assert_untouched(namespace: Namespace, before: Object, ran: Finished) -> None:
    """Not so much as written over with the same, and no run directory."""
    assert namespace.deployment(before["metadata"]["name"]) == before
    assert not (ran.folder / "runs").exists()


def assert_discreet(ran: Finished) -> None:
    """The saved object is its owner's alone, and SECRET stands in it and nowhere else."""
    saved = ran.directory / "baseline.json"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert SECRET in saved.read_text(encoding="utf-8")
    assert SECRET not in ran.stdout + ran.stderr
    for path in ran.directory.rglob("*"):
        if path.is_file() and path != saved:
            assert SECRET.encode() not in path.read_bytes(), path


def baseline_of(ran: Finished) -> Baseline:
    [one] = [one for one in ran.record.baselines if one.saved.existed]
    return one


def by_hand(namespace: Namespace, ran: Finished) -> str:
    """Do what the run says puts its baseline back, in a shell that knows nothing else; what that printed."""
    command = baseline_of(ran).by_hand
    assert command in ran.stdout and command in ran.report.replace("\\", ""), command
    environment = {
        "PATH": f"{kubectl().parent}:/usr/bin:/bin",
        "HOME": str(namespace.folder),  # where kubectl keeps its cache
    }
    return checked([*namespace.cluster.network, "sh", "-c", command], environment)


def assert_put_back_by_hand(namespace: Namespace, before: Object, ran: Finished) -> None:
    """The printed command makes all of it what it was, and nothing of it is the runner's any more."""
    said = by_hand(namespace, ran)
    name = before["metadata"]["name"]
    namespace.rolled_out(name)
    after = namespace.deployment(name)
    identity = ("uid", "creationTimestamp")
    left, right = plain(after), plain(before)
    for one in identity:
        left["metadata"].pop(one), right["metadata"].pop(one)
    assert left == right
    assert said.count("\n") <= 2, said
    assert MANAGER not in [entry["manager"] for entry in after["metadata"]["managedFields"]]


# --- while it is under way ---


def alone(spec: dict[str, Any]) -> None:
    """The baseline condition and no other: one rollout."""
    spec["conditions"] = {"off": {}}
    spec["invariants"] = {}


def rounds_of(requests: int) -> Callable[[dict[str, Any]], None]:
    """So long that whoever interferes has time to: about 20 requests a second."""
    return lambda spec: spec["phases"]["load"].update({"requests": requests})


def journal(folder: Path) -> list[dict[str, Any]]:
    """The events so far of the one run in a folder."""
    lines = [line for path in folder.glob("runs/*/journal.jsonl") for line in path.read_bytes().split(b"\n")[:-1]]
    return [json.loads(line) for line in lines]


def wait_for(folder: Path, event: str, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Until the journal of the run in a folder has this event."""
    deadline = time.monotonic() + seconds
    while not any(one["event"] == event for one in journal(folder)):
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            said = process.communicate(timeout=120)
            raise AssertionError(f"no {event} within {seconds} s:\n" + "\n".join(said))
        time.sleep(0.05)
