"""Invariants judged on the record: registered functions, one file each. Unknown is never a pass."""

from runner.checks.finding import Finding, Judgement
from runner.checks.registry import CHECKS, run_checks

__all__ = ["CHECKS", "Finding", "Judgement", "run_checks"]
