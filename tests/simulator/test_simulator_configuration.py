"""Runner, async scheduling and drafter by release, host and flags, and what each of them refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from simulator_process import SPECULATION, EngineProcess

from runner.simulator import arguments, configuration, profile, release, serve
from runner.simulator.configuration import Configuration
from runner.simulator.ngram import Drafter, EarliestMatch, LatestMatch, PaddedEarliestMatch

NGRAM = SPECULATION
GPU = ("--spec-method", "ngram_gpu", "--spec-tokens", "5")
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
UNSUPPORTED = "ngram/ngram_gpu speculative decoding"


def build(version: str, host: str, *flags: str, **environment: str) -> Configuration:
    values = arguments.parse(["serve", "m", "--max-model-len", "2048", *flags], version, print).values
    return configuration.build(values, environment, release.named(version), profile.load(host))


def drafter(built: Configuration) -> Drafter | None:
    drafting = serve.make_scheduler(built).limits.drafting
    return drafting.drafter() if drafting else None


@pytest.mark.parametrize(
    ("version", "host", "flags", "environment", "runner", "fallback", "asynchronous", "refused", "kind"),
    [
        ("0.26.0", "article", (), {}, "V2", None, True, False, None),
        ("0.26.0", "article", (), V1, "V1", None, True, False, None),
        ("0.26.0", "article", ("--no-async-scheduling",), {}, "V2", None, False, False, None),
        ("0.26.0", "article", NGRAM, {}, "V1", UNSUPPORTED, False, True, EarliestMatch),
        ("0.26.0", "article", NGRAM, V1, "V1", None, False, True, EarliestMatch),
        ("0.26.0", "article", (*NGRAM, "--no-async-scheduling"), {}, "V1", UNSUPPORTED, False, False, EarliestMatch),
        ("0.26.0", "article", GPU, {}, "V1", UNSUPPORTED, True, False, PaddedEarliestMatch),
        ("0.26.0", "cpu", (), {}, "V1", None, False, False, None),
        ("0.26.0", "cpu", NGRAM, {}, "V1", None, False, True, EarliestMatch),
        ("0.32.0", "cpu", (), {}, "V1", None, False, False, None),
        ("0.32.0", "cpu", NGRAM, {}, "V1", None, False, True, EarliestMatch),
        ("0.32.0", "cpu", NGRAM, V1, "V1", None, False, True, EarliestMatch),
        ("0.33.0", "article", (), {}, "V2", None, True, False, None),
        ("0.33.0", "article", NGRAM, {}, "V2", None, True, False, LatestMatch),
        ("0.33.0", "h200", NGRAM, {}, "V2", None, True, False, LatestMatch),
        ("0.33.0", "article", NGRAM, V2, "V2", None, True, False, LatestMatch),
        ("0.33.0", "article", (*NGRAM, "--async-scheduling"), {}, "V2", None, True, False, LatestMatch),
        ("0.33.0", "article", (*NGRAM, "--no-async-scheduling"), {}, "V2", None, False, False, LatestMatch),
        ("0.33.0", "article", GPU, {}, "V2", None, True, False, LatestMatch),
        ("0.33.0", "article", NGRAM, V1, "V1", None, False, True, EarliestMatch),
    ],
)
def test_runner_scheduling_and_drafter(
    version: str,
    host: str,
    flags: tuple[str, ...],
    environment: dict[str, str],
    runner: str,
    fallback: str | None,
    asynchronous: bool,
    refused: bool,
    kind: type[Any] | None,
) -> None:
    built = build(version, host, *flags, **environment)
    assert (built.runner, built.runner_fallback) == (runner, fallback)
    assert (built.async_in_force, built.async_refused) == (asynchronous, refused)
    assert type(drafter(built)) is (kind or type(None))
    # The CPU platform turns it off after the API server has said that it is on.
    assert built.async_scheduling == (asynchronous or (host == "cpu" and not refused))
    assert built.max_num_scheduled_tokens == built.max_num_batched_tokens  # N-gram charges no slots


@pytest.mark.parametrize(
    ("version", "host", "flags", "environment", "words"),
    [
        ("0.32.0", "article", (), {}, "does not imitate vLLM 0.32.0 on a GPU: "),
        ("0.32.0", "h200", NGRAM, {}, "does not imitate vLLM 0.32.0 on a GPU: "),
        ("0.33.0", "cpu", NGRAM, {}, "does not imitate vLLM 0.33.0 on a CPU: "),
        ("0.26.0", "article", NGRAM, V2, "Model Runner V2 does not yet support: ngram/ngram_gpu speculative decoding"),
        ("0.26.0", "cpu", (), V2, "Model Runner V2 requires Triton."),
        (
            "0.26.0",
            "article",
            (*NGRAM, "--async-scheduling"),
            {},
            "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU/DSpark kind of",
        ),
        ("0.32.0", "cpu", (*NGRAM, "--async-scheduling"), {}, "Draft Model/NGram GPU/DSpark/DFlash kind of"),
        (
            "0.33.0",
            "article",
            (*NGRAM, "--async-scheduling"),
            V1,
            "Async scheduling is not supported by the V1 model runner with ngram-based speculative decoding.",
        ),
    ],
)
def test_refusals(version: str, host: str, flags: tuple[str, ...], environment: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        build(version, host, *flags, **environment)


def test_the_lookup_window_reaches_the_drafter() -> None:
    built = build(
        "0.33.0", "article", "-sc", '{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}'
    )
    made = drafter(built)
    assert made
    assert made.propose([1, 2, 3, 9, 8, 1, 2, 3]) == [9, 8]
    assert made.propose([1, 2, 3, 9, 8, 1, 2, 3, 7, 2, 3]) == [3, 3]  # two tokens are too few


def test_an_engine_that_nobody_saw_does_not_start(start: Callable[..., EngineProcess]) -> None:
    engine = start(*NGRAM, SIMULATOR_VERSION="0.32.0")
    assert engine.process.wait(10) == 1
    engine.wait_for("(?m)^The embedded engine does not imitate vLLM 0.32.0 on a GPU")
