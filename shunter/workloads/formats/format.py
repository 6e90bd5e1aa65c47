"""What a file format is: how it is recognised, and how its text becomes jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from shunter.core.speeds.speed_model import ThroughputTable
from shunter.workloads.quality import Inspection
from shunter.workloads.trace import TraceJob

SECONDS_MAX = 2**31
"""68 years. Later instants are some other unit, and below it floats are exact to a microsecond."""

COUNT_MAX = 2**53


@dataclass(frozen=True)
class TraceText:
    """A file to be parsed: its path for messages, its text, and the chosen options.

    `throughputs` are those at hand; a format that needs them always has them. `columns` are the
    names of columns that the file has under others, by these.
    """

    path: str
    text: str
    options: Mapping[str, str] = field(default_factory=dict)
    throughputs: ThroughputTable | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TraceFormat:
    """One format.

    Attributes:
        recognises: whether a file begins like this format; sees its first characters.
        parse: returns the usable jobs in file order, and tells the inspection about the others.
        is_absolute: instants are microseconds since 1970 (UTC) and become relative to the first
            selected one; otherwise they stand as the file has them.
        unit: what a place in the file is counted in.
        options: the allowed values of each option, the default first.
        needs_throughputs: rows give steps, and a table says how long they take.
    """

    name: str
    recognises: Callable[[str], bool]
    parse: Callable[[TraceText, Inspection], list[TraceJob]]
    is_absolute: bool = False
    unit: str = "line"
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_throughputs: bool = False


def read_seconds(text: str) -> int:
    """Return microseconds for seconds; ValueError for NaN, negative or absurd."""
    seconds = float(text)
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(text)
    return round(seconds * 1_000_000)


def read_count(text: str) -> int:
    """Return a whole number from 0 up; "4.0" is one, 4.5 is a ValueError."""
    try:
        count = int(text)
    except ValueError:
        count = _whole(text)
    if not 0 <= count <= COUNT_MAX:
        raise ValueError(text)
    return count


def _whole(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(value)


# Points in time as traces write them: ISO 8601, in UTC where no zone is named.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = _EPOCH.replace(tzinfo=None)


def instant_us(text: str) -> int:
    """Return microseconds since 1970 (UTC); ValueError before, or for no instant."""
    moment = datetime.fromisoformat(text)
    since = moment - (_NAIVE_EPOCH if moment.tzinfo is None else _EPOCH)
    if since.days < 0:
        raise ValueError(text)
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def iso_text(us: int) -> str:
    """Return the ISO 8601 text of an instant in microseconds since 1970, in UTC."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat()
