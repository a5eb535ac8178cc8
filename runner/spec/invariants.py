"""The invariants that a spec can ask for, and their parameters.

The parameters are declared here, in the language's own room, so that the schema and the error messages know
them; what each one judges is in `runner/checks`, one file each, registered under the same name.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from runner.spec.strict import Strict

Name = Annotated[str, Field(min_length=1)]
Key = Annotated[str, Field(pattern=r"^\S([^\n\r]*\S)?$")]
"""What an author calls something: one line, because tables and messages name it."""
Concurrency = Annotated[int, Field(ge=1)]


class Invariant(Strict):
    """What every invariant takes."""

    allow_inconclusive: bool = Field(
        default=False,
        description="Accept that this invariant could not be judged: no exit code 6 on its account.",
    )


class ConfigurationInForce(Invariant):
    """Every argument of every condition is in force, by the engine's own log and metrics. Always judged."""


class OneEngineProcess(Invariant):
    """Each replicate of a condition was served by one engine process from start to end. Always judged."""


class RequestCount(Invariant):
    """The engine finished exactly the requests that were sent, in every round. Always judged."""

    max_surplus: int = Field(
        default=0, ge=0, description="Foreign requests tolerated in a round before it counts as contaminated."
    )


class DeclaredDifferences(Invariant):
    """Conditions differ in what the spec declares, and in nothing else. Always judged."""


class RequestOptions(Invariant):
    """No request uses an option that a condition disables. Always judged."""


class SameOutput(Invariant):
    """Every ok request with the same prompt gave the same text, in every condition and repetition."""

    max_different: int = Field(default=0, ge=0, description="Requests whose text may differ from the baseline's.")


class SameTokenCount(Invariant):
    """Every ok request with the same prompt gave the same number of completion tokens."""

    tolerance: int = Field(default=0, ge=0, description="Largest difference in completion tokens, in tokens.")


class AcceptanceConstant(Invariant):
    """The draft acceptance rate is the same at every concurrency."""

    tolerance: float = Field(
        default=0.001,
        ge=0,
        le=1,
        description="Largest spread of the acceptance rate over concurrencies (0.01 = 1 %).",
    )


class Speedup(Invariant):
    """A condition is faster than the baseline by more than a bound, at every concurrency."""

    min: float = Field(default=1.0, gt=0, description="The ratio must be above this.")
    metric: Literal["throughput", "latency"] = "throughput"
    conditions: list[Name] | None = Field(default=None, min_length=1, description="Default: all but the baseline.")
    concurrency: list[Concurrency] | None = Field(default=None, min_length=1, description="Default: the whole grid.")


class QueueOnlyAbove(Invariant):
    """Requests wait only where the concurrency is above a limit of the engine, and there they do."""

    argument: Name | None = Field(default=None, description="The engine argument whose value is the limit.")
    limit: int | None = Field(default=None, ge=1, description="The limit itself, in requests, instead of an argument.")


class SequentialSeparated(Invariant):
    """At concurrency 1 no request of a condition is as slow (or as fast) as any of the baseline's."""

    conditions: list[Name] | None = Field(default=None, min_length=1, description="Default: all but the baseline.")


class PositionsAddUp(Invariant):
    """Accepted tokens by position fall from position to position, and add up to the accepted tokens."""


class ForwardModel(Invariant):
    """Tokens per decode step × the ratio of step times, both the engine's own, give the measured speed-up."""

    tolerance: float = Field(
        default=0.05, gt=0, le=1, description="Largest relative deviation from the measured speed-up (0.05 = 5 %)."
    )


class LatencyCrossCheck(Invariant):
    """The engine's mean latency is wall time × concurrency ÷ requests, in rounds of at least four waves."""

    tolerance: float = Field(default=0.05, gt=0, le=1, description="Largest relative difference (0.05 = 5 %).")


class SpreadBelowEffect(Invariant):
    """The rounds of one cell differ by less than the conditions do."""

    factor: float = Field(
        default=1.0, gt=0, description="The effect must be larger than so many times the larger spread."
    )
    conditions: list[Name] | None = Field(default=None, min_length=1, description="Default: all but the baseline.")


class SamePrefixHits(Invariant):
    """The prefix cache helped every condition to the same share of its prompt tokens."""

    tolerance: float = Field(default=0.01, ge=0, le=1, description="Largest difference of the hit ratio (0.01 = 1 %).")


class MemoryPerRunning(Invariant):
    """What a condition costs in GPU memory per running request stays below a bound."""

    max_mib: float = Field(gt=0, description="The bound, in MiB.")


class BaselineRestored(Invariant):
    """What existed before the run is in force again after it. Judged unasked where a run changed something."""


def _no_null(schema: dict[str, Any]) -> None:
    """An invariant left empty is refused: it would read as asked for and not be judged."""
    for invariant in schema["properties"].values():
        options = [option for option in invariant.pop("anyOf", []) if option != {"type": "null"}]
        if options:
            del invariant["default"]
            invariant.update(*options)


class Invariants(Strict):
    """Invariants by name. Those that guard the measurement itself are judged whether listed or not."""

    model_config = ConfigDict(json_schema_extra=_no_null)

    configuration_in_force: ConfigurationInForce = ConfigurationInForce()
    one_engine_process: OneEngineProcess = OneEngineProcess()
    request_count: RequestCount = RequestCount()
    declared_differences: DeclaredDifferences = DeclaredDifferences()
    request_options: RequestOptions = RequestOptions()
    same_output: SameOutput | None = None
    same_token_count: SameTokenCount | None = None
    acceptance_constant: AcceptanceConstant | None = None
    speedup: Speedup | None = None
    queue_only_above: QueueOnlyAbove | None = None
    sequential_separated: SequentialSeparated | None = None
    positions_add_up: PositionsAddUp | None = None
    forward_model: ForwardModel | None = None
    latency_cross_check: LatencyCrossCheck | None = None
    spread_below_effect: SpreadBelowEffect | None = None
    same_prefix_hits: SamePrefixHits | None = None
    memory_per_running: MemoryPerRunning | None = None
    baseline_restored: BaselineRestored | None = None
