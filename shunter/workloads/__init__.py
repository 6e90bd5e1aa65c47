"""Where jobs come from: traces that are read, and traces that are generated."""

from shunter.workloads.description import SizeClass, TraceDescription, describe_trace
from shunter.workloads.formats.format import TraceFormat, TraceText
from shunter.workloads.formats.registry import format_names, is_known_format
from shunter.workloads.generators.catalogue import (
    Arrivals,
    Choices,
    generate_trace,
    generator_names,
)
from shunter.workloads.generators.draws import EndShares
from shunter.workloads.loading import load_trace, place_in_trace
from shunter.workloads.quality import Fault, Finding, Inspection, QualityReport
from shunter.workloads.trace import JobEnd, Trace, TraceJob
from shunter.workloads.writing import WRITTEN_FORMATS, anonymised, write_trace

__all__ = [
    "WRITTEN_FORMATS",
    "Arrivals",
    "Choices",
    "EndShares",
    "Fault",
    "Finding",
    "Inspection",
    "JobEnd",
    "QualityReport",
    "SizeClass",
    "Trace",
    "TraceDescription",
    "TraceFormat",
    "TraceJob",
    "TraceText",
    "anonymised",
    "describe_trace",
    "format_names",
    "generate_trace",
    "generator_names",
    "is_known_format",
    "load_trace",
    "place_in_trace",
    "write_trace",
]
