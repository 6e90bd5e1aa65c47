"""Where jobs come from: traces that are read, and traces that are generated."""

from shunter.workloads.anonymising import anonymised
from shunter.workloads.description import SizeClass, TraceDescription, describe_trace
from shunter.workloads.formats.registry import format_names
from shunter.workloads.generators.catalogue import (
    Arrivals,
    Choices,
    generate_trace,
    generator_names,
)
from shunter.workloads.generators.draws import EndShares
from shunter.workloads.loading import load_trace, place_in_trace
from shunter.workloads.quality import Fault, Finding, QualityReport
from shunter.workloads.trace import JobEnd, Trace, TraceJob
from shunter.workloads.writing import WRITTEN_FORMATS, write_trace

__all__ = [
    "WRITTEN_FORMATS",
    "Arrivals",
    "Choices",
    "EndShares",
    "Fault",
    "Finding",
    "JobEnd",
    "QualityReport",
    "SizeClass",
    "Trace",
    "TraceDescription",
    "TraceJob",
    "anonymised",
    "describe_trace",
    "format_names",
    "generate_trace",
    "generator_names",
    "load_trace",
    "place_in_trace",
    "write_trace",
]
