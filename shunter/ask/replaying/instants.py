"""Instants and durations as people read them; simulated time is never mistaken for a date."""

import re
from datetime import datetime, timedelta

from shunter.errors import UsageError

SECOND_US = 1_000_000
_CLOCK = re.compile(r"T\+([0-9]{1,9}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,6}))?")
_SINCE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([smhd]?)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TOLD_MOST = 60


def clock(at_us: int) -> str:
    """Return an instant as `T+03:12:40`, with microseconds if it has any.

    Before the origin it is `T-00:04:08`.
    """
    return f"T{'-' if at_us < 0 else '+'}{_hours(abs(at_us))}"


def span(duration_us: int) -> str:
    """Return a duration in the two units that matter most: `2h 05m`, `40s`, `12d 3h`."""
    seconds = duration_us / SECOND_US
    if seconds < 60:
        return f"{seconds:.3g}s" if duration_us % SECOND_US else f"{int(seconds)}s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes}m {int(seconds % 60):02d}s"
    hours = minutes // 60
    if hours < 48:
        return f"{hours}h {minutes % 60:02d}m"
    return f"{hours // 24}d {hours % 24}h"


def span_up(duration_us: int) -> str:
    """Return a duration as `span` does, but never less than it is."""
    if duration_us < 60 * SECOND_US:
        unit_us = 10 ** max(0, len(str(duration_us)) - 3)
    elif duration_us < 3600 * SECOND_US:
        unit_us = SECOND_US
    else:
        unit_us = 60 * SECOND_US if duration_us < 48 * 3600 * SECOND_US else 3600 * SECOND_US
    return span(-(-duration_us // unit_us) * unit_us)


def instant_us(text: str, origin: str | None) -> int:
    """Return the instant a person wrote: `T+03:12:40`, `11560s`, `90m`, or a date.

    A date without offset is one of the time zone here, as dates are shown.

    Raises:
        UsageError: it is none of these, or a date where the log names no origin.
    """
    found = _CLOCK.fullmatch(text)
    if found:
        hours, minutes, seconds, rest = found.groups()
        whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
        return whole * SECOND_US + int((rest or "").ljust(6, "0"))
    if since := _SINCE.fullmatch(text):
        return round(float(since[1]) * _UNIT_S[since[2]] * SECOND_US)
    try:
        when = datetime.fromisoformat(text)
        if origin is not None and when.tzinfo is None and datetime.fromisoformat(origin).tzinfo:
            when = when.astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text[:_TOLD_MOST]!r} is no instant: write T+03:12:40, a time since the log began "
            "such as 11560s, 90m or 2d, an "
            "event number, or a date such as 2026-11-19T18:00, of your time zone or with an offset "
            "such as +00:00"
        ) from error
    if origin is None:
        raise UsageError(f"this log names no origin, so {text!r} means nothing: write T+03:12:40")
    return _since(when, datetime.fromisoformat(origin))


def _since(when: datetime, origin: datetime) -> int:
    if (when.tzinfo is None) != (origin.tzinfo is None):
        when, origin = when.replace(tzinfo=None), origin.replace(tzinfo=None)
    return (when - origin) // timedelta(microseconds=1)


def _hours(at_us: int) -> str:
    seconds, rest_us = divmod(at_us, SECOND_US)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{rest_us:06d}".rstrip("0") if rest_us else text
