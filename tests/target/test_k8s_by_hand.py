"""The commands by which a person puts back what a run changed lead to the cluster that the run was on."""

from pathlib import Path
from typing import Any

import pytest

from runner.target.kubernetes.by_hand import ByHand


class Connected:
    namespace, context = "llm", "default"

    def __init__(self, kubeconfig: str | None) -> None:
        self.kubeconfig = kubeconfig


@pytest.mark.parametrize(
    ("kubeconfig", "command"),
    [
        ("/home/u/k3s.yaml", "kubectl --kubeconfig /home/u/k3s.yaml --context default --namespace llm"),
        ("/a b:/c", "env 'KUBECONFIG=/a b:/c' kubectl --context default --namespace llm"),
        (None, "kubectl --namespace llm"),
    ],
)
def test_the_kubeconfig_is_named_whatever_the_shell_has(kubeconfig: str | None, command: str) -> None:
    connected: Any = Connected(kubeconfig)
    by_hand = ByHand.on(connected)
    assert by_hand.remove("deployment/x") == f"{command} delete deployment/x --ignore-not-found"
    put_back = by_hand.replace("x", Path("/runs/1/baseline.json"))
    assert put_back.startswith(f"{command} scale deployment x --replicas=0 && {command} replace --raw")
