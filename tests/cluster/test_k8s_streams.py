"""The streams of a cluster on a real one: a Pod's log, a program beside the engine, a forwarded port."""

import os
import re
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from cluster_client import (
    COUNT,
    Relay,
    all_lines,
    answers,
    phase,
    processes,
    reached,
    restarts,
    run_pod,
    running,
    wait_for,
)
from cluster_kit import PROBE

from runner.target.base import EndOfLines
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.pod_exec import execute
from runner.target.kubernetes.pod_log import PodLog
from runner.target.kubernetes.port_forward import PortForward


def test_a_log_says_why_it_is_not_read(nobody: Cluster, client: Cluster, tmp_path: Path) -> None:
    log = PodLog(nobody, "engine", "main", tmp_path / "pod.log")
    log.start()
    try:
        assert "not allowed to read Pod" in wait_for(lambda: log.problem)
    finally:
        log.close()


def test_a_log_is_kept_byte_for_byte_to_the_containers_end(client: Cluster, tmp_path: Path) -> None:
    said = b'{"level": "info", "n": 1}\n\xff\xfe is no UTF-8\n\n  spaces \t\n'
    program = f"import sys, time\nsys.stdout.buffer.write({said[:30]!r})\nsys.stdout.flush()\ntime.sleep(2)\n"
    program += f"sys.stdout.buffer.write({said[30:200]!r} + b'long' * 20000 + b'\\nno end')"
    said = said[:30] + said[30:200] + b"long" * 20000 + b"\nno end"
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    log.start()  # before there is a Pod
    try:
        run_pod(client, "engine", ["python3", "-c", program])
        wait_for(lambda: (tmp_path / "pod.log").read_bytes()[:26] == said[:26])
        wait_for(lambda: (tmp_path / "pod.log").read_bytes() == said)
    finally:
        log.close()
    assert log.lines()[0] == '{"level": "info", "n": 1}'
    assert log.problem is None


def test_a_lost_log_stream_is_resumed_without_gap_or_repetition(
    nothing_left: None, relayed: Cluster, relay: Relay, client: Cluster, tmp_path: Path
) -> None:
    program = "for i in range(60):\n    for j in range(50): print('line', i * 50 + j)\n    flush(); time.sleep(0.1)"
    program = f"import sys, time\nflush = sys.stdout.flush\n{program}"
    run_pod(client, "engine", ["python3", "-c", program])
    log = PodLog(relayed, "engine", "main", tmp_path / "pod.log")
    log.start()
    try:
        for lines in (300, 900, 1500, 2100):
            wait_for(lambda lines=lines: len(log.lines()) > lines)
            relay.cut()
        wait_for(lambda: phase(client, "engine") == "Succeeded")
        wait_for(lambda: len(log.lines()) > 3000)
    finally:
        log.close()
    assert relay.connections > 4
    assert log.lines() == [f"line {n}" for n in range(3000)] + [""]


def test_a_log_that_was_waited_for_has_all_that_was_printed(
    nothing_left: None, client: Cluster, tmp_path: Path
) -> None:
    program = "import time\nfor i in range(2000): print('line', i)\nprint(end='', flush=True); time.sleep(1000)"
    running(client, "engine", ["python3", "-c", program])
    whole = [f"line {n}" for n in range(2000)] + [""]
    first = PodLog(client, "engine", "main", tmp_path / "first.log")
    first.start()
    try:
        wait_for(lambda: first.lines() == whole)
        late = PodLog(client, "engine", "main", tmp_path / "late.log")
        late.start()
        try:
            assert late.catch_up(30)
            assert late.lines() == whole
        finally:
            late.close()
    finally:
        first.close()


@pytest.mark.parametrize("late", [False, True])
def test_a_restarted_container_is_read_from_its_first_start(client: Cluster, tmp_path: Path, late: bool) -> None:
    program = (
        "import os, time\n"
        "again = os.path.exists('/keep/again')\n"
        "print('second' if again else 'first', flush=True)\n"
        "open('/keep/again', 'w').close()\n"
        "if not again: raise SystemExit(1)\n"
        "time.sleep(1000)\n"
    )
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    if not late:
        log.start()
    try:
        run_pod(
            client,
            "engine",
            ["python3", "-c", program],
            restartPolicy="OnFailure",
            volumes=[{"name": "keep", "emptyDir": {}}],
            container={"volumeMounts": [{"name": "keep", "mountPath": "/keep"}]},
        )
        if late:
            wait_for(lambda: restarts(client, "engine"))
            log.start()
        wait_for(lambda: log.lines() == ["first", "second", ""])
    finally:
        log.close()
    assert log.lines() == ["first", "second", ""]


def test_a_silent_container_does_not_hold_its_reader(nothing_left: None, client: Cluster, tmp_path: Path) -> None:
    running(client, "engine", ["sleep", "1000"])
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    log.start()
    time.sleep(1)
    log.close()
    log.close()
    assert log.lines() == [""]


def test_a_program_beside_the_engine_gives_its_lines_and_leaves_nothing(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(client, pod, "main", ["python3", "-c", COUNT])
    assert [program.read(10) for _ in range(30)] == [f"line {n}" for n in range(30)]
    assert any("time.sleep" in line for line in processes(client, pod))
    program.close()
    program.close()
    assert processes(client, pod) == []
    with pytest.raises(EndOfLines, match="was closed"):
        program.read(1)
    client.close()


@pytest.mark.parametrize(
    ("command", "lines", "end"),
    [
        (["sh", "-c", "echo one; echo two"], ["one", "two"], "ended with exit code 0"),
        (["sh", "-c", "echo one; printf two"], ["one", "two"], "ended with exit code 0"),
        (["sh", "-c", "echo one; printf half; echo lost >&2; exit 3"], ["one"], "ended with exit code 3: lost"),
        (["no-such-program"], [], "ended with exit code 127: .*no-such-program"),
        (["sh", "-c", "kill -9 $$"], [], "ended with exit code 137"),
        (["python3", "-c", "print('x' * 200000); print('é' * 50000)"], ["x" * 200000, "é" * 50000], "exit code 0"),
    ],
)
def test_how_a_program_ended_is_said(client: Cluster, command: list[str], lines: list[str], end: str) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    found, how = all_lines(execute(client, pod, "main", command))
    assert found == lines
    assert re.search(end, how)


def test_a_program_that_hangs_gives_no_half_line_and_is_ended(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    stubborn = "trap '' TERM; echo whole; printf half; sleep 1000; sleep 1000"
    program = execute(client, pod, "main", ["sh", "-c", stubborn])
    assert program.read(10) == "whole"
    assert program.read(0.5) is None
    assert program.read(0) is None
    program.close()
    # Its own children may be left to the container's first process as zombies, which have no command line.
    assert [line for line in processes(client, pod) if line.split()[1:]] == []
    client.close()


def test_a_program_whose_connection_is_lost_says_so_and_is_ended(
    relayed: Cluster, relay: Relay, client: Cluster
) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(relayed, pod, "main", ["python3", "-c", COUNT])
    assert program.read(10) == "line 0"
    relay.cut()
    lines, how = all_lines(program)
    assert all(re.fullmatch(r"line \d+", line) for line in lines)
    assert re.match("was lost: the connection to the API server broke off", how)
    wait_for(lambda: processes(client, pod) == [])


def test_a_program_ends_with_its_container(client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(client, pod, "main", ["python3", "-c", COUNT])
    uid = client.get("Pod", pod)["metadata"]["uid"]  # type: ignore[index]
    client.delete("Pod", pod, uid=uid)
    _, how = all_lines(program)
    assert re.match(r"(was lost: |ended with exit code 137)", how)
    with pytest.raises(OSError, match=f"could not start a program in container main of Pod {client.namespace}/gone: "):
        execute(client, "gone", "main", ["true"])


def test_an_image_without_a_shell_runs_the_program_by_itself(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    _, how = all_lines(execute(client, pod, "main", ["/probe", "exit", "7"]))
    assert "ended with exit code 7" in how
    _, how = all_lines(execute(client, pod, "main", ["nvidia-smi"]))
    assert "nvidia-smi" in how and "not found" in how
    client.close()


def test_a_forwarded_port_takes_many_requests_at_once(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    forward = PortForward(client, pod, 8080)
    limits = httpx.Limits(max_connections=50, max_keepalive_connections=50)
    with httpx.Client(base_url=forward.url, trust_env=False, timeout=60, limits=limits) as http:
        wait_for(lambda: answers(http))
        with ThreadPoolExecutor(50) as pool:
            found = list(pool.map(lambda _: http.get("/version").json()["host"], range(50)))
        assert found == [pod] * 50
        forward.close()
        with pytest.raises(httpx.TransportError):
            http.get("/version")
    forward.close()
    assert forward.problem is None
    client.close()


def test_a_forwarded_stream_comes_as_it_is_sent(nothing_left: None, client: Cluster) -> None:
    server = (
        "import http.server, time\n"
        "class Events(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        size = len(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "        for n in range(5):\n"
        "            self.wfile.write(f'data: {n} of {size}\\n\\n'.encode())\n"
        "            time.sleep(0.2)\n"
        "http.server.HTTPServer(('', 8000), Events).serve_forever()\n"
    )
    pod = running(client, "engine", ["python3", "-c", server])
    forward = PortForward(client, pod, 8000)
    try:
        wait_for(lambda: reached(forward))
        with httpx.stream("POST", forward.url, content=b"x" * 3_000_000, trust_env=False, timeout=60) as answer:
            found = [line for line in answer.iter_lines() if line]
        assert found == [f"data: {n} of 3000000" for n in range(5)]
    finally:
        forward.close()
        client.close()


def test_streams_do_not_mind_descriptors_above_1023(client: Cluster, tmp_path: Path) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    log, forward = PodLog(client, pod, "main", tmp_path / "pod.log"), PortForward(client, pod, 8080)
    log.start()
    try:
        wait_for(lambda: len(log.lines()) > 2)
        with httpx.Client(base_url=forward.url, trust_env=False, timeout=20) as http:
            wait_for(lambda: answers(http))
        assert all_lines(execute(client, pod, "main", ["/probe", "exit", "7"]))[1].startswith("ended with exit code 7")
    finally:
        log.close()
        forward.close()
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_port_where_nobody_listens_says_why(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    for name, why in ((pod, "connection refused"), ("gone", 'pods "gone" not found')):
        forward = PortForward(client, name, 8080)
        with pytest.raises(httpx.TransportError):
            httpx.get(forward.url, trust_env=False, timeout=20)
        forward.close()
        assert forward.problem is not None and why in forward.problem
    client.close()
