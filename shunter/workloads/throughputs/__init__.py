"""Tables of throughputs: files and the built-in one in, `ThroughputTable` out."""

from shunter.workloads.throughputs.compact import compact_form, parse_compact
from shunter.workloads.throughputs.reading import (
    BASE_TYPE,
    BUILTIN_THROUGHPUTS,
    ThroughputFile,
    builtin_throughputs,
    load_throughputs,
)

__all__ = [
    "BASE_TYPE",
    "BUILTIN_THROUGHPUTS",
    "ThroughputFile",
    "builtin_throughputs",
    "compact_form",
    "load_throughputs",
    "parse_compact",
]
