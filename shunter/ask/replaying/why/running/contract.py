"""A gang's contract: what distance costs it, as said or learnt, and what its floor refuses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter.ask.replaying.formatting import split_in_words
from shunter.ask.replaying.why.explanation import Explanation
from shunter.core.admission import Admission
from shunter.core.speeds.measured import (
    LearntPoint,
    has_learnt_floor,
    learnt_points,
)
from shunter.core.speeds.speed_model import level_of, tolerated_speed
from shunter.core.state import Job, State
from shunter.counting import counted
from shunter.events.values.job_spec import Demand, JobSpec, Level
from shunter.events.values.reasons import Reason

_OF_PLACE = (Reason.locality_not_met, Reason.fragmented)


@dataclass(frozen=True)
class _Has:
    """Where a gang is: its level and split, and the speed there; None: nobody knows."""

    level: Level
    split: tuple[int, ...]
    speed: float | None


def contract_of(found: Explanation) -> dict[str, object] | None:
    """Return a gang's contract and what it got of it; None: it has none."""
    job, state = found.job, found.state
    spec = found.story.spec if job is None else job.spec
    points = () if state is None else learnt_points(spec, state.learnt.get(spec.model, ()))
    says = spec.has_curve or spec.max_level or spec.shapes or spec.min_speed is not None
    if spec.gpus < 2 or not (says or points):
        return None
    demand = spec.demand() if job is None else job.demand
    refused = [] if demand.max_level is None else _beyond(demand.max_level)
    splits = list(_refused_splits(spec, points))
    has = None if job is None or state is None else _has(spec, job, state, points)
    impossible = "" if job is None or state is None else _impossible(spec, job, state)
    return {
        "source": _source(spec, points),
        "samples": 0 if spec.has_curve else sum(point.samples for point in points),
        "points": list(_points(spec, points)),
        "min_speed": spec.min_speed,
        "max_level": demand.max_level,
        "splits": [list(shape) for shape in demand.shapes],
        "refused_levels": refused,
        "refused_splits": [list(split) for split in splits],
        "has": None
        if has is None
        else {"level": has.level, "split": list(has.split), "speed": has.speed},
        "impossible": impossible,
        "words": "; ".join(
            [
                _curve_in_words(spec, points, has_ended=state is None),
                *_floor_in_words(spec, demand, refused, splits),
                *_place_in_words(has),
                *_wait_in_words(found, demand),
                *([impossible] if impossible else []),
            ]
        ),
    }


def _source(spec: JobSpec, points: Sequence[LearntPoint]) -> str:
    return "given" if spec.has_curve else "learnt" if points else "none"


def _points(spec: JobSpec, points: Sequence[LearntPoint]) -> Iterator[dict[str, object]]:
    """Yield the points of the curve that counts."""
    if not spec.has_curve:
        for point in points:
            split, speed = list(point.split), point.speed
            yield {"level": point.level, "split": split, "speed": speed, "samples": point.samples}
        return
    for level, speed in spec.tolerance:
        yield {"level": level, "split": None, "speed": speed, "samples": None}
    for shape, speed in spec.shape_tolerance:
        yield {"level": None, "split": list(shape), "speed": speed, "samples": None}


def _beyond(level: Level) -> list[Level]:
    levels = list(Level)
    return levels[levels.index(level) + 1 :]


def _refused_splits(spec: JobSpec, points: Sequence[LearntPoint]) -> Iterator[tuple[int, ...]]:
    """Yield the splits of the curve that are below the floor."""
    floor = spec.min_speed
    if floor is None:
        return
    if spec.has_curve:
        yield from (shape for shape, speed in spec.shape_tolerance if speed < floor)
        return
    slow = [point.split for point in points if point.speed < floor and len(point.split) > 1]
    yield from dict.fromkeys(slow)


def _has(spec: JobSpec, job: Job, state: State, points: Sequence[LearntPoint]) -> _Has | None:
    """Return where a gang is, or is about to be."""
    where = job.allocation if job.allocation.shares else job.held
    if not where.shares:
        return None
    nodes = {share.node: state.cluster.servers[share.node].configuration for share in where.shares}
    level = level_of(where, nodes)
    split = tuple(sorted([share.gpus for share in where.shares], reverse=True))
    if spec.has_curve:
        return _Has(level, split, tolerated_speed(spec, level, split))
    known = {(point.level, point.split): point.speed for point in points}
    return _Has(level, split, known.get((level, split)))


def _impossible(spec: JobSpec, job: Job, state: State) -> str:
    """Return why a job waits in vain for what was learnt; empty: it does not."""
    if not has_learnt_floor(spec) or job.allocation.shares:
        return ""
    if Admission(state.cluster).refusal(job.demand, spec.user, state.queue_of(job)) is None:
        return ""
    return (
        "not even the empty cluster has such a place now: it waits until a server joins, or until "
        "it is cancelled and submitted with a lower floor"
    )


def _curve_in_words(spec: JobSpec, points: Sequence[LearntPoint], *, has_ended: bool) -> str:
    if spec.has_curve:
        said = [f"{speed:g} within one {level}" for level, speed in spec.tolerance]
        said += [f"{speed:g} on {split_in_words(shape)}" for shape, speed in spec.shape_tolerance]
        return f"given: speed {', '.join(said)}"
    if points:
        seen = ", ".join(
            f"{point.speed:g} on {split_in_words(point.split)} within one {point.level}"
            for point in points
        )
        samples = counted(sum(point.samples for point in points), "sample")
        return f"learnt of {spec.model} from {samples}: speed {seen}"
    if has_learnt_floor(spec) and has_ended:
        return (
            f"no curve of its own: --at a moment of its life tells what was learnt of {spec.model}"
        )
    if has_learnt_floor(spec):
        return f"nothing is learnt yet of gangs like it of {spec.model or 'no model'}"
    return "no curve"


def _floor_in_words(
    spec: JobSpec, demand: Demand, refused: Sequence[Level], splits: Sequence[tuple[int, ...]]
) -> Iterator[str]:
    if spec.min_speed is not None:
        yield f"floor {spec.min_speed:g}"
    elif demand.max_level is None and not demand.shapes:
        yield "no floor"
    if demand.max_level is not None:
        yield f"accepts {demand.max_level} at most" + (
            f" and refuses {', '.join(refused)}" if refused else ""
        )
    if splits:
        yield f"refuses {', '.join(map(split_in_words, splits))}"
    if demand.keeps_split:
        (shape,) = demand.shapes
        yield f"its checkpoints bind it to {split_in_words(shape)}, before its floor"


def _place_in_words(has: _Has | None) -> Iterator[str]:
    if has is not None:
        speed = "a speed that nobody knows" if has.speed is None else f"speed {has.speed:g}"
        yield f"it has {split_in_words(has.split)} within one {has.level}, {speed}"


def _wait_in_words(found: Explanation, demand: Demand) -> Iterator[str]:
    now = found.waits_now
    if now is None or now.wait.reason not in _OF_PLACE:
        return
    if demand.max_level is not None or demand.shapes:
        yield "it waits, for no place that it accepts is left to it"
