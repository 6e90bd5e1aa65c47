"""What a job's own curve of tolerance says of a placement, and which curves there can be.

A curve has points over levels (how far apart its GPUs are) and over shapes (how they are split over
servers); each is the speed there, of that with all GPUs as near as can be. Where both say something
of a placement, the lower counts: they are two measurements of one speed, not two effects. Between
two numbers of servers that a curve names, the geometric mean counts, beyond the last one that one,
as in the table of factors (`core/performance/model_factors.py`).
"""

from collections.abc import Iterator, Sequence

from shunter.core.performance.model_factors import ModelFactors, filled
from shunter.events.values.job_spec import JobSpec, Level

ShapeCurve = Sequence[tuple[tuple[int, ...], float]]
_ORDER = list(Level)


def tolerated_speed(spec: JobSpec, level: Level, split: Sequence[int]) -> float:
    """Return the speed that a job's curve says it has, of that with all GPUs near.

    Args:
        spec: the job.
        level: the smallest level that holds all of its GPUs.
        split: its GPUs on each server.
    """
    speed = dict(spec.tolerance).get(level, 1.0)
    if spec.shape_tolerance:
        speed = min(speed, _shape_speed(spec.shape_tolerance, sorted(split)))
    return speed


def _shape_speed(curve: ShapeCurve, split: list[int]) -> float:
    """Return the speed of a split: its own, else that of so many servers."""
    known: dict[int, float] = {1: 1.0}
    for shape, speed in curve:
        if sorted(shape) == split:
            return speed
        known[len(shape)] = min(speed, known.get(len(shape), speed))
    return filled(range(1, max(len(split), *known) + 1), known)[len(split)]


def neighbours_leave(interference: float, near: Sequence[Level | None]) -> float:
    """Return what neighbours leave of a job's speed that says how it bears them.

    Args:
        interference: the part that it loses beside one below the same switch.
        near: how near each neighbour has a GPU; None: it has none in a server of the job.
    """
    return ModelFactors(beside={Level.switch: 1.0 - interference}).left_beside(near)


def unfit_contract(spec: JobSpec) -> tuple[str, str] | None:
    """Return the field of a job's contract that cannot be, and why; None: none."""
    return next(_faults(spec), None)


def _faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    yield from _level_faults(spec)
    yield from _shape_faults(spec)
    loses = spec.interference
    if loses is not None and not 0 <= loses < 1:
        yield "interference", "expected the part that is lost, from 0 to below 1"
    if spec.min_speed is None:
        return
    if not 0 < spec.min_speed <= 1:
        yield "min_speed", "expected a part of the speed with all GPUs near, above 0 up to 1"
    if not spec.has_curve and spec.shapes:
        yield "min_speed", "expected a curve, or no shapes: which splits will do is learnt then"
    named = [level for level, speed in spec.tolerance if speed >= spec.min_speed]
    if spec.tolerance and not named:
        best = max(speed for _, speed in spec.tolerance)
        yield "min_speed", f"no level of its curve reaches it: expected {best:g} at most"


def _level_faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a curve over levels: it falls with distance."""
    curve = spec.tolerance
    if len({level for level, _ in curve}) < len(curve):
        yield "tolerance", "a level stands twice: expected one speed for each"
    ordered = sorted(curve, key=lambda point: _ORDER.index(point[0]))
    before, most = "the nearest", 1.0
    for level, speed in ordered:
        if not 0 < speed <= most:
            why = f"{level} has {speed:g}: expected above 0 and at most the {most:g} of {before}"
            yield "tolerance", f"{why}, for distance makes no job faster"
        before, most = level.value, speed


def _shape_faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a curve over splits: it begins with the packed one."""
    curve, field = spec.shape_tolerance, "shape_tolerance"
    if not curve:
        return
    if spec.shapes:
        yield field, "expected no shapes beside it: the curve says which splits will do"
    for shape, _ in curve:
        if sum(shape) != spec.gpus or not all(shape):
            text = "+".join(map(str, shape))
            yield field, f"{text}: expected GPUs a server that make up the {spec.gpus} of the job"
    splits = [sorted(shape) for shape, _ in curve]
    if any(splits.count(split) > 1 for split in splits):
        yield field, "a split stands twice: expected one speed for each"
    if dict(curve).get((spec.gpus,)) != 1:
        yield (
            field,
            f"expected the packed shape with speed 1, {spec.gpus}:1, to which others relate",
        )
    ordered = sorted(curve, key=lambda point: (len(point[0]), -point[1]))
    servers, most, least = 1, 1.0, 1.0
    for shape, speed in ordered:
        if len(shape) > servers:
            servers, most = len(shape), least
        if not 0 < speed <= most:
            text = "+".join(map(str, shape))
            why = f"{text} has {speed:g}: expected above 0 and at most {most:g}"
            yield field, f"{why}, the speed on fewer servers, for distance makes no job faster"
        least = min(least, speed)
