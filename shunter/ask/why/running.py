"""What a job has that holds GPUs: its gang's contract, shares, trials and turns."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose

from shunter.ask.job_history import AttemptTurns, happened_us
from shunter.ask.waits import stands_still
from shunter.ask.why.explanation import Explanation
from shunter.ask.why.job_events import Own
from shunter.ask.why.timeline import RunSpan
from shunter.ask.words import (
    allocation_in_words,
    clock,
    first_of,
    resources_in_words,
    span,
    split_in_words,
    stamp,
)
from shunter.core import SHRUNK, Job, JobPhase, State
from shunter.core.speeds import (
    LearntPoint,
    has_learnt_floor,
    learnt_points,
    level_of,
    tolerated_speed,
)
from shunter.counting import counted
from shunter.events import (
    TRIALS,
    Allocation,
    Batch,
    Demand,
    JobId,
    JobSpec,
    Level,
    NodeName,
    Reason,
    Resources,
    Share,
    Sharing,
    TrialKind,
    TrialReason,
    facts,
)

# A gang's contract.

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
    from shunter.core import Admission

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


# CPUs and memory.

_GAINERS_NAMED = 3


def shares_of(found: Explanation) -> dict[str, object] | None:
    """Return what a running job has, and the last change of that.

    None: nobody sizes jobs and none was changed, or it does not run.
    """
    grant = found.grant
    if grant is None or found.last_run is None or found.last_run.ended_by is not None:
        return None
    told = [
        own
        for own in found.story.own
        if isinstance(own.event, facts.JobReshaped | facts.ReshapeRefused)
    ]
    if told and told[-1].seq > grant.seq and isinstance(told[-1].event, facts.ReshapeRefused):
        return _kept(found, told[-1].seq, told[-1].event)
    reshaped = [own for own in told if _is_of_shares(own)]
    if not reshaped or reshaped[-1].seq < grant.seq:
        return None if found.policies.last.sizing is None else _granted(grant)
    last = reshaped[-1]
    event = last.event
    assert isinstance(event, facts.JobReshaped), "only such were taken"
    since = max(grant.seq, reshaped[-2].seq if len(reshaped) > 1 else 0)
    before = _steps_per_s(own for own in found.story.own if since < own.seq < last.seq)
    after = _steps_per_s(own for own in found.story.own if own.seq > last.seq)
    return {
        **_document(
            last.seq, event, f"{_why(found, event)}{_measured(before, after)}{_corrected(found)}"
        ),
        "rule": event.because.rule,
        "beneficiaries": list(event.because.beneficiaries),
        "steps_per_s": [before, after],
    }


def corrections_of(found: Explanation) -> list[dict[str, object]]:
    """Return where a job measured another speed than the table of sensitivity said."""
    return [
        _correction(own.seq, own.event)
        for own in found.story.own
        if isinstance(own.event, facts.SensitivityCorrected)
    ]


def _correction(seq: int, event: facts.SensitivityCorrected) -> dict[str, object]:
    has, base = (
        resources_in_words(0, cpus_milli / 1000, memory_mb)
        for cpus_milli, memory_mb in (
            (event.cpus_milli, event.memory_mb),
            (event.base_cpus_milli, event.base_memory_mb),
        )
    )
    return {
        **stamp(seq, event.at_us),
        "cpus": event.cpus_milli / 1000,
        "memory_mb": event.memory_mb,
        "expected": event.expected,
        "measured": event.measured,
        "words": f"the table said {event.expected:.3g} times the proportional speed of "
        f"{event.model} at {has} for each GPU, and it measured {event.measured:.3g} (by its own "
        f"rate at {base}): corrected at {clock(event.at_us)} (e{seq})",
    }


def shares_before(found: Explanation, seq: int) -> tuple[Share, ...]:
    """Return what a job had before an event of its own, after all changes."""
    has: tuple[Share, ...] = ()
    for own in found.story.own:
        event = own.event
        if own.seq >= seq:
            break
        if isinstance(event, facts.AllocationChanged | facts.JobReshaped | facts.AllocationLearned):
            has = event.allocation.shares or has
        elif isinstance(event, facts.ReshapeRefused):
            kept = dict(zip(event.wanted, event.kept, strict=True))
            has = tuple([kept.get(share, share) for share in has])
    return has


def _is_of_shares(own: Own) -> bool:
    """Say whether an event changes CPUs or memory, not the GPUs of one's turns."""
    event = own.event
    return isinstance(event, facts.JobReshaped) and event.allocation.sharing is not Sharing.sliced


def _granted(grant: Own) -> dict[str, object] | None:
    """Return the shares with which a job was given its GPUs, and which it has kept."""
    event = grant.event
    assert isinstance(event, facts.AllocationChanged), "it was given GPUs by one"
    if not any(share.cpus_milli or share.memory_mb for share in event.allocation.shares):
        return None
    return _document(grant.seq, event, "as it was given")


def _kept(found: Explanation, seq: int, event: facts.ReshapeRefused) -> dict[str, object]:
    """Return what a job has since a server refused it other shares, and which."""
    wanted, kept = (_together(shares) for shares in (event.wanted, event.kept))
    nodes = ", ".join(share.node for share in event.kept)
    because = (
        f"for {nodes} refused it {_amounts(wanted)} there: {event.cause}; it keeps "
        f"{_amounts(kept)} there while this attempt lasts"
    )
    return {
        **_numbers(seq, event.at_us, _together(shares_before(found, seq + 1)), because),
        "rule": "refused",
        "cause": event.cause,
        "refused_cpus": wanted.cpus_milli / 1000,
        "refused_memory_mb": wanted.memory_mb,
    }


def _document(
    seq: int, event: facts.AllocationChanged | facts.JobReshaped, because: str
) -> dict[str, object]:
    """Return what a fact gave a job, since when, and why."""
    return _numbers(seq, event.at_us, _together(event.allocation.shares), because)


def _numbers(seq: int, at_us: int, has: Resources, because: str) -> dict[str, object]:
    return {
        **stamp(seq, at_us),
        "cpus": has.cpus_milli / 1000,
        "memory_mb": has.memory_mb,
        "words": f"{_amounts(has)} since {clock(at_us)} (e{seq}), {because}",
    }


def _together(shares: Iterable[Share]) -> Resources:
    return sum([share.beside for share in shares], Resources())


def _steps_per_s(events: Iterable[Own]) -> float | None:
    """Return the rate that a job itself reported last; None: it reported none."""
    batches = [own.event.batch_s for own in events if isinstance(own.event, facts.ProfileSampled)]
    known = [batch_s for batch_s in batches if batch_s]
    return round(1 / known[-1], 3) if known else None


def _measured(before: float | None, after: float | None) -> str:
    """Return what the job's own reports say of the change, as far as they do."""
    if before is None and after is None:
        return ""
    rates = ["unknown" if rate is None else f"{rate:.3g}" for rate in (before, after)]
    return f"; measured {' -> '.join(rates)} steps a second"


def _corrected(found: Explanation) -> str:
    """Return whether the table of the job's model is corrected, by whichever job."""
    model = found.story.spec.model
    cells = () if found.state is None else found.state.corrections.get(model, ())
    if not cells:
        return ""
    return f"; the table of {model} is corrected at {len(cells)} share{'s'[: len(cells) > 1]}"


def _amounts(has: Resources) -> str:
    return resources_in_words(0, has.cpus_milli / 1000, has.memory_mb)


def _why(found: Explanation, event: facts.JobReshaped) -> str:
    """Return why the shares changed, with the speeds that the table says."""
    because = event.because
    speeds = " -> ".join(f"{speed:.3g}" for speed in because.scores)
    gainers = because.beneficiaries
    room = (
        f" to make room for {first_of(gainers, _GAINERS_NAMED)}"
        if because.rule == SHRUNK and gainers
        else ""
    )
    if because.rule == SHRUNK and because.scores and _is_as_fair(found, event):
        room = f" to the speed of its proportional share{room}"
    return f"{because.rule}{room}" + (f": speed {speeds}" if speeds else "")


def _is_as_fair(found: Explanation, event: facts.JobReshaped) -> bool:
    """Say whether a job is as fast as with what it is guaranteed, and no faster."""
    sizing, state, spec = found.policies.last.sizing, found.state, found.story.spec
    if sizing is None or state is None:
        return False
    from shunter.core.sizing import whole_of  # where a policy sizes jobs it is here already

    cluster, sizing = state.cluster, sizing.corrected(state.corrections)
    server = cluster.servers[event.allocation.shares[0].node]
    whole = whole_of(cluster.pools[server.configuration.gpu_type])
    return isclose(event.because.scores[-1], sizing.speed(spec, sizing.guaranteed(spec, whole)))


# Trials.

_Verdict = facts.TrialKept | facts.TrialReverted


@dataclass(frozen=True)
class _Tried:
    """A trial with its verdicts: the first ends it, another one what was kept."""

    seq: int
    started: facts.TrialStarted
    verdicts: tuple[tuple[int, _Verdict], ...]


def trials_of(found: Explanation) -> list[dict[str, object]]:
    """Return what was tried of a job, in order, alone or as a partner of others."""
    own = [each for each in found.story.own if isinstance(each.event, TRIALS)]
    told = sorted((*own, *found.story.tried_beside), key=lambda each: each.seq)
    return [_trials_document(found, each) for each in _paired(told, found.story.job_id)]


def _paired(told: Sequence[Own], job_id: JobId) -> Iterator[_Tried]:
    """Yield each trial of a job, with the verdicts up to the next of its jobs."""
    for number, each in enumerate(told):
        started = each.event
        if not isinstance(started, facts.TrialStarted) or job_id not in _names(started):
            continue
        verdicts = list[tuple[int, _Verdict]]()
        for later in told[number + 1 :]:
            event = later.event
            assert isinstance(event, TRIALS), "only such were taken"
            if not _names(started) & _names(event):
                continue
            if isinstance(event, facts.TrialStarted):
                break
            verdicts.append((later.seq, event))
        yield _Tried(each.seq, started, tuple(verdicts))


def _names(event: facts.TrialStarted | _Verdict) -> set[JobId]:
    """Return the jobs that a fact of a trial names."""
    return {event.job_id, *(event.partners if isinstance(event, facts.TrialStarted) else ())}


def _trials_document(found: Explanation, tried: _Tried) -> dict[str, object]:
    started = tried.started
    names = [started.job_id, *started.partners]
    beside = [name for name in names if name != found.story.job_id]
    running = None if found.state is None else found.state.trials.get(started.job_id)
    goes_on = running is not None and running.started_us == started.at_us
    what = f"packed with {', '.join(beside)}" if beside else "moved"
    words = f"{what} on trial at {clock(started.at_us)} (e{tried.seq})"
    words += f", with mini-batches of {_batches(started.batches)}"
    if not beside and started.baseline < 1:
        words += f" and {100 * started.baseline:.3g} % of its GPUs' time, its fair share in turns,"
    words += " before"
    for seq, verdict in tried.verdicts:
        stopped = _stopped(found, seq)
        words += f"; {_ended(verdict, started, stopped)} at {clock(verdict.at_us)} (e{seq})"
    if not tried.verdicts:
        words += "; not judged yet" if goes_on else "; it ended without a verdict"
    elif _is_over(found, tried, beside):
        words += "; it is over"
    last = tried.verdicts[0][1] if tried.verdicts else None
    return {
        **stamp(tried.seq, started.at_us),
        "trial": started.trial,
        "beside": beside,
        "baseline": started.baseline,
        "batches_before_s": _seconds(started.batches),
        "verdict": None if last is None else _NAMES[type(last)],
        "reason": "" if last is None else last.reason,
        "measured": None if last is None else last.measured,
        "batches_s": {} if last is None else _seconds(last.batches),
        "words": words,
    }


def _is_over(found: Explanation, tried: _Tried, beside: Sequence[JobId]) -> bool:
    """Say whether a pack that was kept is none any more, and no verdict says so."""
    job = None if found.state is None else found.state.jobs.get(found.story.job_id)
    was_kept = isinstance(tried.verdicts[-1][1], facts.TrialKept) and bool(beside)
    return was_kept and job is not None and not set(beside) & set(job.packed_with)


_NAMES: dict[type[_Verdict], str] = {facts.TrialKept: "kept", facts.TrialReverted: "reverted"}


def _stopped(found: Explanation, seq: int) -> set[JobId]:
    """Return the job that is asked for, if it had no speed on its turn at an event."""
    told = [
        own.event.speed
        for own in found.story.own
        if own.seq < seq and isinstance(own.event, facts.TurnStarted | facts.SpeedChanged)
    ]
    return {found.story.job_id} if told and not told[-1] else set()


def _ended(verdict: _Verdict, started: facts.TrialStarted, stopped: set[JobId]) -> str:
    """Return how a trial ended; `stopped` is who is known to have no speed."""
    reason, is_pack = verdict.reason, started.trial == TrialKind.pack
    if reason == TrialReason.room:
        return "each has turns of its own again, since there was room for all,"
    if reason == TrialReason.no_progress:
        return (
            _without_progress(verdict, started, stopped)
            if is_pack
            else "moved back: it made no progress"
        )
    if reason == TrialReason.not_measured:
        return "given up: too little was measured"
    batches = f"(mini-batches of {_batches(verdict.batches)})"
    if is_pack:
        kept = "kept" if isinstance(verdict, facts.TrialKept) else "given up"
        return (
            f"{kept}: together they do {verdict.measured:.4g} times what one does alone {batches}"
        )
    share = ", by both" if started.baseline < 1 else ""
    speed = f"{verdict.measured / started.baseline:.4g} times as fast as before{share} {batches}"
    if reason == TrialReason.cost_not_met:
        return f"it stays, though the move cost more than it gained: {speed}"
    if reason == TrialReason.no_way_back:
        return f"it lost, and stays, since others have its GPUs of before: {speed}"
    return f"{'stays there' if isinstance(verdict, facts.TrialKept) else 'moved back'}: {speed}"


def _without_progress(verdict: _Verdict, started: facts.TrialStarted, stopped: set[JobId]) -> str:
    """Return who made no progress: had no speed, or alone measured nothing."""
    stuck = stopped or _names(started) - {each.job_id for each in verdict.batches}
    who = "".join(stuck) if len(stuck) == 1 else "one of them, or both,"
    return f"given up: {who} made no progress"


def _batches(batches: Sequence[Batch]) -> str:
    return (
        " and ".join(f"{each.batch_us / 1e3:.4g} ms ({each.job_id})" for each in batches) or "none"
    )


def _seconds(batches: Sequence[Batch]) -> dict[str, float]:
    return {each.job_id: each.batch_us / 1e6 for each in batches}


# Turns. For an instant at which the scheduler was away they are as the log shows them since: a turn
# seen late says when it began or ended (`Explanation.told_later`).

_NAMED = 3


@dataclass(frozen=True)
class _Had:
    """The turns of one attempt, or of several; times in microseconds."""

    turns: int
    on_us: int
    of_us: int

    def __add__(self, other: "_Had") -> "_Had":
        return _Had(self.turns + other.turns, self.on_us + other.on_us, self.of_us + other.of_us)

    def __str__(self) -> str:
        part = f" ({100 * self.on_us / self.of_us:.0f} %)" if self.of_us else ""
        return f"{counted(self.turns, 'turn')}, {span(self.on_us)} of {span(self.of_us)}{part}"

    def document(self) -> dict[str, object]:
        return {"turns": self.turns, "on_s": self.on_us / 1e6, "of_s": self.of_us / 1e6}


def turns_of(found: Explanation) -> dict[str, object] | None:
    """Return the turns of a job in its present or last attempt; None: it took none.

    `all` are those of all its attempts that took turns.
    """
    run = found.last_run
    if run is None or run.allocation.sharing is not Sharing.sliced:
        return None
    turns, had = _of_run(found, run)
    runs = [each for each in found.runs if each.allocation.sharing is Sharing.sliced]
    all_had = sum([_of_run(found, each)[1] for each in runs[:-1]], had)
    words = str(had)
    if len(found.runs) > 1:
        words += f" in attempt {run.attempt}"
    words += _skew_in_words(turns.skews_us)
    if len(runs) > 1:
        words += f"; {all_had} in all its {len(runs)} attempts with turns"
    if run.to_us is None:
        words = f"{_now(found, run, turns)}; {words}"
    if found.told_later:
        words += f"; as was seen at {clock(found.told_later[-1].at_us)}"
    return {
        **had.document(),
        "attempt": run.attempt,
        "all": {"attempts": len(runs), **all_had.document()},
        "is_on": run.to_us is None and turns.is_on,
        "others": _others(found),
        "skew_most_s": max(turns.skews_us) / 1e6 if turns.skews_us else None,
        "words": words,
    }


def _of_run(found: Explanation, run: RunSpan) -> tuple[AttemptTurns, _Had]:
    """Return the turns of an attempt, up to its end or the instant asked for."""
    to_us = found.story.at_us if run.to_us is None else run.to_us
    gpus = run.allocation.gpus if run.allocation.is_spread else 0
    turns = AttemptTurns(changed_us=run.from_us, gang=gpus)
    later = [each.from_seq for each in found.runs if each.from_seq > run.from_seq]
    for own in found.story.own:
        if (
            run.from_seq < own.seq <= min(later, default=own.seq)
            and happened_us(own.event) <= to_us
        ):
            turns.take(own.event)
    for event in found.told_later if run.to_us is None else ():
        turns.take(event)
    return turns, _Had(turns.count, turns.on_us(to_us), to_us - run.from_us)


def _now(found: Explanation, run: RunSpan, turns: AttemptTurns) -> str:
    """Return whether it has its turn, where, since when, and who else is there."""
    nodes = " and ".join(share.node for share in run.allocation.shares)
    others = _others(found)
    partners = _partners(found, others) if turns.is_on else []
    gone = [each for each in found.told_later if isinstance(each, facts.AttemptEnded)]
    if gone:
        now = f"its processes on {nodes} were gone since {clock(happened_us(gone[-1]))}"
    elif found.phase != JobPhase.running:
        now = f"it is {found.phase} on {nodes}, out of turns"
    elif turns.is_on:
        places = tuple(turns.places[node] for node in sorted(turns.places))
        where = allocation_in_words(Allocation(places))
        now = f"it has its turn on {where} since {clock(turns.changed_us or 0)}"
        now += f", together with {first_of(partners, _NAMED)}" if partners else ""
    else:
        own = [each.event for each in found.story.own if each.seq > run.from_seq]
        goes_on = [event.at_us for event in own if isinstance(event, facts.JobContinued)]
        since_us = max([turns.changed_us or 0, *goes_on])
        now = f"it waits for its turn on {nodes} since {clock(since_us)}"
    rest = [name for name in others if name not in partners]
    if rest:
        have = "has" if len(rest) == 1 else "have"
        theirs = _servers_of(found, rest)
        too = " and ".join(share.node for share in run.allocation.shares if share.node in theirs)
        return f"{now}; {first_of(rest, _NAMED)} {have} turns on {too} too"
    return now if partners else f"{now}, alone"


def _servers_of(found: Explanation, jobs: Sequence[JobId]) -> set[NodeName]:
    """Return the servers on which some jobs hold GPUs."""
    assert found.state is not None, "others are found in a state only"
    return {share.node for each in jobs for share in found.state.jobs[each].held.shares}


def _others(found: Explanation) -> list[JobId]:
    """Return who else takes turns on a job's servers, by submission."""
    run, state = found.last_run, found.state
    if run is None or run.to_us is not None or state is None:
        return []
    nodes = {share.node for share in run.allocation.shares}
    return [
        job.job_id
        for job in state.jobs.values()
        if job.job_id != found.story.job_id
        and job.takes_turns
        and not stands_still(job)
        and not nodes.isdisjoint([share.node for share in job.held.shares])
    ]


def _partners(found: Explanation, others: Sequence[JobId]) -> list[JobId]:
    """Return who has a turn on the very GPUs that the job has now."""
    job, state = found.job, found.state
    if job is None or state is None or found.told_later:
        return []
    return [name for name in others if _is_with(job, state.jobs[name])]


def _is_with(job: Job, other: Job) -> bool:
    if not other.gpus:
        return False
    if job.is_spread or other.is_spread:  # which GPUs of which server a gang has is not kept
        return other.job_id in job.packed_with
    return bool(job.turn_mask & other.turn_mask)


def _skew_in_words(skews_us: list[int]) -> str:
    """Return how far apart the servers of a gang began its turns."""
    if not skews_us:
        return ""
    mean_ms, most_ms = sum(skews_us) / len(skews_us) / 1e3, max(skews_us) / 1e3
    return f"; its servers began them {mean_ms:.3g} ms apart in the mean, {most_ms:.3g} at most"
