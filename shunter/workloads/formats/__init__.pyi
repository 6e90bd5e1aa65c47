"""What others import of this room; `__init__.py` loads each chapter when it is asked for."""

from .canonical import (
    COLUMNS as COLUMNS,
    SPEC_COLUMNS as SPEC_COLUMNS,
    anonymised as anonymised,
    read_above_zero as read_above_zero,
    read_positive as read_positive,
    write_trace as write_trace,
)
from .format import (
    COUNT_MAX as COUNT_MAX,
    SECONDS_MAX as SECONDS_MAX,
    DelimitedRows as DelimitedRows,
    TraceFormat as TraceFormat,
    TraceText as TraceText,
    can_read as can_read,
    find_format as find_format,
    first_fault as first_fault,
    format_names as format_names,
    guess_format as guess_format,
    is_known_format as is_known_format,
    iso_text as iso_text,
    names_some_of as names_some_of,
    read_seconds as read_seconds,
)
