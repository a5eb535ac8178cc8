"""`run plan SPEC`: what would be started, sent and checked, and changed of what is there. Nothing is."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping

from runner.cli.inputs import Inputs, add_inputs, read_inputs
from runner.cli.pipe import tell
from runner.cli.survey import survey_lines
from runner.exit_code import ExitCode
from runner.plan.show import show_plan


def main(argv: list[str]) -> int:
    """0, or 2 for an invalid spec, and for a plan that the target cannot carry out here: that is shown all the same. 8
    where it must not be."""
    parser = ArgumentParser(prog="run plan", description="Show what a spec would do, without doing it.")
    add_inputs(parser)
    parser.add_argument("--json", action="store_true", help="the whole plan as JSON")
    options = parser.parse_args(argv)
    inputs = read_inputs(options)
    if inputs is None:
        return ExitCode.INVALID
    if options.json:
        print(inputs.plan.model_dump_json(by_alias=True, indent=2))
    else:
        print(show_plan(inputs.plan))
        print("load:")
        for name, value in inputs.client.items():
            print(f"  {name}: {(', '.join(value) or '–') if isinstance(value, list) else value}")
        print(f"target {inputs.target.name}:")
        origins = inputs.target.origins()
        for name, value in inputs.target.settings().items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            print(f"  {name}: {shown}{_origin(name, origins)}")
        print(f"target named by: {inputs.origin}")
    if inputs.refused:
        tell(*inputs.refused)
        return ExitCode.INVALID
    return _surveyed(inputs, told=not options.json)


def _origin(name: str, origins: Mapping[str, str]) -> str:
    """Who gave a setting; each part of one that was put together, where they differ."""
    parts = {key: origin for key, origin in origins.items() if key == name or key.startswith(f"{name}.")}
    if not parts:
        return ""
    if len(set(parts.values())) == 1:
        return f"  [{next(iter(parts.values()))}]"
    told = ", ".join(f"{key.removeprefix(f'{name}.')}: {origin}" for key, origin in parts.items())
    return f"  [{told}]"


def _surveyed(inputs: Inputs, *, told: bool) -> int:
    survey = inputs.target.survey(inputs.plan)
    if told:
        for line in survey_lines(survey, inputs.plan.arm(inputs.plan.baseline).label):
            print(line)
    found = [*survey.problems, *survey.refusals]
    if found:
        tell(*(f"run: target {inputs.target.name}: {one}" for one in found))
    return ExitCode.INVALID if survey.problems else ExitCode.REFUSED if survey.refusals else 0
