"""Small texts of Slurm's answers: GPUs in GRES and TRES, instants, time limits, memory.

GRES are written gpu:v100:4(S:0-1), what a job asks for gres:gpu:v100:2 (22.05) or gres/gpu:v100=2
(later), TRES cpu=4,gres/gpu=2,gres/gpu:v100=2. In TRES the count without a type is the total.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
UNTYPED: Final = "gpu"
"""The type of GPUs that Slurm knows no type of."""

_NO_VALUE = 2**32 - 2
"""How Slurm's C code says that a number is not set (NO_VAL); 22.05 prints it of some jobs."""

_UNSET = frozenset({"", "(null)", "None", "N/A", "n/a", "Unknown", "unknown", "NONE", "NOT_SET"})
_GRES = re.compile(
    r"(?:gres[:/])?gpu(?::(?P<type>[^:=,()\s]*[^\d:=,()\s][^:=,()\s]*))?"
    r"(?:[:=](?P<count>\d+)(?P<suffix>[KMG]?))?(?:\((?P<note>[^)]*)\))?"
)
_TRES = re.compile(r"gres/gpu(?::(?P<type>[^=,]+))?=(?P<count>\d+)")
_NUMBERED = re.compile(r"(?:^|,)[1-9]\d{3,}=")
"""Up to 1000 Slurm has TRES of its own, such as 1 for CPUs; what a site counts has more."""
_INDEX = re.compile(r"(\d+)(?:-(\d+))?")
_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def gpus_in_gres(text: str) -> dict[str, int]:
    """Return GPUs by type in a list of GRES; other resources do not count."""
    found: dict[str, int] = {}
    for one in _entries(text):
        name = one["type"] or UNTYPED
        count = int(one["count"] or 1) * _SUFFIXES[one["suffix"] or ""]
        found[name] = found.get(name, 0) + count
    return found


def gpu_indices(text: str) -> dict[str, tuple[int, ...]]:
    """Return the devices in use by type, as in gpu:v100:2(IDX:0-1)."""
    found: dict[str, tuple[int, ...]] = {}
    for one in _entries(text):
        note = one["note"] or ""
        if note.startswith("IDX:"):
            numbers = [
                number
                for first, last in _INDEX.findall(note)
                for number in range(int(first), int(last or first) + 1)
            ]
            found[one["type"] or UNTYPED] = tuple(numbers)
    return found


def gpus_in_tres(text: str) -> dict[str, int] | None:
    """Return GPUs by type in TRES; under "gpu" those without a type.

    None: some are told by number, of which nothing says whether they are GPUs.
    """
    total, typed = 0, dict[str, int]()
    for one in _TRES.finditer(text):
        if one["type"] is None:
            total = int(one["count"])
        else:
            typed[one["type"]] = typed.get(one["type"], 0) + int(one["count"])
    rest = total - sum(typed.values())
    if not total and not typed and _NUMBERED.search(text):
        return None
    return {**typed, UNTYPED: rest} if rest > 0 else typed


def total_gpus(by_type: dict[str, int]) -> int:
    """Return how many GPUs there are of all types."""
    return sum(by_type.values())


def instant_s(text: str) -> int | None:
    """Return seconds since 1970 of an instant, None if it is not set.

    It is a number of them, or ISO 8601 in local time.

    Raises:
        ValueError: it is neither, and does not say that none is set.
    """
    if text in _UNSET:
        return None
    if text.isdigit():
        return int(text) or None
    return int(datetime.fromisoformat(text).timestamp())


def limit_s(text: str) -> int | None:
    """Return the seconds of a time limit, None if there is none.

    It is a number of minutes, MM:SS, HH:MM:SS or D-HH:MM:SS.

    Raises:
        ValueError: it is no limit.
    """
    if text in _UNSET or text.lower() in {"unlimited", "infinite", "partition_limit", "invalid"}:
        return None
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    numbers = [int(part) for part in found["clock"].split(":")]
    if found["days"] is not None:  # D-HH, D-HH:MM or D-HH:MM:SS
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return int(found["days"]) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    hours, minutes, seconds = [0, *numbers][-3:]
    return hours * 3_600 + minutes * 60 + seconds


def whole(text: str) -> int:
    """Return a whole number, 0 where none is told; of a range such as 2-4 the first.

    Raises:
        ValueError: it is no number.
    """
    number = 0 if text in _UNSET else int(text.partition("-")[0])
    return 0 if number >= _NO_VALUE else number


def _entries(text: str) -> Iterator[re.Match[str]]:
    """Yield the GPU entries of a list; commas in brackets separate no entries."""
    text = text.replace(":(null)", "")  # how devices without a type are told in use
    depth, start = 0, 0
    for place, sign in enumerate(f"{text},"):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            found = _GRES.fullmatch(text[start:place].strip())
            if found is not None:
                yield found
            start = place + 1


def duration(seconds: float) -> str:
    """Return a duration in words, of two units at most: 12 min, 3 h 10 min."""
    whole = max(0, int(seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    large, small, size, part = (
        ("h", "min", HOUR_S, MINUTE_S) if whole < DAY_S else ("d", "h", DAY_S, HOUR_S)
    )
    rest = whole % size // part
    return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")
