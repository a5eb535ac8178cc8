"""Server info: every recorded document, against the commands that were recorded beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_recorded import FIXTURES, read_json, text

from runner.engine.log import Speculative
from runner.engine.server_info import ServerInfo, ServerInfoError, read_server_info

DOCUMENTS = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("server_info.json"))


def test_there_are_the_four_arms_of_the_second_series() -> None:
    assert [name.split("/")[1] for name in DOCUMENTS] == ["off-a", "off-v1-async", "off-v1-noasync", "on-a"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_recorded_document_says_what_its_command_asked(name: str) -> None:
    recorded = read_json(name.replace("server_info", "command"))
    command, env = recorded["command"], recorded["env"]
    on = "--spec-method" in command

    def given(flag: str) -> int:
        return int(command[command.index(flag) + 1])

    assert read_server_info(text(name)) == ServerInfo(
        version="0.26.0",
        model=command[2],
        speculative=Speculative("ngram", "ngram", given("--spec-tokens")) if on else None,
        speculative_off=not on,
        prompt_lookup=(5, 5) if on else None,
        # the README's table: speculation, or the flag, turned it off
        async_scheduling="disabled" if on or "--no-async-scheduling" in command else "enabled",
        max_num_seqs=given("--max-num-seqs"),
        max_num_batched_tokens=given("--max-num-batched-tokens"),
        max_num_scheduled_tokens=given("--max-num-batched-tokens") if on else None,
        max_model_len=given("--max-model-len"),
        block_size=16,
        # the start-up logs of the same processes
        kv_cache_tokens=717040 if "noasync" in name else 715056,
        prefix_caching=True,
        enforce_eager="--enforce-eager" in command,
        forced_runner="V1" if env.get("VLLM_USE_V2_MODEL_RUNNER") == "0" else None,
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "vllm_config"),
        ('{"detail":"Not Found"}', "vllm_config"),
        ('{"vllm_config":null}', "vllm_config"),
        ('{"vllm_config":"model=\'m\'"}', "config_format=json"),
    ],
)
def test_what_is_no_server_info_says_why(body: str, words: str) -> None:
    with pytest.raises(ServerInfoError, match=words):
        read_server_info(body)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"scheduler_config": None, "cache_config": [], "speculative_config": "x", "model_config": 5},
        {"scheduler_config": {"async_scheduling": None, "max_num_seqs": "16", "max_num_batched_tokens": True}},
    ],
)
def test_what_is_not_stated_is_absent_and_no_default(config: dict[str, Any]) -> None:
    assert read_server_info(json.dumps({"vllm_config": config})) == ServerInfo()
