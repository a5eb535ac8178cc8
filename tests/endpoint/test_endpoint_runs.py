"""Whole experiments on servers that run already: what can be proved of them, and what is never taken for proved."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from endpoint_engines import DEVELOPMENT, NGRAM, Server, allow, finish, relayed, run, serving, start, write
from loopback import free_port

UNSEEN = ("declared-differences", "request-options")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """`off` and `on` as anybody starts them, `off-dev` and `on-dev` in development mode."""
    folder = tmp_path_factory.mktemp("servers")
    made = {
        "off": Server(folder),
        "on": Server(folder, *NGRAM),
        "off-dev": Server(folder, **DEVELOPMENT),
        "on-dev": Server(folder, *NGRAM, **DEVELOPMENT),
    }
    with serving(*made.values()):
        yield made


def evidence(report: str, condition: str) -> dict[str, list[str]]:
    """Rows of the table of evidence: what, to its value and its reading."""
    section = report.partition("(`startup-evidence`)")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return {row[1]: row[2:] for row in rows if row[0] == condition}


# What can be proved -----------------------------------------------------------------------------------


def test_without_development_mode_the_rest_is_unknown_and_never_a_pass(
    tmp_path: Path, servers: dict[str, Server]
) -> None:
    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url})
    assert ended.code == 6, ended.out + ended.err
    for check in ("configuration-in-force", *UNSEEN):
        assert ended.judgement(check) == "inconclusive"
    for check in ("one-engine-process", "request-count", "same-output"):
        assert ended.judgement(check) == "pass"
    assert "on: nothing tells whether these are in force: enforce_eager, max_num_seqs, spec_method" in ended.report
    off, on = evidence(ended.report, "off"), evidence(ended.report, "on")
    assert off["engine log"] == ["–", "this target does not see it"]
    assert off["/server_info"] == ["–", "absent: HTTP 404"]
    assert "max_model_len: 4096" in off["/v1/models"][0] and "model: 'org/model'" in off["/v1/models"][0]
    assert off["nothing shows"] == ["`enforce_eager, max_num_seqs`", "unknown"]
    assert on["nothing shows"] == ["`spec_method`", "unknown"]
    assert on["draft counters"][0] == "`spec_tokens: 5`"
    assert "5 positions" in on["speculative_config (draft counters)"][0]
    assert on["draft counters (one request)"][1] == "the counters moved over one request"
    assert off["speculative_config (draft counters)"][1] == "speculative decoding is off"
    assert "unknown → unknown" in ended.report
    # The servers were there, and are there still.
    assert all(one.alive for one in servers.values())
    for engine in ended.record.engines:
        assert engine.launched is not None and (engine.launched.command, engine.launched.log) == ([], None)
        assert engine.stopped is not None and engine.stopped.how == "left running: it was there before"
        assert engine.ready is not None and servers[engine.arm].url in engine.ready.engine
    assert f"off` #1 endpoint: `{servers['off'].url}`" in ended.report
    assert "the log of `off`: this target does not see it" in ended.report


def test_what_cannot_be_judged_may_be_allowed_and_is_named(tmp_path: Path, servers: dict[str, Server]) -> None:
    ended = run(
        tmp_path, {"off": servers["off"].url, "on": servers["on"].url}, allow("configuration-in-force", *UNSEEN)
    )
    assert ended.code == 0, ended.out + ended.err
    assert "could not be judged, which the spec allows: configuration-in-force, declared-differences" in ended.out


def test_development_mode_proves_every_argument(tmp_path: Path, servers: dict[str, Server]) -> None:
    ended = run(tmp_path, {"off": servers["off-dev"].url, "on": servers["on-dev"].url}, allow(*UNSEEN))
    assert ended.code == 0, ended.out + ended.err
    assert ended.judgement("configuration-in-force") == "pass"
    # What no document says stays unknown: the runner that nobody forced, options without effect, parsed arguments.
    assert [ended.judgement(check) for check in UNSEEN] == ["inconclusive", "inconclusive"]
    on = evidence(ended.report, "on")
    assert "spec_method: 'ngram', spec_tokens: 5" in on["/server_info"][0]
    assert "`enabled` → `disabled` (declared)" in ended.report
    assert "async_scheduling: False" in ended.report
    kept = ended.directory / "artifacts" / "on-1" / "server_info.json"
    with httpx.Client(trust_env=False) as client:
        now = client.get(f"{servers['on-dev'].url}/server_info", params={"config_format": "json"}).json()
    assert (
        json.loads(kept.read_text("utf-8"))["vllm_config"]["scheduler_config"] == now["vllm_config"]["scheduler_config"]
    )
    assert {"models.json", "version.json"} <= {path.name for path in kept.parent.iterdir()}


def test_a_server_that_is_simulated_marks_every_table_whoever_reached_it(
    tmp_path: Path, servers: dict[str, Server]
) -> None:
    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url})
    assert ended.record.started.simulated is False and ended.record.simulated is True
    assert ended.result["simulated"] is True
    headings = [line for line in ended.report.splitlines() if line.startswith("### ")]
    assert headings and all(line.endswith("— simulated") for line in headings)
    assert "(simulated)" in ended.out
    # One that answers for another is enough: no table is a mixture that looks measured.
    journal = ended.directory / "journal.jsonl"
    lines = journal.read_text("utf-8").splitlines()
    first = next(at for at, line in enumerate(lines) if '"event":"engine-ready"' in line)
    lines[first] = lines[first].replace('"simulated":true', '"simulated":false')
    journal.write_text("\n".join(lines) + "\n", "utf-8")
    assert ended.record.simulated is True


# What cannot be -----------------------------------------------------------------------------------------


def test_an_impossible_plan_is_exit_2_and_nothing_is_asked(tmp_path: Path) -> None:
    def twice(spec: dict[str, Any]) -> None:
        spec["replicates"] = 2

    nobody = f"http://127.0.0.1:{free_port()}"
    ended = run(tmp_path, {"off": nobody, "onn": nobody}, twice)
    assert (ended.code, ended.out) == (2, "")
    assert [line.partition(";")[0] for line in ended.err.splitlines()] == [
        'run: target endpoint: no URL for the condition "on"',
        'run: target endpoint: "onn" has a URL and is no condition of this spec',
        "run: target endpoint: replicates: 2 asks for fresh engine processes, and a server that runs already is always "
        "the same one",
    ]
    assert not (tmp_path / "runs").exists()


def test_one_server_under_two_names_fails_and_both_conditions_are_named(
    tmp_path: Path, servers: dict[str, Server]
) -> None:
    """What is written alike is refused beforehand; a relay is an address that does not look like the server's."""

    def other(spec: dict[str, Any]) -> None:
        spec["conditions"] = {"off": {}, "on": {"args": {"max-num-seqs": 8}}}

    url = servers["off"].url
    with relayed(url) as another:
        ended = run(tmp_path, {"off": url, "on": another}, other, allow("configuration-in-force", *UNSEEN))
    assert ended.code == 1, ended.out + ended.err
    assert ended.judgement("one-engine-process") == "fail"
    assert "off: on was served by the same process" in ended.report


# What contradicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", "-dev"], ids=["plain", "development"])
def test_swapped_urls_are_exit_4(tmp_path: Path, servers: dict[str, Server], kind: str) -> None:
    ended = run(tmp_path, {"off": servers[f"on{kind}"].url, "on": servers[f"off{kind}"].url})
    assert ended.code == 4, ended.out + ended.err
    assert (
        "off: not in force: speculative_config: wanted None, differs: not asked for, and yet the engine speculates"
        in (ended.out)
    )
    sources = "/server_info, the draft counters" if kind else "the draft counters"
    assert re.search(rf"^speculative_config +None .* {sources} +differs ", ended.out, re.M), ended.out
    assert f"`{sources}`" in ended.report
    assert {str(one["throughput"]) for one in ended.result["cells"]} == {"{'absent': 'not-measured'}"}


@pytest.mark.parametrize("kind", ["", "-dev"], ids=["plain", "development"])
def test_a_condition_without_its_speculation_is_exit_4(tmp_path: Path, servers: dict[str, Server], kind: str) -> None:
    other = "off" if kind else "off-dev"
    ended = run(tmp_path, {"off": servers[other].url, "on": servers[f"off{kind}"].url})
    assert ended.code == 4, ended.out + ended.err
    reason = "/server_info says speculative_config null" if kind else "exposes its metrics and none of speculation's"
    assert re.search(rf"on: not in force: spec_method: wanted 'ngram', ignored: [^;]*{reason}", ended.out), ended.out


def test_other_values_of_a_server_are_exit_4_each_with_its_source(tmp_path: Path, servers: dict[str, Server]) -> None:
    def otherwise(spec: dict[str, Any]) -> None:
        spec["args"].update({"max-model-len": 2048, "max-num-seqs": 16, "gpu-memory-utilization": 0.5})
        spec["model"] = "org/other"

    ended = run(tmp_path, {"off": servers["off-dev"].url, "on": servers["on-dev"].url}, otherwise)
    assert ended.code == 4, ended.out + ended.err
    for name, words in (
        ("model", "/v1/models shows 'org/model'"),
        ("max_model_len", "/server_info shows 4096"),
        ("max_num_seqs", "/server_info shows 4"),
        ("gpu_memory_utilization", "vllm:cache_config_info shows"),
    ):
        assert re.search(rf"^{name} .*{words}", ended.out, re.M), ended.out
    assert "model: wanted 'org/other', differs: " in ended.out

    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url}, otherwise)
    assert ended.code == 4, ended.out + ended.err
    assert "model: wanted 'org/other', differs: /v1/models shows 'org/model'" in ended.out
    assert "max_model_len: wanted 2048, differs: /v1/models shows 4096" in ended.out


def test_another_number_of_drafts_is_exit_4_by_the_counters_alone(tmp_path: Path, servers: dict[str, Server]) -> None:
    def three(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"]["args"]["spec-tokens"] = 3

    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url}, three)
    assert ended.code == 4, ended.out + ended.err
    assert (
        "on: not in force: spec_tokens: wanted 3, differs: the draft counters: the engine drafts 5 tokens" in ended.out
    )


def test_a_variable_of_another_value_is_exit_4_and_one_that_no_list_has_is_unknown(
    tmp_path: Path, servers: dict[str, Server]
) -> None:
    def runner(spec: dict[str, Any]) -> None:
        spec["conditions"]["off"]["env"] = {"VLLM_LOG_STATS_INTERVAL": "1", "VLLM_USE_V2_MODEL_RUNNER": "0"}

    ended = run(tmp_path, {"off": servers["off-dev"].url, "on": servers["on-dev"].url}, runner)
    assert ended.code == 4, ended.out + ended.err
    assert "env.VLLM_LOG_STATS_INTERVAL: wanted '1', differs: /server_info shows 10" in ended.out
    assert "env.VLLM_USE_V2_MODEL_RUNNER: wanted" not in ended.out
    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url}, runner)
    assert ended.code == 6, ended.out + ended.err
    unknown = "enforce_eager, max_num_seqs, env.VLLM_LOG_STATS_INTERVAL, env.VLLM_USE_V2_MODEL_RUNNER"
    assert f"nothing tells whether these are in force: {unknown}" in ended.report


def test_another_version_is_exit_4_by_the_servers_word_alone(tmp_path: Path, servers: dict[str, Server]) -> None:
    def other(spec: dict[str, Any]) -> None:
        spec["engine"]["version"] = "0.33.0"

    for kind in ("", "-dev"):
        ended = run(tmp_path, {"off": servers[f"off{kind}"].url, "on": servers[f"on{kind}"].url}, other)
        assert ended.code == 4, ended.out + ended.err
        assert "off: not in force: engine version: wanted 0.33.0, found 0.26.0" in ended.out


# What does not answer ---------------------------------------------------------------------------------


def test_a_wrong_model_behind_the_url_is_exit_3(tmp_path: Path, servers: dict[str, Server]) -> None:
    def other(spec: dict[str, Any]) -> None:
        spec["request"]["model"] = "another"

    ended = run(tmp_path, {"off": servers["off"].url, "on": servers["on"].url}, other)
    assert ended.code == 3, ended.out + ended.err
    assert "off: the engine refuses a one-token request: http-error: HTTP 404" in ended.out
    assert "The model `another` does not exist." in ended.out


def test_a_server_that_is_down_is_exit_3_and_named(tmp_path: Path, servers: dict[str, Server]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    began = time.monotonic()
    ended = run(tmp_path, {"off": servers["off"].url, "on": url})
    assert ended.code == 3, ended.out + ended.err
    assert f"on: no server answers at {url}: " in ended.out
    assert time.monotonic() - began < 120  # not the time that an engine has to start
    # What was measured before stands.
    assert [isinstance(one["throughput"], float) for one in ended.result["cells"]] == [True, False]


def _rounds_started(folder: Path, count: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for journal in folder.glob("runs/*/journal.jsonl"):
            if journal.read_text("utf-8").count('"event":"round-started"') >= count:
                return
        time.sleep(0.02)
    raise AssertionError(f"no {count} rounds within {seconds} s")


@pytest.mark.parametrize("tolerated", [0, 10_000])
def test_a_server_that_is_killed_in_a_round_ends_its_condition_and_is_named(tmp_path: Path, tolerated: int) -> None:
    def slow(spec: dict[str, Any]) -> None:
        spec["phases"]["load"].update(requests=40, rounds=3)
        spec["limits"] = {"idle-seconds": 600, "max-failed": tolerated}

    off, on = Server(tmp_path), Server(tmp_path, *NGRAM, scale=0.2)
    with serving(off, on):
        write(tmp_path, {"off": off.url, "on": on.url}, slow)
        process = start(tmp_path)
        _rounds_started(tmp_path, 4)  # three of `off`, the first of `on`
        time.sleep(1)
        on.kill()
        began = time.monotonic()
        ended = finish(tmp_path, process)
    assert time.monotonic() - began < 120  # neither idle-seconds, nor the rounds that were to come
    assert ended.code == 5, ended.out + ended.err
    assert f"on: nothing answers at {on.url} any more" in ended.out
    assert "during load-c2-r1" in ended.out
    assert ended.judgement("one-engine-process") == "fail"
    [round_] = ended.record.of_arm("on")[0].rounds
    verdicts = {request.verdict for request in round_.of_role("measured")}
    assert "refused" in verdicts
    assert round_.finished is not None and "could not be read" in str(round_.finished.busy_after)
    assert [isinstance(one["throughput"], float) for one in ended.result["cells"]] == [True, False]


def test_a_server_that_restarts_in_a_round_is_another_process(tmp_path: Path, servers: dict[str, Server]) -> None:
    faults = json.dumps([{"kind": "restart", "after_requests": 6}])
    on = Server(tmp_path, *NGRAM, SIMULATOR_FAULTS=faults)
    with serving(on):
        ended = run(tmp_path, {"off": servers["off"].url, "on": on.url}, allow("configuration-in-force", *UNSEEN))
    assert ended.code == 1, ended.out + ended.err
    assert ended.judgement("one-engine-process") == "fail"
    assert "the engine process changed while it was measured" in ended.report
