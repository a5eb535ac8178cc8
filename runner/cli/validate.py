"""`run validate SPEC...`: every error of every file, each with its line."""

import sys
from argparse import ArgumentParser
from pathlib import Path

from runner.exit_code import ExitCode
from runner.plan.build import build_plan
from runner.spec.load import load_spec
from runner.spec.problem import SpecError


def main(argv: list[str]) -> int:
    """0 when all are valid, 2 otherwise."""
    parser = ArgumentParser(prog="run validate", description="Check specs and say everything that is wrong with them.")
    parser.add_argument("specs", type=Path, nargs="+", metavar="SPEC")
    code = 0
    for path in parser.parse_args(argv).specs:
        try:
            plan = build_plan(load_spec(path), "")
        except SpecError as error:
            print(error, file=sys.stderr)
            code = ExitCode.INVALID
        else:
            labels = ", ".join(arm.label for arm in plan.arms)
            print(f"{path}: valid; conditions: {labels}")
    return code
