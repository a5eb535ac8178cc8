"""The tables that a report can have, in the reference measurement's order, and its own among them.
`runner/report/tables` makes them."""

from typing import Final, Literal, get_args

TableId = Literal[
    "summary",
    "request",
    "sequential-rounds",
    "startup-evidence",
    "disabled-features",
    "sequential-comparison",
    "conversion",
    "draft-counters",
    "acceptance-positions",
    "acceptance-distribution",
    "forward-model",
    "restore",
    "method",
    "round-counts",
    "rounds",
    "derived",
    "cross-check",
    "latency",
    "client",
    "resources",
    "off-on",
    "speedup",
    "speedup-rounds",
    "acceptance-by-concurrency",
    "memory-cost",
    "saturation",
    "operating-point",
    "findings",
]
TABLE_IDS: Final[tuple[TableId, ...]] = get_args(TableId)
