"""One cell of a canonical trace: its text, and the value it stands for.

Reading raises ValueError for whatever is not such a value; writing and reading again gives the
value back, bit for bit.
"""

import json
from collections.abc import Iterable
from math import inf
from typing import NoReturn

from shunter.events.values import Dependency, DependsWhen, JobId, Level
from shunter.workloads.formats.format import COUNT_MAX, read_count, read_seconds


def read_positive(text: str) -> int:
    """Return a whole number from 1 up."""
    return read_count(text) or _refuse(text)


def read_length(text: str) -> int:
    """Return microseconds for decimal seconds that amount to at least one of them."""
    return read_seconds(text) or _refuse(text)


def read_above_zero(text: str) -> float:
    """Return a finite number above zero."""
    value = float(text)
    return value if 0 < value < inf else _refuse(text)


def read_part(text: str) -> float:
    """Return a number from 0 to 1."""
    value = float(text)
    return value if 0 <= value <= 1 else _refuse(text)


def read_thousandths(text: str) -> int:
    """Return the whole thousandths of a decimal from 0 up: 0.5 CPUs are 500."""
    value = float(text) * 1000
    return round(value) if 0 <= value <= COUNT_MAX else _refuse(text)


def read_priority(text: str) -> int:
    """Return a whole number of either sign."""
    value = int(text)
    return value if abs(value) <= COUNT_MAX else _refuse(text)


def read_shape(text: str) -> tuple[int, ...]:
    """Return GPU counts per server: "4+2" is (4, 2)."""
    return tuple(read_positive(part) for part in text.split("+"))


def write_shape(shape: object) -> str:
    """Return the text `read_shape` reads."""
    assert isinstance(shape, tuple)
    return "+".join(map(str, shape))


def read_yes(text: str) -> bool:
    """Return whether a cell says yes."""
    return text == "yes" if text in ("yes", "no") else _refuse(text)


def write_yes(value: object) -> str:
    """Return the text `read_yes` reads."""
    return "yes" if value else "no"


def read_tolerance(text: str) -> tuple[Level, float]:
    """Return a level and the speed there: "rack:0.8"."""
    level, _, speed = text.partition(":")
    return Level(level), read_above_zero(speed)


def write_tolerance(point: object) -> str:
    """Return the text `read_tolerance` reads."""
    assert isinstance(point, tuple)
    return f"{point[0]}:{point[1]!r}"


def read_shape_tolerance(text: str) -> tuple[tuple[int, ...], float]:
    """Return a split over servers and the speed there: "2+2:0.72"."""
    shape, _, speed = text.partition(":")
    return read_shape(shape), read_above_zero(speed)


def write_shape_tolerance(point: object) -> str:
    """Return the text `read_shape_tolerance` reads."""
    assert isinstance(point, tuple)
    return f"{write_shape(point[0])}:{point[1]!r}"


def read_dependency(text: str) -> Dependency:
    """Return the job named, and which end of it is meant: "j1", "j1:ok" or "j1:any"."""
    job_id, colon, when = text.rpartition(":")
    if not colon or when not in ("ok", "any"):
        job_id, when = text, DependsWhen.ok
    return Dependency(JobId(job_id or _refuse(text)), DependsWhen(when))


def write_dependency(dependency: object) -> str:
    """Return the text `read_dependency` reads."""
    assert isinstance(dependency, Dependency)
    is_plain = dependency.when is DependsWhen.ok and ":" not in dependency.job_id
    return dependency.job_id if is_plain else f"{dependency.job_id}:{dependency.when}"


def split_list(text: str) -> list[str]:
    """Return the items of "a|b", or of a JSON list of texts."""
    if not text.startswith("["):
        return text.split("|")
    items = json.loads(text)
    return [item if isinstance(item, str) else _refuse(text) for item in items]


def join_list(items: Iterable[str]) -> str:
    """Return the text `split_list` reads; JSON only where an item would be misread."""
    every = list(items)
    is_plain = all(item and "|" not in item for item in every) and every[0][0] != "["
    return "|".join(every) if is_plain else json.dumps(every)


def fixed_text(value: int, digits: int) -> str:
    """Return value / 10^digits as a decimal without needless zeros."""
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), 10**digits)
    return f"{sign}{whole}.{rest:0{digits}}".rstrip("0").rstrip(".") if rest else f"{sign}{whole}"


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)
