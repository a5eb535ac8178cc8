"""A driver for NVML's Python binding: `libnvidia-ml.so` as far as the runner calls it, for a machine without one.

The binding itself (`pynvml`) is the real one; only what it would load is made up. Its functions take and fill the
binding's own C structures, and answer with NVML's numbers for what goes wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

MIB = 2**20
VERSION = "580.159.04"


@dataclass
class Card:
    """One GPU. `broken` gives functions by their name, without a version's suffix, an error's number."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    utilization: int = 17
    used: int = 5_000 * MIB
    reserved: int = 600 * MIB
    total: int = 143_771 * MIB
    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    handle: Any = field(default_factory=pynvml.struct_c_nvmlDevice_t)


class Driver:
    """The functions that the binding looks up; one in `missing` is not exported, as in an older driver."""

    def __init__(self, *cards: Card, missing: tuple[str, ...] = (), names: dict[int, str] | None = None) -> None:
        self.cards, self.names = list(cards), names or {}
        self.calls: list[str] = []
        self.open = 0
        self._functions: dict[str, Callable[..., int]] = {
            name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }
        for name in missing:
            del self._functions[name]

    def load(self, monkeypatch: pytest.MonkeyPatch) -> Driver:
        """Make the binding believe that it has loaded this."""
        monkeypatch.setattr(pynvml, "nvmlLib", self)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return self

    def __getattr__(self, name: str) -> Callable[..., int]:
        try:
            function = self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(name) from None

        def called(*arguments: Any) -> int:
            self.calls.append(name)
            return int(function(*arguments))

        return called

    def _do_nvmlInitWithFlags(self, _: Any) -> int:  # noqa: N802 -- NVML's names
        self.open += 1
        return 0

    def _do_nvmlShutdown(self) -> int:  # noqa: N802
        self.open -= 1
        return 0

    def _do_nvmlSystemGetDriverVersion(self, text: Any, _: Any) -> int:  # noqa: N802
        text.value = VERSION.encode()
        return 0

    def _do_nvmlSystemGetProcessName(self, pid: Any, text: Any, _: Any) -> int:  # noqa: N802
        if pid.value not in self.names:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        text.value = self.names[pid.value].encode()
        return 0

    def _do_nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.cards)
        return 0

    def _do_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        card = self.cards[index.value]
        handle._obj.contents = card.handle
        return card.broken.get("nvmlDeviceGetHandleByIndex", 0)

    def _do_nvmlDeviceGetUUID(self, handle: Any, text: Any, _: Any) -> int:  # noqa: N802
        text.value = self._card(handle).uuid.encode()
        return 0

    def _do_nvmlDeviceGetName(self, handle: Any, text: Any, _: Any) -> int:  # noqa: N802
        text.value = self._card(handle).name.encode()
        return 0

    def _do_nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:  # noqa: N802
        card = self._card(handle)
        rates._obj.gpu, rates._obj.memory = card.utilization, 1
        return card.broken.get("nvmlDeviceGetUtilizationRates", 0)

    def _do_nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        """The first version: what the driver keeps for itself is used, too."""
        card = self._card(handle)
        memory._obj.total, memory._obj.used = card.total, card.used + card.reserved
        return card.broken.get("nvmlDeviceGetMemoryInfo", 0)

    def _do_nvmlDeviceGetMemoryInfo_v2(self, handle: Any, memory: Any) -> int:  # noqa: N802
        card = self._card(handle)
        if memory._obj.version != pynvml.nvmlMemory_v2:
            return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        memory._obj.total, memory._obj.used, memory._obj.reserved = card.total, card.used, card.reserved
        return card.broken.get("nvmlDeviceGetMemoryInfo", 0)

    def _do_nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, into: Any) -> int:  # noqa: N802
        card = self._card(handle)
        return card.broken.get("nvmlDeviceGetComputeRunningProcesses") or _processes(card.compute, count, into)

    def _do_nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Any, count: Any, into: Any) -> int:  # noqa: N802
        card = self._card(handle)
        return card.broken.get("nvmlDeviceGetGraphicsRunningProcesses") or _processes(card.graphics, count, into)

    def _do_nvmlDeviceGetMPSComputeRunningProcesses_v3(self, *_: Any) -> int:  # noqa: N802
        return int(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _card(self, handle: Any) -> Card:
        where = ctypes.addressof(handle.contents)
        return next(card for card in self.cards if ctypes.addressof(card.handle) == where)


def _processes(running: list[tuple[int, int | None]], count: Any, into: Any) -> int:
    """NVML's own way: the first question has no room, and hears how much is needed."""
    count._obj.value = len(running)
    if into is None:
        return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE) if running else 0
    for place, (pid, used) in zip(into, running, strict=False):
        place.pid = pid
        place.usedGpuMemory = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value if used is None else used
    return 0
