"""Numbers as people read them; None, what does not exist, is a dash."""

from collections.abc import Mapping

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
