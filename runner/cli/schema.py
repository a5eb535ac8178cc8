"""`run schema`: the JSON schema of a spec, as committed in `schemas/experiment.schema.json`."""

import sys
from argparse import ArgumentParser

from runner.spec.schema import experiment_schema


def main(argv: list[str]) -> int:
    """Always 0."""
    ArgumentParser(prog="run schema", description="Print the JSON schema of a spec, for editors.").parse_args(argv)
    sys.stdout.write(experiment_schema())
    return 0
