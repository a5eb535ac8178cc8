"""``vllm serve`` arguments: parsing, and the dictionary of those that differ from the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.simulator import command_line, flags
from runner.simulator.command_line import Warn


@dataclass(frozen=True, slots=True)
class Arguments:
    """`values`: every argparse destination; `non_default`: those that differ from `defaults`, in vLLM's order and
    as its log prints them.
    """

    values: dict[str, Any]
    non_default: dict[str, Any]
    defaults: Mapping[str, Any]

    def without(self, destinations: Sequence[str], *, shown: bool) -> Arguments:
        """The same command line as if these flags had not been given; `shown` keeps them in `non_default`."""
        values = {
            name: (self.defaults[name] if name in destinations and name in self.defaults else value)
            for name, value in self.values.items()
        }
        kept = {name: v for name, v in self.non_default.items() if shown or name not in destinations}
        return Arguments(values, kept, self.defaults)


def parse(argv: Sequence[str], version: str, warn: Warn) -> Arguments:
    """Parse the words after the program's name as vLLM of this version does; `warn` gets what it logs meanwhile.

    An unknown flag or a bad value prints argparse's message and raises SystemExit(2). What vLLM finds wrong before
    or after argparse it raises, and so does this: ValueError, TypeError, AssertionError, IndexError, OSError.
    """
    known = flags.of(version)
    words = [*argv[:1], *command_line.prepared(argv[1:], warn)] if argv[:1] == ["serve"] else list(argv)
    values = vars(known.parser.parse_args(words))
    del values["subparser"]
    defaults = known.defaults()
    for name in known.deprecated:
        if values[name] != defaults[name]:
            warn(f"argument '{name}' is deprecated")
    _check(values)
    if values["model_tag"] is not None:
        values["model"] = values["model_tag"]
    non_default = {
        name: "***" if name in known.redacted else values[name]
        for name, default in defaults.items()
        if values[name] != default
    }
    return Arguments(values, non_default, defaults)


def _check(values: Mapping[str, Any]) -> None:
    template = values["chat_template"]
    if template is not None and not set("{}\n") & set(template) and not Path(template).exists():
        raise ValueError(
            f"The supplied chat template string ({template}) appears path-like, but doesn't exist! "
            f"Tried: {template} and vllm/transformers_utils/chat_templates/{template}"
        )
    if values["enable_auto_tool_choice"] and not values["tool_call_parser"]:
        raise TypeError("Error: --enable-auto-tool-choice requires --tool-call-parser")
    if values["enable_log_outputs"] and not values["enable_log_requests"]:
        raise TypeError("Error: --enable-log-outputs requires --enable-log-requests")
    if values["enable_per_request_metrics"] and values["disable_log_stats"]:
        raise ValueError(
            "Error: --enable-per-request-metrics requires engine statistics logging; remove --disable-log-stats to "
            "enable per-request metrics."
        )
    if values["data_parallel_multi_port_external_lb"] and values["data_parallel_size"] <= 1:
        raise ValueError("Error: --data-parallel-multi-port-external-lb requires --data-parallel-size > 1")
    if values.get("grpc_port") is not None:
        raise ValueError("--grpc-port requires VLLM_USE_RUST_FRONTEND=1 vllm serve")
    efforts = values.get("reasoning_effort_map")
    if efforts is not None and not (isinstance(efforts, dict) and all(isinstance(x, str) for x in efforts.values())):
        raise ValueError("Error: --reasoning-effort-map must be a JSON object mapping reasoning efforts to strings.")
    if values.get("sse_keep_alive_interval", 0) < 0:
        raise ValueError(
            "Error: --sse-keep-alive-interval must be a non-negative integer (0 disables keep-alive comments)."
        )
