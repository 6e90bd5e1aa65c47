"""Numbers as people read them and type them; None, what does not exist, is a dash."""

import re
from collections.abc import Mapping
from math import ceil

from shunter.errors import UsageError

NOTHING = "–"


def duration(seconds: float | None) -> str:
    """Return a duration in the unit that gives it two to four digits."""
    if seconds is None:
        return NOTHING
    if seconds < 120:
        return (
            f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
        )
    if seconds < 7200:
        return f"{seconds / 60:.1f} m"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} d"


def durations_apart(one: float, other: float) -> tuple[str, str]:
    """Return two durations in the largest unit in which they differ, if they do."""
    told = duration(one), duration(other)
    for seconds, unit in ((3600, "h"), (60, "m"), (1, "s")):
        if told[0] != told[1] or one == other:
            break
        if max(one, other) >= 2 * seconds:
            told = f"{one / seconds:.1f} {unit}", f"{other / seconds:.1f} {unit}"
    if told[0] == told[1] and one != other:
        told = f"{one:.6f} s", f"{other:.6f} s"
    return told


def number(count: int) -> str:
    """Return a count with commas."""
    return f"{count:,}"


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return NOTHING if share is None else f"{share * 100:.1f} %"


def left_out(jobs: Mapping[str, int]) -> str:
    """Return which jobs did not finish, by how they ended: "14 unfinished, 3 failed"."""
    others = [name for name in jobs if name not in ("submitted", "finished")]
    return ", ".join(f"{number(jobs[name])} {name}" for name in others if jobs[name])


# Values as people type them, read without pydantic; patterns are compiled when they are used.

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PARTS = r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)"
_CLOCK = r"(?:(\d+)-)?(\d{1,3}):([0-5]?\d):([0-5]?\d)"
_MEMORY = r"(\d+(?:\.\d+)?)\s*([MGT])(i?)B?"
_POWERS = {"m": 0.0, "g": 1.0, "t": 2.0}
_ARRAY = r"(\d+)(?:-(\d+)(?::(\d+))?)?(?:%(\d+))?"
_SHAPE = r"[1-9]\d{0,6}(\+[1-9]\d{0,6})*"
_DEPENDENCY = r"([A-Za-z0-9_][A-Za-z0-9._-]*?)(?::(ok|any))?"


def seconds(text: str) -> float:
    """Return the seconds in `90s`, `1h30m`, `2d`, `12:00:00` or `1-12:00:00`.

    A bare number is refused: Slurm takes it for minutes, and others for seconds.

    Raises:
        UsageError: it is no duration.
    """
    said = text.strip()
    clock = re.fullmatch(_CLOCK, said)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
    parts = re.findall(_PARTS, said)
    if not parts or "".join(number + unit for number, unit in parts) != said:
        # Slurm takes 2:00 for minutes and seconds, and people take it for hours as well.
        raise UsageError(
            f"{text!r} is no duration: write 90s, 5m, 1h30m, 2d, hours:minutes:seconds, or "
            "days-hours:minutes:seconds"
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def memory_mb(text: str) -> int:
    """Return the megabytes in `512M`, `16G` or `1.5T`, rounded up.

    1G is 1,000M, as in configs; 1Gi is 1,024.

    Raises:
        UsageError: it is no size.
    """
    found = re.fullmatch(_MEMORY, text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"{text!r} is no size: write 512M, 16G or 1T")
    number, unit, is_binary = found.groups()
    thousand = 1024.0 if is_binary else 1000.0
    size: float = float(number) * thousand ** _POWERS[unit.lower()]
    return ceil(size)


def array_of(text: str) -> tuple[int, int, int, int | None]:
    """Return (first, last, step, at once or None) of `0-99`, `0-99:2`, `0-99%8`.

    Raises:
        UsageError: it is no array.
    """
    found = re.fullmatch(_ARRAY, text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no array: write 0-99, 0-99:2 (every second), or 0-99%8")
    first, last, step, at_once = found.groups()
    if (last is not None and int(last) < int(first)) or step == "0" or at_once == "0":
        raise UsageError(f"{text!r} is no array: it has no task")
    return int(first), int(last or first), int(step or 1), None if at_once is None else int(at_once)


def shape_of(text: str) -> list[int]:
    """Return the GPUs on each server of `4` or `2+2`.

    Raises:
        UsageError: it is no split.
    """
    if not re.fullmatch(_SHAPE, text.strip()):
        raise UsageError(f"{text!r} is no shape: write GPUs a server, such as 4 or 2+2")
    return [int(count) for count in text.split("+")]


def point_of(text: str) -> tuple[str | list[int], float]:
    """Return level or split, and the speed there, of `rack:0.8` or `2+2:0.72`.

    Raises:
        UsageError: it is neither.
    """
    place, _, speed = text.strip().partition(":")
    try:
        value = float(speed)
    except ValueError:
        value = 0.0
    if not place or not 0 < value <= 1:
        raise UsageError(
            f"{text!r} is no point of a curve: write LEVEL:SPEED or SHAPE:SPEED, such as rack:0.8 "
            "or 2+2:0.72, with a speed above 0 up to 1"
        )
    return (shape_of(place) if place[0].isdigit() else place), value


def dependency_of(text: str) -> tuple[str, str]:
    """Return (job, "ok" or "any") of `j12`, `j12:ok` or `j12:any`.

    Raises:
        UsageError: it is no dependency.
    """
    found = re.fullmatch(_DEPENDENCY, text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no dependency: write JOB, JOB:ok or JOB:any")
    return found.group(1), found.group(2) or "ok"


def since_s(text: str) -> float | None:
    """Return the seconds of a duration; None: it is an instant or an event."""
    try:
        return seconds(text)
    except UsageError:
        return None
