"""Instants, facts and rejections in words: the one place where what a log says becomes text."""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from shunter.core import (
    EVEN_WHEN_EMPTY,
    MAKE_ROOM,
    ROOM_MADE,
    Cluster,
    Health,
    Queue,
    Server,
    State,
)
from shunter.core.speeds import has_learnt_floor
from shunter.counting import counted
from shunter.errors import RefusedError, UsageError
from shunter.events import (
    DISPLACED,
    GROWS,
    LOST,
    SHRINKS,
    STARTS_SMALLER,
    Allocation,
    Because,
    ClassWait,
    Demand,
    Event,
    JobSpec,
    NodeName,
    Reason,
    Resources,
    Share,
    Sharing,
    facts,
)

if TYPE_CHECKING:
    from shunter.core import Admission, Refusal

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


def stamp(seq: int, at_us: int) -> dict[str, object]:
    """Return the number of an event and its instant, as every document names them."""
    return {"seq": seq, "at_us": at_us, "time": clock(at_us)}


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


DOWN_NAMED = 8
_HEALTH = {
    "drained": "is drained",
    "unreachable": "does not answer",
    "lost": "is lost",
    "up": "is up",
}

_SIZES = {
    GROWS: "grows from {before} to {after}, for nobody waits and they were idle",
    SHRINKS: "shrinks from {before} to {after}",
    STARTS_SMALLER: "starts with {after} instead of {before}, for there is no room for all",
}
"""How plans that give jobs other sizes are told, by their rules."""

_ROOM = {MAKE_ROOM: "moved to make room", ROOM_MADE: "others were moved to make room"}
"""How moves for a gang and its start are told, by their rules."""


def allocation_in_words(allocation: Allocation, most: int | None = None) -> str:
    """Return where an allocation is: `gpu1[0-3] gpu2[0]`; servers alone for CPU jobs.

    `most` is how many servers are named; None: all of them.
    """
    shares = allocation.shares
    words = " ".join(_share(share) for share in shares[:most]) or "nothing"
    hidden = 0 if most is None else len(shares) - most
    return f"{words} and {hidden} more" if hidden > 0 else words


def first_of(parts: Sequence[str], most: int) -> str:
    """Return the first few of several: `a, b and 2 more`."""
    hidden = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def gpus_in_words(gpus: int) -> str:
    """Return a number of GPUs as people say it."""
    return counted(gpus, "GPU")


def split_in_words(split: Sequence[int]) -> str:
    """Return how many GPUs a gang has on each server: `2+1`."""
    return "+".join(map(str, split))


def resources_in_words(gpus: float, cpus: float, memory_mb: float) -> str:
    """Return GPUs, CPUs and MB as people say them, without what is 0."""
    parts = [gpus_in_words(int(gpus))] if gpus else []
    parts += [counted(cpus, "CPU")] if cpus else []
    parts += [f"{memory_mb:g} MB"] if memory_mb else []
    *first, last = parts or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def held_by_others(cluster: Cluster, gpu_types: Sequence[str] = ()) -> str:
    """Return what others hold of servers that take jobs, if anything.

    `gpu_types` are those that count; none: all.
    """
    parts = [
        f"{resources_in_words(server.taken.bit_count(), cpus, server.taken_memory_mb)} "
        f"of {server.name}"
        for server in cluster.servers.values()
        if server.is_up and server.is_partly_taken
        if not gpu_types or server.configuration.gpu_type in gpu_types
        for cpus in (server.taken_cpus_milli / 1000,)
    ]
    return f"others hold {first_of(parts, DOWN_NAMED)}" if parts else ""


def demand_in_words(demand: Demand) -> str:
    """Return what a class of equal jobs asks for."""
    parts = [gpus_in_words(demand.gpus)]
    if demand.gpu_types:
        parts.append(f"of type {' or '.join(demand.gpu_types)}")
    if demand.cpus_milli:
        parts.append(counted(demand.cpus_milli / 1000, "CPU"))
    if demand.memory_mb:
        parts.append(f"{demand.memory_mb} MB")
    if demand.max_level is not None:
        parts.append(f"within one {demand.max_level}")
    if demand.tight:
        parts.append("on the fewest servers")
    if demand.keeps_split:
        parts.append("in the split of its checkpoints")
    if demand.shapes:
        parts.append("as " + " or ".join(map(split_in_words, demand.shapes)))
    if demand.queue:
        parts.append(f"in queue {demand.queue}")
    return ", ".join(parts)


def share_in_words(gpu_type: str, target: float, received: float) -> str:
    """Return what a job got of a GPU type, and what it was to get."""
    kind = f" of {gpu_type}" if gpu_type else ""
    if not target:
        return f"got a {received:.2f} share{kind} where it was to have none"
    return f"got a {received:.2f} share{kind} where it was to have {target:.2f}"


def names_partners(because: Because) -> bool:
    """Say whether those named gain nothing, but share the job's GPUs."""
    return because.rule.endswith("_beside")


def tells_itself(because: Because) -> bool:
    """Say whether the rule says what its scores are, whatever the policy counts by."""
    return bool(because.detail) or because.rule in (DISPLACED.rule, *_SIZES, *_ROOM)


def because_in_words(because: Because, score: str = "") -> str:
    """Return the rule with its scores, and who gains.

    `score` is what the scores say of the job, as a clause without a subject; empty: nobody can
    tell, and the numbers stand for themselves.
    """
    if because.rule == DISPLACED.rule:
        gainers = ", ".join(because.beneficiaries)
        if gainers and because.detail:
            return f"{gainers} keeps CPUs or memory of {because.detail} that it was to give up"
        if gainers:
            return f"Slurm gave its GPUs to {gainers}"
        where = f" of {because.detail}" if because.detail else ""
        held = resources_in_words(*because.scores) if len(because.scores) == 3 else "its GPUs"
        return f"others hold {held}{where}"
    if because.rule in _SIZES:
        return _size_in_words(because)
    if because.rule in _ROOM and len(because.scores) == 2:
        return _room_in_words(because)
    if because.detail and len(because.scores) == 2:
        target, received = because.scores
        rule = because.rule.replace("_", " ")
        if names_partners(because):
            rule = f"{rule} {', '.join(because.beneficiaries)}"
        return f"{rule}, {share_in_words(because.detail, target, received)}"
    scores = ", ".join(f"{number:g}" for number in because.scores)
    word = "beside" if names_partners(because) else "for"
    gain = f", {word} {', '.join(because.beneficiaries)}" if because.beneficiaries else ""
    if score:
        return f"{because.rule}, because it {score}{gain}"
    return f"{because.rule} ({scores}){gain}" if scores else because.rule + gain


def _size_in_words(because: Because) -> str:
    """Return why a plan gave a job another size, and for whom."""
    before, after = (gpus_in_words(round(score)) for score in because.scores)
    gain = f", for {', '.join(because.beneficiaries)}" if because.beneficiaries else ""
    return _SIZES[because.rule].format(before=before, after=after) + gain


def _room_in_words(because: Because) -> str:
    """Return that jobs were moved for a gang, what that gains and what it costs."""
    gain, cost = because.scores
    whom = f" for {', '.join(because.beneficiaries)}" if because.beneficiaries else ""
    return (
        f"{_ROOM[because.rule]}{whom}, which saves {gain:g} GPU-seconds of waiting as far as can "
        f"be told, and costs {cost:g}"
    )


def down_in_words(
    cluster: Cluster, gpu_types: Sequence[str] = (), unheld: Collection[NodeName] = ()
) -> str:
    """Return what is out of service and how: drained, lost, held by others.

    `gpu_types` are those that count; none: all. `unheld` are nodes that Slurm has not given, of
    which no answer is expected. Empty where everything is in service.
    """
    parts: list[str] = []
    for server in cluster.servers.values():
        gpu_type = server.configuration.gpu_type
        if server.health is Health.removed or (gpu_types and gpu_type not in gpu_types):
            continue
        if not server.is_up:
            is_drained = server.drained and server.health is Health.up
            health = _HEALTH["drained" if is_drained else server.health]
            is_unheld = server.name in unheld and not is_drained
            parts.append(f"{server.name} {'is not held' if is_unheld else health}")
        else:
            parts += _unavailable(server)
    return first_of(parts, DOWN_NAMED)


def _unavailable(server: Server) -> list[str]:
    """Return which GPUs of a server that is up take no jobs, and why."""
    parts: list[str] = []
    if server.quarantined:
        parts.append(f"GPU {_ranges(server.quarantined)} of {server.name} is set aside")
    if server.taken:
        parts.append(f"GPU {_ranges(server.taken)} of {server.name} is held by others")
    return parts


def discarded_in_words(event: facts.CheckpointDiscarded) -> str:
    """Return what a job goes on without, and why."""
    step = "" if event.step is None else f" of step {event.step}"
    nodes = ", ".join(event.nodes)
    why = f"{nodes} was lost" if event.cause == LOST else f"{event.by or 'somebody'} gave it up"
    return (
        f"the checkpoint{step} that attempt {event.attempt} saved on {nodes} was discarded at "
        f"{clock(event.at_us)}: {why}"
    )


def warning_in_words(event: facts.JobWarned) -> str:
    """Return what the owner of a job was warned of, by which attempt."""
    step = "" if event.step is None else f", step {event.step}"
    return f"{event.text} (attempt {event.attempt}{step}, at {clock(event.at_us)})"


def fact_in_words(event: Event | None, score: str = "") -> str:
    """Return a decision in one line; `score` is what its scores say."""
    if event is None:
        return "no such decision"
    if score and isinstance(event, facts.AllocationChanged):
        return _allocated(event, score)
    words = _WORDS.get(type(event))
    return words(event) if words else f"{type(event).__name__} at {clock(event.at_us)}"


def attempt_end_in_words(event: Event) -> str:
    """Return what ended an attempt, by the fact that ended it, which is no decision."""
    words = _ENDS.get(type(event))
    return words(event) if words else "left its servers"


def _share(share: Share) -> str:
    if not share.gpu_mask:
        return share.node
    return f"{share.node}[{_ranges(share.gpu_mask)}]"


def _ranges(mask: int) -> str:
    """Return the set bits of a mask as ranges: 0b10111 is 0-2,4."""
    parts: list[str] = []
    bit = 0
    while mask >> bit:
        if not mask >> bit & 1:
            bit += 1
            continue
        first = bit
        while mask >> (bit + 1) & 1:
            bit += 1
        parts.append(str(first) if first == bit else f"{first}-{bit}")
        bit += 1
    return ",".join(parts)


def _allocated(event: facts.AllocationChanged, score: str = "") -> str:
    where = event.allocation
    what = f"place {event.job_id} -> {allocation_in_words(where)}"
    if not where.shares:
        what = f"take everything from {event.job_id}"
    words = because_in_words(event.because, score)
    return f"{what}: {words}" if score else f"{what}, because {words}"


def _reshaped(event: facts.JobReshaped) -> str:
    if event.allocation.sharing is Sharing.sliced:
        where = allocation_in_words(event.allocation)
        return (
            f"give {event.job_id} {where} for its turns, because {because_in_words(event.because)}"
        )
    has = sum([share.beside for share in event.allocation.shares], Resources())
    amounts = resources_in_words(0, has.cpus_milli / 1000, has.memory_mb)
    return f"give {event.job_id} {amounts}, because {because_in_words(event.because)}"


def _tried(event: facts.TrialStarted) -> str:
    beside = f" beside {', '.join(event.partners)}" if event.partners else ""
    return f"try to {event.trial} {event.job_id}{beside}, from {_number(event.baseline)} in all"


def _number(value: object) -> str:
    """Return a number in few digits; what is none, in an edited log, as it is."""
    return f"{value:.4g}" if isinstance(value, int | float) else repr(value)


def _judged(event: facts.TrialKept | facts.TrialReverted) -> str:
    what = "keep" if isinstance(event, facts.TrialKept) else "undo"
    measured = _number(event.measured)
    return f"{what} what was tried of {event.job_id}: {event.reason} ({measured} in all)"


def _sized(event: facts.SizesSet) -> str:
    jobs = counted(len(event.sizes), "job")
    what = f"size {jobs}: {event.speed:.4g} of at most {event.bound:.4g} in speed"
    return what if event.status == "ok" else f"{what} ({event.status})"


def _planned(event: facts.RoundPlanned) -> str:
    waits = "; ".join(_class_wait(entry) for entry in event.waits)
    return f"round {event.number} at {clock(event.at_us)} by {event.trigger}" + (
        f", waits: {waits}" if waits else ""
    )


def _class_wait(entry: ClassWait) -> str:
    demand = demand_in_words(entry.demand)
    if entry.wait is None:
        return f"{demand}: none left"
    return f"{demand}: {entry.wait.reason} (free {entry.wait.free})"


def _reserved(event: facts.ReservationSet) -> str:
    if event.start_us is None:
        return f"withdraw the promise to {event.job_id}"
    return f"promise {gpus_in_words(event.gpus)} to {event.job_id} from {clock(event.start_us)}"


_WORDS: dict[type[Event], Callable[[Any], str]] = {
    facts.AllocationChanged: _allocated,
    facts.JobReshaped: _reshaped,
    facts.TrialStarted: _tried,
    facts.TrialKept: _judged,
    facts.TrialReverted: _judged,
    facts.RoundPlanned: _planned,
    facts.ReservationSet: _reserved,
    facts.GangProposed: lambda event: (
        f"propose {counted(len(event.candidates), 'place')} for {event.job_id}, seen at "
        f"e{event.version}"
    ),
    facts.GangApproved: lambda event: (
        f"approve place {event.choice + 1} proposed for {event.job_id}"
    ),
    facts.GangRejected: lambda event: (
        f"reject what was proposed for {event.job_id}: {event.reason} ({event.detail})"
    ),
    facts.PlanRejected: lambda event: (
        f"refuse {event.rule} for {event.job_id}: {event.reason} ({event.detail})"
    ),
    facts.PolicySetAside: lambda event: f"set the policy {event.policy} aside: {event.cause}",
    facts.JobWarned: lambda event: f"warn the owner of {event.job_id}: {event.text}",
    facts.WaitReasonChanged: lambda event: f"{event.job_id} waits: {event.wait.reason}",
    facts.TargetsSet: lambda event: f"set {len(event.targets)} target shares",
    facts.SizesSet: _sized,
    facts.SensitivityCorrected: lambda event: (
        f"correct the table: {event.model} at {counted(event.cpus_milli / 1000, 'CPU')} and "
        f"{event.memory_mb} MB for each GPU is {event.measured:.3g} times as fast as with its "
        f"proportional share, not {event.expected:.3g}"
    ),
    facts.ToleranceLearnt: lambda event: (
        f"learn of {event.model}: {split_in_words(event.split)} of {event.gpu_type} within one "
        f"{event.level} take {event.batch_us / 1e3:.4g} ms for a mini-batch"
    ),
    facts.JobRejected: lambda event: f"reject {event.job_id}: {event.reason} ({event.detail})",
    facts.JobCancelled: lambda event: f"cancel {event.job_id}: {event.cause}",
}

_ENDS: dict[type[Event], Callable[[Any], str]] = {
    facts.AttemptLost: lambda event: f"lost: {event.cause}",
    facts.LaunchFailed: lambda event: f"lost: {event.cause}",
    facts.JobSuspended: lambda event: (
        f"suspended: {event.cause}" if event.cause else "left by itself"
    ),
    facts.JobRetried: lambda _: "failed, to be tried again",
    facts.JobFinished: lambda _: "finished",
    facts.JobFailed: lambda event: " ".join(
        ["failed:", event.cause, *([] if event.exit_code is None else [str(event.exit_code)])]
    ),
    facts.JobCancelled: lambda event: f"cancelled: {event.cause}" if event.cause else "cancelled",
}


# Why a job can never run here. The recorded numbers count GPUs; where something else is short,
# words made from them would be wrong, so they are made from the request and the servers.

Rejection: TypeAlias = "facts.JobRejected | Refusal"
"""What is recorded of a rejection, or was found of a job that was only tried."""


def is_short_when_empty(told: Rejection) -> bool:
    """Say whether a job does not fit although there are enough GPUs."""
    return told.detail.startswith(EVEN_WHEN_EMPTY)


def rejection_in_words(told: Rejection, spec: JobSpec | None, cluster: Cluster | None) -> str:
    """Return why a job can never run here.

    Args:
        told: what is recorded.
        spec: what the job asked for, if it is known.
        cluster: the servers of then, if they are known.
    """
    if not is_short_when_empty(told) or spec is None:
        needs = gpus_in_words(told.needed)
        numbers = f"it needs {needs}, and there are {told.most}" if told.needed else ""
        detail = f"({told.detail})" if numbers and told.detail else told.detail
        return " ".join(part for part in (numbers, detail) if part)
    short = told.detail.removeprefix(EVEN_WHEN_EMPTY)
    servers = [] if cluster is None else _accepted(spec, cluster)
    if short == Reason.cpu_or_memory_short:
        return _beside(spec, servers)
    if has_learnt_floor(spec) and spec.max_level is None:
        return (
            f"it needs {gpus_in_words(spec.gpus)} where gangs of {spec.model} reach its floor of "
            f"{spec.min_speed:g}, by what they measured, and none are so, even when empty"
        )
    if short == Reason.locality_not_met:
        most = max((server.configuration.gpus for server in servers), default=0)
        near = "near together" if spec.level_max is None else f"within one {spec.level_max}"
        there = f"; the most in one server are {most}" if servers else ""
        return (
            f"it needs {gpus_in_words(spec.gpus)} {near}, and none are so, even when empty{there}"
        )
    splits = " or ".join(map(split_in_words, spec.shapes_accepted)) or "it asks"
    gpus = gpus_in_words(spec.gpus)
    return f"it needs {gpus} split as {splits}, and no servers can be split so, even when empty"


def refuse_impossible(spec: JobSpec, state: State, admission: "Admission") -> None:
    """Raise RefusedError if a job can never run here, as the core would reject it."""
    queue = state.queues.get(spec.queue) or Queue(spec.queue)
    refusal = admission.refusal(state.demand_of(spec), spec.user, queue)
    if refusal is not None:
        why = rejection_in_words(refusal, spec, state.cluster)
        if spec.gpu_types and not refusal.most and refusal.needed:
            servers = state.cluster.servers.values()
            types = sorted({server.configuration.gpu_type for server in servers})
            why += f"; types are {', '.join(types)}"
        raise RefusedError(f"it can never run here: {refusal.reason}: {why}")


def _beside(spec: JobSpec, servers: list[Server]) -> str:
    """Return what a job needs beside its GPUs, and the most that a server has of it."""
    needs, most = [], []
    if spec.cpus_milli:
        needs.append(counted(spec.cpus_milli / 1000, "CPU"))
        cpus = max((server.configuration.cpus_milli for server in servers), default=0)
        most.append(counted(cpus / 1000, "CPU"))
    if spec.memory_mb:
        needs.append(f"{spec.memory_mb} MB of memory")
        memory = max((server.configuration.memory_mb for server in servers), default=0)
        most.append(f"{memory} MB")
    beside = f"{gpus_in_words(spec.gpus)} with " if spec.gpus else ""
    there = f"; the most that one has is {' and '.join(most)}" if servers else ""
    return (
        f"it needs {beside}{' and '.join(needs)}, and no server could give that, "
        f"even when empty{there}"
    )


def _accepted(spec: JobSpec, cluster: Cluster) -> list[Server]:
    """Return the servers with GPUs of a type that a job accepts; for a CPU job, all."""
    return [
        server
        for server in cluster.servers.values()
        if server.health is not Health.removed
        and (not spec.gpus or server.configuration.gpus)
        and (not spec.gpu_types or server.configuration.gpu_type in spec.gpu_types)
    ]
