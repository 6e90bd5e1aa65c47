"""Why a job waits, in words: the sentences of `REASONS`, with the evidence of an instant."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from shunter.ask.reason_words import REASONS
from shunter.ask.why.explanation import Explanation
from shunter.ask.why.job_events import proposal_rejection_in_words
from shunter.ask.why.present import NAMED, Present
from shunter.ask.why.timeline import is_displacement
from shunter.ask.words import (
    because_in_words,
    clock,
    down_in_words,
    first_of,
    gpus_in_words,
    held_by_others,
    share_in_words,
    split_in_words,
)
from shunter.core import Cluster, Health, JobPhase, Server
from shunter.core.fold import awaited, home_of, out_of_reach
from shunter.counting import counted
from shunter.events import HEIGHT_MOST, JobId, Reason, Wait, facts

# "It needs 1 GPU, and 1 is free" answers nothing, so the answer says who gets free GPUs, or why
# they are kept.


def use_of_free(found: Explanation, evidence: Wait) -> str:
    """Return for what free GPUs are, as a clause; empty: too few, or unknown."""
    present, free = found.present, evidence.free
    if present.starts_us is not None or not 0 < evidence.needed <= free:
        return ""
    at = "" if present.next_plan is None else clock(present.next_plan.at_us)
    said = ""
    grants, admitted = next_grants(found, evidence), _admitted_next(found)
    for gpus, text in (
        (
            present.gpus.kept,
            f"for {first_of(present.gpus.kept_for, NAMED)}, to be placed before it",
        ),
        (sum(grants.values()), f"given to {first_of([*grants], NAMED)} by the plan at {at}"),
        (sum(admitted.values()), f"left to {first_of([*admitted], NAMED)} by the plan at {at}"),
    ):
        taken = min(gpus, free)
        if taken:
            which = "which" if taken == evidence.free else f"{taken} of them"
            said += f", {which} {'is' if taken == 1 else 'are'} {text}"
            free -= taken
    if free >= evidence.needed:
        rest = _kept_back(found, present) or ("" if said else _since_then(found, evidence))
        said += f", {rest}" if rest else ""
    return said or _undecided(found)


def next_grants(found: Explanation, evidence: Wait) -> dict[JobId, int]:
    """Return whom the next plan gives how many of the free GPUs that are counted."""
    plan = found.present.next_plan
    if plan is None:
        return {}
    counted = _counted_type(found, found.there.cluster, evidence.free)
    return {
        grant.job_id: grant.gpus
        for grant in plan.grants
        if grant.gpu_type == counted and grant.job_id != found.story.job_id
    }


def promised_to(found: Explanation) -> JobId | None:
    """Return another job that the policy promised GPUs which this one would outlast."""
    if not found.present.outlasts:
        return None
    promised = found.there.reservations
    return next((each for each in promised if each != found.story.job_id), None)


def idle_elsewhere(found: Explanation, evidence: Wait) -> str:
    """Return where GPUs are idle that do not count and would be enough, as a clause."""
    missing = evidence.needed - evidence.free
    if missing <= 0:
        return ""
    cluster = found.there.cluster
    counted = _counted_type(found, cluster, evidence.free)
    types = found.story.spec.gpu_types
    idle: dict[str, int] = {}
    for server in cluster.servers.values():
        gpus, where = _not_counted(server, counted, types)
        if gpus:
            idle[where] = idle.get(where, 0) + gpus
    if sum(idle.values()) < missing:
        return ""
    return f" (and {', '.join(f'{gpus} {where}' for where, gpus in idle.items())})"


def _admitted_next(found: Explanation) -> dict[JobId, int]:
    """Return the jobs that the next plan lets job schedulers place, with their GPUs."""
    plan = found.present.next_plan
    if plan is None:
        return {}
    types, mine = found.story.spec.gpu_types, found.story.job_id
    jobs = [found.there.jobs[job_id] for job_id in plan.admitted if job_id != mine]
    return {
        job.job_id: job.demand.gpus
        for job in jobs
        if not types or not job.demand.gpu_types or set(types) & set(job.demand.gpu_types)
    }


def _kept_back(found: Explanation, present: Present) -> str:
    """Return for whom what is left is kept: a promise, or the first in line."""
    promised = promised_to(found)
    if promised is not None:
        return f"kept for {promised}, to which GPUs are promised"
    first = present.gpus.holders[0] if present.gpus.holders else None
    job = None if first is None else found.there.jobs.get(first)
    if job is None or job.phase is not JobPhase.waiting:
        return ""
    return f"kept for {first}, which is before it and needs {gpus_in_words(job.demand.gpus)}"


def _since_then(found: Explanation, evidence: Wait) -> str:
    """Return that fewer were free when its reason was recorded; empty: as many were."""
    now = found.waits_now
    if now is None or now.told is None or now.told.at_us >= found.story.at_us:
        return ""
    if not now.wait.needed or now.wait.free >= evidence.needed:
        return ""
    were = "was" if now.wait.free == 1 else "were"
    return f"but {now.wait.free} {were} at {clock(now.told.at_us)}, when that was found"


def _undecided(found: Explanation) -> str:
    """Return when it is decided who gets what is free, where no policy can be asked."""
    rules, present = found.policies.last.rules, found.present
    if present.next_plan is not None:
        return ""
    if rules is None or rules.backend_rounds or not rules.round_us:
        return "; the next round decides who gets them"
    return f"; the round at {clock(rules.grid_at(found.story.at_us))} decides who gets them"


def _counted_type(found: Explanation, cluster: Cluster, free: int) -> str:
    """Return the GPU type of which so many are free, of those that a job accepts."""
    types: Sequence[str] = found.story.spec.gpu_types or list(cluster.pools)
    pools = cluster.pools.items()
    fits = {name for name, pool in pools if pool.gpus_free == free}
    return next((name for name in types if name in fits), "")


def _not_counted(server: Server, counted: str, types: Sequence[str]) -> tuple[int, str]:
    """Return how many idle GPUs of a server do not count for a job, and why."""
    gpu_type = server.configuration.gpu_type
    if server.is_up:
        if gpu_type == counted:
            set_aside = server.quarantined & ~server.decided
            return set_aside.bit_count(), f"set aside on {server.name}"
        if types and gpu_type not in types:
            return server.offered.bit_count(), f"of type {gpu_type}, which it does not accept"
        return server.offered.bit_count(), f"of type {gpu_type}: all have to be of one type"
    if server.health is not Health.up or (types and gpu_type not in types):
        return 0, ""
    idle = server.all_gpus & ~(server.decided | server.unavailable)
    return idle.bit_count(), f"on {server.name}, which is drained"


TASKS_NAMED, RELEASES_NAMED = 8, 8
_ATTEMPT_ENDS = (facts.LaunchFailed, facts.AttemptLost, facts.JobRetried)


def reason_in_words(found: Explanation, evidence: Wait) -> str:
    """Return why a job waits."""
    because = _sentence("because", evidence.reason, found, evidence) or str(evidence.reason)
    cause = _sentence("cause", evidence.reason, found, evidence)
    return f"{because}; {cause}" if cause and found.present.starts_us is None else because


def needs(found: Explanation) -> list[str]:
    """Return what has to happen at least before a job starts, each of it."""
    now, evidence, present = found.waits_now, found.evidence, found.present
    if now is None or evidence is None or present.starts_us is not None:
        return []
    is_unseen = evidence.reason is Reason.node_lost and evidence.detail
    reason = Reason.waiting_for_round if is_unseen else now.wait.reason
    if now.told is not None and present.wait is not None:
        reason = present.wait.reason  # what the next plan will find counts, not what the last did
    return _sentence("needs", reason, found, evidence).splitlines()


def suffices(found: Explanation) -> list[str]:
    """Return what is enough for a job to start, as the planner itself says."""
    starts_us = found.present.starts_us
    if found.waits_now is None or starts_us is None:
        return []
    return [f"nothing changes until the plan at {clock(starts_us)}, which starts it"]


def awaited_in_words(found: Explanation, evidence: Wait) -> str:
    """Return what a job waits for by its reason; empty: who holds its GPUs."""
    return _sentence("waits_for", evidence.reason, found, evidence)


def advice_on(found: Explanation, evidence: Wait) -> tuple[str, str]:
    """Return what to do about a reason (empty: wait), and what else to try."""
    advice = _sentence("to_do", evidence.reason, found, evidence)
    return advice, REASONS[evidence.reason].hint


def _sentence(name: str, reason: Reason, found: Explanation, evidence: Wait) -> str:
    """Return what the row of a reason says under a name, with its evidence in it."""
    row, detail = REASONS[reason], evidence.detail
    differs = row.by_detail.get(detail) or row.by_detail.get("*" if detail else "", {})
    template: str = differs.get(name, getattr(row, name))
    return template.format_map(_Evidence(found, evidence))


class _Evidence(dict[str, object]):
    """The evidence of a wait by its names in the sentences, made where it is named."""

    def __init__(self, found: Explanation, evidence: Wait) -> None:
        super().__init__()
        self._asked = found, evidence

    def __missing__(self, name: str) -> object:
        return _EVIDENCE[name](*self._asked)


_Part = Callable[[Explanation, Wait], object]
_P = TypeVar("_P", bound=_Part)
_EVIDENCE: dict[str, _Part] = {
    "array": lambda found, _: found.story.spec.array,
    "blockers": lambda _, evidence: ", ".join(evidence.blockers) or "others",
    "detail": lambda _, evidence: evidence.detail,
    "free": lambda _, evidence: evidence.free,
    "free_gpus": lambda _, evidence: gpus_in_words(evidence.free),
    "job": lambda found, _: found.story.job_id,
    "needed": lambda _, evidence: evidence.needed,
    "needed_gpus": lambda _, evidence: gpus_in_words(evidence.needed),
    "queue": lambda found, _: found.story.spec.queue,
    "tasks": lambda found, _: counted(found.story.spec.at_once or 1, "task"),
    "to_leave": lambda _, evidence: evidence.needed - evidence.free,
}
"""What makes each name in the sentences: these, and each function that is `_named`."""


def _named(part: _P) -> _P:
    """Let the sentences name what a function returns by the name of the function."""
    _EVIDENCE[part.__name__.removeprefix("_")] = part
    return part


@_named
def _room(found: Explanation, evidence: Wait) -> str:
    """Return what a job needs, finds free, and may preempt."""
    return _room_with(found, evidence, "")


@_named
def _short(found: Explanation, evidence: Wait) -> str:
    """Return the same, with for what free GPUs are that would be enough."""
    words = _room_with(found, evidence, use_of_free(found, evidence))
    starts_us = found.present.starts_us
    return words if starts_us is None else f"{words}; the plan at {clock(starts_us)} starts it"


def _room_with(found: Explanation, evidence: Wait, use: str) -> str:
    is_ = "is" if evidence.free == 1 else "are"
    words = f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} {is_} free"
    words += idle_elsewhere(found, evidence) + use
    behind = found.present.room(evidence.reason).behind
    if not behind:
        return words
    more, is_ = "," if use else "", "is" if behind == 1 else "are"
    return f"{words}{more} and {behind} {is_} held by jobs that it may preempt"


@_named
def _nearness(found: Explanation, _: Wait) -> str:
    """Return how near together the GPUs must be: as the job asks, or its placement."""
    demand = found.story.spec.demand() if found.job is None else found.job.demand
    level, splits = demand.max_level, " or ".join(map(split_in_words, demand.shapes))
    if level is None and splits:
        return f"as {splits}"
    return "on as few servers as could hold it" if level is None else f"within one {level}"


@_named
def _pieces(found: Explanation, _: Wait) -> str:
    """Return the servers with free GPUs."""
    pieces = [
        f"{server.name}:{server.offered.bit_count()}"
        for server in found.there.cluster.servers.values()
        if server.offered
    ]
    more = f" and {len(pieces) - 8} more servers" if len(pieces) > 8 else ""
    return " ".join(pieces[:8]) + more if pieces else "nothing is free now"


@_named
def _quota_used(found: Explanation, _: Wait) -> str:
    """Return who uses the quota, and for whom the rest is kept."""
    queue, room = found.there.queues.get(found.story.spec.queue), found.present.quota
    used = "" if queue is None else f": {queue.gpus} of {queue.quota_gpus} are used"
    if room is not None and room.kept:
        used += f", {room.kept} are kept for {', '.join(room.kept_for[:NAMED])}, which may start"
    return used


@_named
def _quota_now(found: Explanation, evidence: Wait) -> str:
    """Return what the next plan finds where the quota, by now, is enough."""
    present = found.present
    if present.next_plan is None or evidence.free < evidence.needed:
        return ""
    at = f"; that is enough by now, and the plan at {clock(present.next_plan.at_us)}"
    if present.starts_us is not None:
        return f"{at} starts it"
    return f"{at} finds {present.wait.reason}" if present.wait else ""


@_named
def _quota_missing(found: Explanation, _: Wait) -> str:
    return gpus_in_words(max(1, found.present.missing(Reason.quota)))


@_named
def _turns(_: Explanation, evidence: Wait) -> str:
    """Return which tasks of its array have their turn."""
    come = "comes" if len(evidence.blockers) == 1 else "come"
    return f"{first_of(evidence.blockers, TASKS_NAMED) or 'others'} {come}"


@_named
def _last_attempt(found: Explanation, evidence: Wait) -> str:
    """Return what became of the last attempt, after which the next one waits."""
    events = [own.event for own in found.story.own]
    ends = [event for event in events if isinstance(event, (*_ATTEMPT_ENDS, facts.JobSuspended))]
    last = ends[-1] if ends else None
    if last is None:
        return "its last launch failed or was lost, and the next one waits a while"
    at = clock(last.at_us)
    if isinstance(last, facts.LaunchFailed | facts.AttemptLost):
        what = (
            "it was not launched"
            if isinstance(last, facts.LaunchFailed)
            else "its attempt was lost"
        )
        return f"{what} at {at} ({last.cause}), and the next try waits a while"
    if isinstance(last, facts.JobRetried):
        return f"its last attempt failed at {at}, and the next one waits a while"
    if last.cause:
        return f"its last attempt was suspended at {at} ({last.cause}), and the next one waits"
    held = [event for event in events if isinstance(event, facts.JobHeld)]
    again = "again and again, without progress, so the next one waits longer each time"
    code = 75 if last.exit_code is None else last.exit_code
    return (
        f"its last attempt left by itself at {at}, with exit code {code}: "
        f"{again if held and held[-1].until_us is not None else 'the next one waits a while'}"
    )


@_named
def _most_up(found: Explanation, _: Wait) -> str:
    """Return how many GPUs of one type take jobs."""
    one = " of one type" if len(found.there.cluster.pools) > 1 else ""
    return f"{_count_up(found)}{one}"


def _count_up(found: Explanation) -> int:
    types, pools = found.story.spec.gpu_types, found.there.cluster.pools.items()
    return max((pool.gpus_up for name, pool in pools if not types or name in types), default=0)


@_named
def _service(found: Explanation, evidence: Wait) -> str:
    return _down(found, evidence) or "every server is in service"


@_named
def _down(found: Explanation, _: Wait) -> str:
    return down_in_words(found.there.cluster, found.story.spec.gpu_types, found.unheld)


@_named
def _taken(found: Explanation, _: Wait) -> str:
    return _held_by_others(found) or "others hold nothing now"


def _held_by_others(found: Explanation) -> str:
    return held_by_others(found.there.cluster, found.story.spec.gpu_types)


@_named
def _beside(found: Explanation, evidence: Wait) -> str:
    """Return what a job needs beside its GPUs, and what servers have of it."""
    beside = found.present.beside
    held = f"; {_held_by_others(found)}" if found.there.cluster.is_beside_taken else ""
    words = "not with enough CPUs and memory" if beside is None else f"not with {beside.words()}"
    if not found.story.spec.gpus:
        return f"no server has enough: it needs {words.removeprefix('not with ')}{held}"
    return f"{_room(found, evidence)}, but {words}{held}"


@_named
def _share(_: Explanation, evidence: Wait) -> str:
    """Return what a job got of its share, where the policy divides time."""
    parts = evidence.detail.split(":")
    if len(parts) == 4 and parts[0] == "share":
        return share_in_words(parts[1], float(parts[2]), float(parts[3]))
    return "it is others' turn"


@_named
def _unreachable(found: Explanation, evidence: Wait) -> str:
    """Return which servers a job waits for, and what it saved there."""
    job, cluster = found.job, found.there.cluster
    if job is None or not (nodes := awaited(job, cluster)):
        return "its newest checkpoint lies on a server that does not answer"
    place = (job.checkpoints or ())[out_of_reach(job, cluster)]
    step = "" if place.step is None else f", of step {place.step},"
    silent = "is not held" if set(nodes) <= set(found.unheld) else "does not answer"
    return (
        f"its newest checkpoint{step} was saved by attempt {place.attempt} on "
        f"{', '.join(place.nodes)}, and {', '.join(nodes)} {silent}"
    )


@_named
def _silent(found: Explanation, evidence: Wait) -> str:
    return str(_unreachable(found, evidence)).rpartition(", and ")[2]


@_named
def _too_large(found: Explanation, evidence: Wait) -> str:
    """Return where a job's checkpoint is, why it stays there, and what is free there."""
    failures = [own.event for own in found.story.own if isinstance(own.event, facts.LaunchFailed)]
    cause = failures[-1].cause if failures else "it is too large to be copied"
    home = found.job and home_of(found.job, found.there.cluster)
    if not home:
        return cause
    free = home.offered.bit_count() if home.is_up else 0
    words = "is drained" if home.drained else f"has {gpus_in_words(free)} free"
    needed = gpus_in_words(found.story.spec.gpus)
    return f"{cause}; {home.name} {words}, and it needs {needed}"


@_named
def _displaced(found: Explanation, _: Wait) -> str:
    """Return who has the GPUs that a job was to start on."""
    events = [own.event for own in found.story.own if is_displacement(own.event)]
    last = events[-1] if events else None
    assert isinstance(last, facts.AllocationChanged), "a job is displaced by one kind only"
    return because_in_words(last.because)


@_named
def _split(found: Explanation, _: Wait) -> str:
    return "" if found.job is None else "+".join(map(str, found.job.split))


@_named
def _proposal(found: Explanation, _: Wait) -> str:
    """Return what became of the last proposal of a job."""
    last = found.there.proposals.rejections.get(found.story.job_id)
    return "no place was proposed for it yet" if last is None else proposal_rejection_in_words(last)


@_named
def _more_gpus(found: Explanation, evidence: Wait) -> str:
    """Return how many GPUs more must come free."""
    present = found.present
    if evidence.detail == HEIGHT_MOST:
        return "a job ends or leaves a server on which it may take turns, or GPUs come free to it"
    missing = present.missing(Reason.no_capacity)
    if missing <= 0:
        return "a job that ranks before it starts, ends or comes to rank behind it"
    gpus = "1 more GPU comes" if missing == 1 else f"{missing} more GPUs come"
    return f"{gpus} free to it: others before it end, leave or fall behind it, or servers join"


@_named
def _together(found: Explanation, evidence: Wait) -> str:
    spec = found.story.spec
    ways = ["GPUs come free beside those that are, so that it fits"]
    if spec.shapes_accepted:
        ways.append("it accepts another split over servers")
    level = spec.level_max if found.job is None else found.job.demand.max_level
    if level is None and evidence.reason is Reason.locality_not_met:
        ways.append("its model is found to be less skewed, or it says so itself (skew)")
    if level is not None:
        ways.append(f"it accepts to spread further than one {level}")
    return ", or ".join(ways)


@_named
def _round_with_room(found: Explanation, _: Wait) -> str:
    at = _round_at(found)
    return f"the round at {at}, or a later one," if at else "the next round"


@_named
def _as_things_are(found: Explanation, _: Wait) -> str:
    wait = found.present.wait
    return (
        f"; as things are it would wait there: {wait.reason}" if wait and _round_at(found) else ""
    )


@_named
def _next_round(found: Explanation, _: Wait) -> str:
    at = _round_at(found)
    return f"the round at {at}" if at else "the next round"


def _round_at(found: Explanation) -> str:
    """Return when the next round is; empty: nobody knows."""
    rules = found.policies.last.rules
    if rules is None or rules.backend_rounds or not rules.round_us:
        return ""
    return clock(rules.grid_at(found.story.at_us))


def _is_for_launches(found: Explanation) -> bool:
    """Say whether what keeps jobs is their launch: no runtime is configured."""
    rules = found.policies.last.rules
    return rules is not None and not rules.guards.min_runtime_us


@_named
def _keep(found: Explanation, _: Wait) -> str:
    """Return what others do whom a guard keeps in place."""
    if _is_for_launches(found):
        return "keep what they were given until they start"
    return "may not be preempted yet (min_runtime)"


@_named
def _runtime_ends(found: Explanation, evidence: Wait) -> str:
    if _is_for_launches(found):
        return "jobs that were given GPUs start there"
    return _guard_ends(found, evidence)


@_named
def _guard_ends(found: Explanation, _: Wait) -> str:
    pinned = found.present.pinned[:1]
    first = [f"a guard ends, the first at {clock(until_us)}: {job}" for job, until_us in pinned]
    return first[0] if first else "a job that may not be preempted ends"


@_named
def _others_end(found: Explanation, _: Wait) -> str:
    """Return how each job has to end that has not, on lines of their own."""
    return "\n".join(
        f"{each.job_id} ends {'well' if each.when == 'ok' else 'in whatever way'}"
        for each in found.story.spec.depends_on
        if each.job_id in found.there.jobs
    )


@_named
def _bring_back(found: Explanation, _: Wait) -> str:
    """Return how servers and GPUs that are out of service get back to work."""
    servers = found.there.cluster.servers.values()
    drained = [each.name for each in servers if each.drained and each.health is Health.up]
    aside = [each for each in servers if each.is_up and each.quarantined]
    ways = []
    if drained:
        ways.append(f"`shunter nodes restore {drained[0]}`")
    if aside:
        gpus = [
            f"`shunter nodes release '{each.name}[{gpu}]'`"
            for each in aside
            for gpu in range(each.configuration.gpus)
            if each.quarantined >> gpu & 1
        ]
        ways.append(first_of(gpus, RELEASES_NAMED))
    silent = [each for each in servers if each.health in (Health.lost, Health.unreachable)]
    if any(each.name in found.unheld for each in silent):
        ways.append("wait until Slurm gives nodes (`shunter nodes` says since when it is asked)")
    if any(each.name not in found.unheld for each in silent):
        ways.append("bring back what does not answer (`shunter doctor` says why)")
    return ", ".join([*ways, "or add servers"]) if ways else "add servers"


def _last_hold(found: Explanation) -> facts.JobHeld | None:
    holds = [own.event for own in found.story.own if isinstance(own.event, facts.JobHeld)]
    return holds[-1] if holds else None


@_named
def _held(found: Explanation, evidence: Wait) -> str:
    event = _last_hold(found)
    if event is None:
        return "it is on hold"
    return f"it was put on hold{f' by {event.by}' if event.by else ''} at {clock(event.at_us)}"


@_named
def _holder(found: Explanation, _: Wait) -> str:
    """Return who put it on hold, and has to let it go."""
    event = _last_hold(found)
    return (event and event.by) or "somebody"


@_named
def _back_at(found: Explanation, _: Wait) -> str:
    """Return when its wait between two launches is over."""
    until_us = None if found.job is None else found.job.back_at_us
    return "" if until_us is None else f" at {clock(until_us)}"


@_named
def _next_attempt(found: Explanation, evidence: Wait) -> str:
    return ",".join(["its next attempt", *filter(None, [_back_at(found, evidence)])])


@_named
def _logs(found: Explanation, _: Wait) -> str:
    """Return where to read how it left; empty: its last attempt never began."""
    kinds = (facts.LaunchFailed, facts.AttemptStarted)
    last = [each.event for each in found.story.own if isinstance(each.event, kinds)][-1:]
    if last and isinstance(last[0], facts.LaunchFailed):
        return ""
    return f"`shunter logs {found.story.job_id}` says how it left; "


@_named
def _home(found: Explanation, _: Wait) -> str:
    """Return the server with a checkpoint that is too large to be copied."""
    return (found.job and found.job.stays_on) or "the server that has it"


@_named
def _holders_outside(found: Explanation, _: Wait) -> str:
    return _held_by_others(found).replace("others hold", "those who hold", 1)


@_named
def _over(found: Explanation, evidence: Wait) -> str:
    """Return how many GPUs too many others hold."""
    return gpus_in_words(max(1, evidence.needed - _count_up(found)))


@_named
def _types(found: Explanation, _: Wait) -> str:
    types = " or ".join(found.story.spec.gpu_types)
    return f" of type {types}" if types else ""


@_named
def _there(found: Explanation, evidence: Wait) -> str:
    """Return the blockers that have not ended."""
    jobs = found.there.jobs
    return ", ".join(each for each in evidence.blockers if each in jobs) or "other jobs"
