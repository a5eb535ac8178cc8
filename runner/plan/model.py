"""The plan: everything that a run is going to do, as data.

It is written into the run directory and read back by analysis and report, which never see the spec itself.
"""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runner.spec.client import Connection
from runner.spec.invariants import Invariants
from runner.spec.model import Limits, Notes
from runner.spec.tables import TABLE_IDS, TableId


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Part):
    """One condition, ready to start.

    `argv` holds the engine's words after the model and before what the target adds; `wanted` the values that
    the engine must have parsed, by argparse destination; `request` the fields of each body.
    """

    id: str
    label: str
    condition: str
    args: dict[str, Any]
    argv: list[str]
    wanted: dict[str, Any]
    env: dict[str, str]
    request: dict[str, Any]
    template_values: dict[str, Any]
    side_effects: dict[str, Any]
    sets: dict[str, Any] = Field(default_factory=dict)

    @property
    def start(self) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
        """What makes an engine another one; requests may differ on one server."""
        return self.wanted, self.env, self.template_values

    def argument(self, name: str) -> Any:
        """The value of an engine argument, in any spelling; None when it is not given."""
        return self.wanted.get(name.replace("-", "_"))


class PlannedPhase(_Part):
    """A phase of the grid, the same for every arm but for the excluded first requests (per arm id)."""

    name: str
    concurrency: list[int]
    requests: int
    rounds: int
    warm_up: int
    warm_up_counted: bool
    excluded: dict[str, int]
    stream: bool
    prompts: list[str]


class Launch(_Part):
    """One engine process to start: an arm and which replicate of it."""

    arm: str
    replicate: int


class PlannedPrompt(_Part):
    """A prompt by name: its messages and the author's word for its character."""

    messages: list[dict[str, str]]
    character: str | None


class PlannedLoad(_Part):
    """How requests are sent; `processes` of the load generator, None for the rule (`runner.plan.processes`)."""

    connection: Connection = "keep-alive"
    processes: int | None = None


class Plan(_Part):
    """The whole experiment, resolved."""

    name: str
    title: str
    language: str
    spec_file: str
    spec_sha256: str
    target: str
    engine_version: str | None
    model: str
    baseline: str
    arms: list[Arm]
    launches: list[Launch]
    phases: list[PlannedPhase]
    prompts: dict[str, PlannedPrompt]
    order: str
    replicates: int
    load: PlannedLoad = PlannedLoad()
    sampling_interval: float
    limits: Limits
    invariants: Invariants
    tables: list[TableId] = Field(default_factory=lambda: list(TABLE_IDS))
    notes: Notes

    def arm(self, arm_id: str) -> Arm:
        """Raises KeyError for an arm that is not planned."""
        for arm in self.arms:
            if arm.id == arm_id:
                return arm
        raise KeyError(arm_id)

    @property
    def others(self) -> list[Arm]:
        """The arms that are compared with the baseline."""
        return [arm for arm in self.arms if arm.id != self.baseline]

    @property
    def grid(self) -> list[tuple[PlannedPhase, int]]:
        """Phase and concurrency of each cell, in order."""
        return [(phase, level) for phase in self.phases for level in phase.concurrency]

    @property
    def sent_prompts(self) -> list[str]:
        """The prompts that some phase sends; a spec may name more."""
        return [name for name in self.prompts if any(name in phase.prompts for phase in self.phases)]

    def body(self, arm: Arm, prompt: str, *, stream: bool) -> dict[str, Any]:
        """The request body, every field as it is sent."""
        fields: dict[str, Any] = {
            "model": self.model,
            **arm.request,
            "messages": self.prompts[prompt].messages,
        }
        if stream:
            fields["stream"] = True
            fields.setdefault("stream_options", {"include_usage": True, "continuous_usage_stats": True})
        else:
            fields["stream"] = False
        return fields


def encode_body(body: dict[str, Any]) -> bytes:
    """The body's bytes on the wire: JSON, UTF-8, no escapes that change its length."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def body_id(prompt: str, body: dict[str, Any]) -> str:
    """A short name for a body sent for a prompt: the first 12 hex digits of a SHA-256 over both. Two prompts may have
    one text, and are still two."""
    return hashlib.sha256(prompt.encode() + b"\0" + encode_body(body)).hexdigest()[:12]
