"""Where jobs come from: traces that are read, and traces that are generated."""

from shunter.workloads.formats.canonical import WRITTEN_FORMATS, anonymised, write_trace
from shunter.workloads.formats.format import TraceFormat, TraceText, format_names, is_known_format
from shunter.workloads.generators import (
    Arrivals,
    Choices,
    generate_trace,
    generator_names,
)
from shunter.workloads.job_statistics import EndShares
from shunter.workloads.loading import load_trace, place_in_trace
from shunter.workloads.trace import (
    Fault,
    Finding,
    Inspection,
    JobEnd,
    QualityReport,
    SizeClass,
    Trace,
    TraceDescription,
    TraceJob,
    describe_trace,
)

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
