"""Our plain clients, and our generator, as processes of this checkout."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from instrument.cell import Task
from instrument.programs.program import own_environment, own_python
from instrument.reported import Reported, Unreadable


@dataclass(frozen=True, slots=True)
class Client:
    """`instrument.clients.MODULE`, which needs the package `needs`."""

    name: str
    module: str
    needs: str
    remark: str
    rival: bool = False

    def missing(self) -> str | None:
        """The package that is not there."""
        return None if importlib.util.find_spec(self.needs) else f"the package {self.needs} is not installed"

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """One process, told by a file."""
        job = {"url": task.url, "requests": task.cell.requests, "concurrency": task.cell.concurrency}
        path = task.folder / "job.json"
        path.write_text(json.dumps(job), "utf-8")
        return [own_python(), "-m", f"instrument.clients.{self.module}", str(path)], own_environment()

    def read(self, task: Task) -> Reported:
        """TTFT is the first token event's time minus the time right before the request was sent; the end is that of
        the answer."""
        try:
            told = json.loads((task.folder / "result.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise Unreadable(str(error)) from None
        rows = [row for row in told["requests"] if not row["failed"]]
        return Reported(
            ttft_s=[row.get("ttft_s", (row["stamps_ns"][0] - row["sent_ns"]) / 1e9) for row in rows],
            e2e_s=[row.get("e2e_s", (row["ended_ns"] - row["sent_ns"]) / 1e9) for row in rows],
            stamps={row["prompt"]: row["stamps_ns"] for row in rows},
            bounds={row["prompt"]: row["bounds"] for row in rows if row.get("bounds")},
            flights=[(row["sent_ns"], row["ended_ns"]) for row in rows],
            failed=len(told["requests"]) - len(rows),
            notes={key: value for key, value in told.items() if key != "requests"},
        )


CLIENTS = (
    Client("ours", "own", "runner.load.generator", "our generator: kernel stamps, capture first"),
    Client("bare protocol", "bare", "uvloop", "asyncio.Protocol on uvloop, nothing parsed: the yardstick"),
    Client("protocol + httptools", "parsed", "httptools", "the same, HTTP parsed as it comes"),
    Client("httpx", "with_httpx", "httpx", "`aiter_raw` on uvloop"),
    Client("aiohttp", "with_aiohttp", "aiohttp", "`iter_any` on uvloop"),
)
