"""All programs, in the order of the table."""

from __future__ import annotations

from instrument.programs.aiperf import AIPerf
from instrument.programs.bench_serve import BenchServe
from instrument.programs.guidellm import GuideLLM
from instrument.programs.inference_perf import InferencePerf
from instrument.programs.plain import CLIENTS
from instrument.programs.program import Program

PROGRAMS: tuple[Program, ...] = (*CLIENTS, BenchServe(), InferencePerf(), GuideLLM(), AIPerf())


def short(program: Program) -> str:
    """The name for the command line: without the version."""
    return "-".join(word for word in program.name.split() if word[0].isalpha())
