"""The experiment as its author writes it: the only declaration of the YAML language.

The JSON schema, the error messages and the plan all come from these classes. Field names are the YAML keys
with `_` for `-`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from runner.spec.client import LoadSettings
from runner.spec.invariants import Concurrency, Invariants, Key, Name
from runner.spec.kubernetes import KubernetesSettings
from runner.spec.process import ProcessSettings
from runner.spec.strict import Strict
from runner.spec.tables import TableId

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=60)]
Arguments = Annotated[
    dict[str, Any],
    Field(
        description="Engine arguments, rendered by type: true is --x, false is --no-x, null is absent, a list is one "
        "option followed by its items (!repeat: one option per item, !comma: joined), a map is JSON."
    ),
]
Environment = dict[str, str]
RequestFields = dict[str, Any]


class Engine(Strict):
    """Which engine is meant."""

    name: Literal["vllm"] = "vllm"
    version: str | None = Field(default=None, description='Checked against the running engine; quoted: "0.26.0".')


class Condition(Strict):
    """One arm of the comparison: what it changes over the base."""

    label: Key | None = Field(default=None, description="How tables call it; the key by default.")
    args: Arguments = Field(default_factory=dict)
    env: Environment = Field(default_factory=dict)
    request: RequestFields = Field(default_factory=dict)
    template_values: dict[str, Any] = Field(default_factory=dict)
    side_effects: dict[str, Any] = Field(
        default_factory=dict,
        description="What the engine itself changes along with this condition, such as async-scheduling: disabled. "
        "A declared side effect makes the comparison confounded; an undeclared one fails it.",
    )
    sets: dict[str, Any] = Field(
        default_factory=dict,
        description="What this condition is about beside its arguments: a feature that an environment variable of it "
        "sets, such as model-runner: V1. It must be found so, and confounds nothing.",
    )
    matrix: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Engine arguments and their values; the product expands this condition.",
    )


class Message(Strict):
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool", "developer"]
    content: str


class Prompt(Strict):
    """One prompt: messages written here, or a file beside the spec."""

    messages: list[Message] | None = Field(default=None, min_length=1)
    file: Name | None = Field(
        default=None,
        description="Path from the spec's folder: *.json holds a list of messages, else one user message.",
    )
    character: str | None = Field(default=None, description="What kind of prompt this is, for the request table.")


class WarmUp(Strict):
    """Requests before the measured ones of a round."""

    requests: int = Field(default=0, ge=0)
    counted: bool = Field(
        default=False, description="Whether the counters' window includes them: 1 + 64 instead of 64."
    )


class Phase(Strict):
    """A grid of rounds: each concurrency, each round, on the same engine process."""

    concurrency: list[Concurrency] = Field(min_length=1)
    requests: int = Field(ge=1, description="Measured requests a round.")
    rounds: int = Field(default=1, ge=1)
    warm_up: WarmUp = WarmUp()
    exclude_first: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description="Per condition, how many first requests stay out of the statistics (C=1 only).",
    )
    stream: bool = False
    prompts: list[Name] | None = Field(default=None, min_length=1, description="Default: all, in turn.")


class Sampling(Strict):
    """How often gauges are read while load runs."""

    interval_seconds: float = Field(default=2.0, gt=0)


class Limits(Strict):
    """What is tolerated, and for how long."""

    max_failed: int = Field(default=0, ge=0, description="Failed requests a cell may have and still be complete.")
    request_timeout_seconds: float = Field(default=300.0, gt=0)
    round_seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="After so many seconds of a round nothing more of it is sent, and what is under way may end: the "
        "round is incomplete. Default: no limit.",
    )
    startup_seconds: float = Field(default=900.0, gt=0)
    idle_seconds: float = Field(default=60.0, gt=0, description="How long to wait for the engine to become idle.")


class Notes(Strict):
    """The author's own words, printed as such."""

    request: dict[str, str] = Field(default_factory=dict, description="Per request field: why it has this value.")
    not_checked: list[str] = Field(default_factory=list, description="What this experiment does not show.")


class Experiment(Strict):
    """An experiment: conditions, prompts, a grid of concurrencies, and what must hold."""

    name: Slug
    title: Name | None = None
    language: Literal["ko", "en"] = "en"
    engine: Engine = Engine()
    model: Name = Field(description="What the engine is started with: a model id or a path.")
    args: Arguments = Field(default_factory=dict)
    env: Environment = Field(default_factory=dict)
    process: ProcessSettings = Field(
        default=ProcessSettings(), description="For --target process; the site file's own block wins, key by key."
    )
    kubernetes: KubernetesSettings = Field(
        default=KubernetesSettings(), description="For --target kubernetes; the site file's own block wins, key by key."
    )
    template_values: dict[str, Any] = Field(default_factory=dict)
    conditions: dict[Key, Condition | None] = Field(
        default_factory=dict, description="By name; an empty one is the base itself."
    )
    matrix: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Engine arguments and their values; each combination is one more condition over the base.",
    )
    baseline: Name | None = Field(default=None, description="What others are compared with; the first by default.")
    prompts: dict[Key, Prompt] = Field(min_length=1)
    request: RequestFields = Field(default_factory=dict, description="Fields of the request body, sent as written.")
    phases: dict[Key, Phase] = Field(min_length=1)
    replicates: int = Field(default=1, ge=1, le=1000, description="Fresh engine processes per condition.")
    order: Literal["as-written", "alternated"] = Field(
        default="as-written", description="alternated: every second replicate runs the conditions backwards."
    )
    load: LoadSettings = LoadSettings()
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    invariants: Invariants = Invariants()
    tables: list[TableId] | None = Field(
        default=None, min_length=1, description="Which tables the report has, always in its own order; default: all."
    )
    notes: Notes = Notes()
