"""The lane that runs a real vLLM. Where it is not installed it is skipped, and says so; in CI it must be there."""

import os

import pytest
import vllm_cpu


@pytest.fixture(autouse=True, scope="session")
def _installed() -> None:
    if vllm_cpu.installed():
        return
    words = f"there is no real engine in {vllm_cpu.home()}; install it with {vllm_cpu.INSTALL}"
    if os.environ.get("CI") == "true":
        pytest.fail(words)
    pytest.skip(words)
