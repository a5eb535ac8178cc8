"""Which GPUs are the engine's, and who on them is a stranger."""

from __future__ import annotations

import pytest

from runner.sample.gpu.own import Others, engine_gpus, other_processes, unaccounted
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading


def gpu(index: int, uuid: str, name: str = "NVIDIA H200") -> GpuReading:
    return GpuReading(index, uuid, name, 0, 0, 143771)


def process(pid: int, uuid: str = "GPU-aaaa") -> GpuProcess:
    return GpuProcess(pid, uuid, None, None)


A, B, C = gpu(0, "GPU-aaaa"), gpu(1, "GPU-abbb"), gpu(2, "GPU-cccc", "NVIDIA L4")
THREE = [A, B, C]


def own(
    gpus: list[GpuReading],
    visible: str | None = None,
    processes: list[GpuProcess] | None = None,
    *,
    bus_order: bool = False,
    here: frozenset[int] = frozenset(),
) -> list[int]:
    """The indices of what engine 7 uses."""
    found = engine_gpus(gpus, processes or [], {7}, visible=visible, bus_order=bus_order, here=here)
    return [one.index for one in found.gpus]


def test_they_are_those_on_which_its_processes_are_seen() -> None:
    assert own(THREE, None, [process(7, B.uuid), process(8, A.uuid)]) == [1]
    assert own(THREE, None, [process(7, B.uuid), process(7, C.uuid)]) == [1, 2]
    # What is seen counts more than what was asked for: CUDA may number GPUs otherwise than the driver.
    assert own(THREE, "0", [process(7, C.uuid)]) == [2]


def test_where_none_is_seen_it_is_the_one_that_it_can_be() -> None:
    assert own([A]) == [0]
    assert own(THREE, "1", bus_order=True) == [1]
    assert own(THREE, "GPU-c") == [2]
    assert own(THREE, "1, 9, 0", bus_order=True) == [1]  # up to the first that is none


@pytest.mark.parametrize(
    ("visible", "words"),
    [
        (None, "3 GPUs are visible .* cannot be told"),
        ("0,1", "2 GPUs are visible .* cannot be told"),
        ("", "leaves the engine no GPU"),
        ("-1", "leaves the engine no GPU"),
        ("3", "leaves the engine no GPU"),
        ("GPU-a", "leaves the engine no GPU"),  # two begin so
        ("GPU-", "leaves the engine no GPU"),
        ("MIG-4f7e", r"part of a GPU \(MIG\)"),
        ("MIG-GPU-aaaa/1/0", r"part of a GPU \(MIG\)"),
    ],
)
def test_where_it_cannot_be_told_that_is_said(visible: str | None, words: str) -> None:
    with pytest.raises(GpuError, match=words):
        own(THREE, visible)


def test_the_only_gpu_is_doubtful_where_the_engine_is_not_seen_on_it() -> None:
    """An engine that computes on the CPU would have somebody else's figures."""
    for processes in ([], [process(8)]):
        found = engine_gpus([A], processes, {7}, visible=None, bus_order=False, here=set())
        assert found.doubt == (
            "none of the engine's processes is among those that the driver lists; it is the only GPU visible"
        )


def test_where_the_ids_are_ours_an_engine_that_is_not_seen_has_no_gpu_that_we_know_of() -> None:
    two = [process(8), process(9)]
    with pytest.raises(GpuError, match=r"lists 2 processes .* whether it uses a GPU cannot be told"):
        own([A], None, two, here=frozenset({8, 9}))
    assert own([A], None, two, here=frozenset({8})) == [0]  # one may be by chance
    assert own([A], None, [*two, process(7)], here=frozenset({7, 8, 9})) == [0]


def test_a_part_of_a_gpu_is_not_the_gpu_even_where_the_engine_is_seen() -> None:
    with pytest.raises(GpuError, match="MIG"):
        own([A], "MIG-4f7e", [process(7)])


@pytest.mark.parametrize(
    ("visible", "gpus", "bus_order", "doubtful"),
    [
        ("1", THREE, False, True),
        ("1", THREE, True, False),
        ("1", [A, B], False, False),  # of one kind: the order of the bus is theirs
        ("GPU-abbb", THREE, False, False),
        (None, [C], False, False),
    ],
)
def test_numbers_are_doubtful_among_different_gpus(
    visible: str | None, gpus: list[GpuReading], bus_order: bool, doubtful: bool
) -> None:
    found = engine_gpus(gpus, [], {7}, visible=visible, bus_order=bus_order, here=set())
    assert ("by their speed" in str(found.doubt)) is doubtful
    seen = engine_gpus(gpus, [process(7, gpus[0].uuid)], {7}, visible=visible, bus_order=bus_order, here=set())
    assert seen.doubt is None


def test_every_other_is_a_stranger_where_ids_are_comparable() -> None:
    now = [process(7), process(8), process(9), process(10, B.uuid)]
    assert other_processes(now, [process(8)], {7, 8}, {A.uuid}) == Others([process(9)], None)
    assert other_processes(now, None, {7}, {A.uuid, B.uuid}) == Others([process(8), process(9), now[3]], None)
    assert other_processes([process(7)], [process(8)], {7}, {A.uuid}) == Others([], None)


def test_where_they_are_not_a_stranger_is_who_was_there_before_and_there_may_be_more() -> None:
    now = [process(40_007), process(40_008)]
    found = other_processes(now, [process(40_008), process(40_009)], {7}, {A.uuid})
    assert found.found == [process(40_008)]
    assert found.unknown == "the driver lists 2 processes there and none under an id of the engine's"
    assert other_processes(now, None, {7}, {A.uuid}).found == []
    assert other_processes(now, [process(40_008, B.uuid)], {7}, {A.uuid}).found == []


def test_an_empty_list_is_no_proof_that_nobody_is_there() -> None:
    """The engine itself is there: a list without it does not show everybody."""
    assert other_processes([], [], {7}, {A.uuid}).unknown is not None
    assert other_processes([process(7, B.uuid)], [], {7}, {B.uuid}).unknown is None


@pytest.mark.parametrize(
    ("memory", "listed", "own", "found"),
    [
        (65.0, [], {A.uuid}, True),
        (64.0, [], {A.uuid}, False),
        (None, [], {A.uuid}, False),
        (65.0, [process(8)], {A.uuid}, False),
        (65.0, [process(8, B.uuid)], {A.uuid}, True),
        (65.0, [], {B.uuid}, False),
    ],
)
def test_memory_that_nobody_listed_uses_is_somebody(
    memory: float | None, listed: list[GpuProcess], own: set[str], found: bool
) -> None:
    why = unaccounted([GpuReading(0, A.uuid, None, 0, memory, None), B], listed, own)
    assert why == ("65 MiB were in use before the start and no process is listed" if found else None)
