"""From a spec to a plan. Pure but for reading the prompt files that the spec names."""

from runner.plan.expand import expand
from runner.plan.model import Arm, Launch, Plan, PlannedLoad, PlannedPhase, PlannedPrompt
from runner.spec.load import Spec
from runner.spec.model import Experiment, Phase
from runner.spec.problem import Position, Problem, SpecError
from runner.spec.prompts import PromptError, prompt_messages
from runner.spec.tables import TABLE_IDS


def build_plan(spec: Spec, target: str) -> Plan:
    """The plan of a validated spec on a target. Raises SpecError for what only shows when all is put together."""
    experiment = spec.experiment
    try:
        arms = expand(experiment)
        prompts = {
            name: PlannedPrompt(
                messages=[message.model_dump() for message in prompt_messages(prompt, spec.folder)],
                character=prompt.character,
            )
            for name, prompt in experiment.prompts.items()
        }
    except (ValueError, PromptError) as error:
        raise SpecError(str(spec.path), [Problem((), Position(1, 1), str(error))]) from None
    baseline = next((arm.id for arm in arms if arm.condition == experiment.baseline), arms[0].id)
    return Plan(
        name=experiment.name,
        title=experiment.title or experiment.name,
        language=experiment.language,
        spec_file=spec.path.name,
        spec_sha256=spec.sha256,
        target=target,
        engine_version=experiment.engine.version,
        model=experiment.model,
        baseline=baseline,
        arms=arms,
        launches=_launches(experiment, arms),
        phases=[_phase(name, phase, experiment, arms) for name, phase in experiment.phases.items()],
        prompts=prompts,
        order=experiment.order,
        replicates=experiment.replicates,
        load=PlannedLoad(connection=experiment.load.connection, processes=experiment.load.processes),
        sampling_interval=experiment.sampling.interval_seconds,
        limits=experiment.limits,
        invariants=experiment.invariants,
        tables=[name for name in TABLE_IDS if experiment.tables is None or name in experiment.tables],
        notes=experiment.notes,
    )


def _launches(experiment: Experiment, arms: list[Arm]) -> list[Launch]:
    """Replicate by replicate; `alternated` runs every second one backwards, so that drift hits arms alike."""
    launches = []
    for replicate in range(1, experiment.replicates + 1):
        backwards = experiment.order == "alternated" and replicate % 2 == 0
        launches += [Launch(arm=arm.id, replicate=replicate) for arm in (reversed(arms) if backwards else arms)]
    return launches


def _phase(name: str, phase: Phase, experiment: Experiment, arms: list[Arm]) -> PlannedPhase:
    return PlannedPhase(
        name=name,
        concurrency=phase.concurrency,
        requests=phase.requests,
        rounds=phase.rounds,
        warm_up=phase.warm_up.requests,
        warm_up_counted=phase.warm_up.counted,
        excluded={arm.id: phase.exclude_first.get(arm.condition, 0) for arm in arms},
        stream=phase.stream,
        prompts=phase.prompts or list(experiment.prompts),
    )
