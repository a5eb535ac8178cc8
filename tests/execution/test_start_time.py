"""How long a start took is counted from the launch: a target that waits by itself, as for a rollout, is no faster for
it."""

import asyncio
from pathlib import Path
from typing import Any

from journals import make_plan

from runner.execution.context import Context
from runner.execution.run import execute
from runner.plan.model import Arm
from runner.record import events
from runner.spec.site import EmbeddedSite
from runner.target.embedded import EmbeddedTarget

ROLLOUT = 1.5


class Rolled(EmbeddedTarget):
    """An engine that is handed over some time after its launch."""

    async def launch(self, model: str, arm: Arm, log: Path) -> Any:
        await asyncio.sleep(ROLLOUT)
        return await super().launch(model, arm, log)


def test_the_time_to_ready_includes_what_the_target_waited_for(tmp_path: Path) -> None:
    def small(spec: dict[str, Any]) -> None:
        spec["conditions"] = {"off": {}}
        spec["phases"] = {"load": {"concurrency": [1], "requests": 1}}
        spec["invariants"] = {}

    journal: list[events.Event] = []

    async def main() -> None:
        context = Context(make_plan(tmp_path, small), tmp_path, journal.append, asyncio.Event())
        await execute(context, Rolled(EmbeddedSite.model_validate({"time-scale": 0.02})))

    asyncio.run(main())
    [ready] = [one for one in journal if isinstance(one, events.EngineReady)]
    assert ready.seconds > ROLLOUT
