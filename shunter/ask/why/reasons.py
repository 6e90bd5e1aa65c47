"""Why a job waits, in words: one table of reasons, with what each needs and what to do about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    rules, present = found.rules, found.present
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


TASKS_NAMED = 8
_ATTEMPT_ENDS = (facts.LaunchFailed, facts.AttemptLost, facts.JobRetried)

Said = Callable[[Explanation, Wait], str] | str
"""A sentence about a wait, or what makes one of its numbers."""

TRY = "`--counterfactuals` tries what would start it now"
_PROPOSE = "nothing where the scheduler itself proposes; else see that its job scheduler runs"


@dataclass(frozen=True)
class _Words:
    """What is said of a reason to wait.

    `because` says why a job waits, with the numbers of the instant that is asked for. `needs` are
    necessary: none of them promises a start. `waits_for` is who or what brings them about (empty:
    whoever holds what the job needs), `to_do` what somebody can do (empty: wait, or the `hint`).
    """

    because: Said
    needs: Callable[[Explanation, Wait], list[str]] | str = ""
    waits_for: Said = ""
    to_do: Said = ""
    hint: str = TRY


def reason_in_words(found: Explanation, evidence: Wait) -> str:
    """Return why a job waits."""
    words = _WORDS.get(evidence.reason)
    return str(evidence.reason) if words is None else _said(words.because, found, evidence)


def needs(found: Explanation) -> list[str]:
    """Return what has to happen at least before a job starts, each of it."""
    now, evidence, present = found.waits_now, found.evidence, found.present
    if now is None or evidence is None or present.starts_us is not None:
        return []
    is_unseen = evidence.reason is Reason.node_lost and evidence.detail
    reason = Reason.waiting_for_round if is_unseen else now.wait.reason
    if now.told is not None and present.wait is not None:
        reason = present.wait.reason  # what the next plan will find counts, not what the last did
    words = _WORDS.get(reason)
    if words is None or not words.needs:
        return []
    return [words.needs] if isinstance(words.needs, str) else words.needs(found, evidence)


def suffices(found: Explanation) -> list[str]:
    """Return what is enough for a job to start, as the planner itself says."""
    starts_us = found.present.starts_us
    if found.waits_now is None or starts_us is None:
        return []
    return [f"nothing changes until the plan at {clock(starts_us)}, which starts it"]


def awaited_in_words(found: Explanation, evidence: Wait) -> str:
    """Return what a job waits for by its reason; empty: who holds its GPUs."""
    words = _WORDS.get(evidence.reason)
    return "" if words is None else _said(words.waits_for, found, evidence)


def advice_on(found: Explanation, evidence: Wait) -> tuple[str, str]:
    """Return what to do about a reason (empty: wait), and what else to try."""
    words = _WORDS.get(evidence.reason)
    if words is None:
        return "", TRY
    is_unseen = evidence.reason is Reason.node_lost and evidence.detail
    return "" if is_unseen else _said(words.to_do, found, evidence), words.hint


def _said(words: Said, found: Explanation, evidence: Wait) -> str:
    return words if isinstance(words, str) else words(found, evidence)


def _room(found: Explanation, evidence: Wait, use: str = "") -> str:
    """Return what a job needs, finds free and for whom, and may preempt."""
    is_ = "is" if evidence.free == 1 else "are"
    words = f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} {is_} free"
    words += idle_elsewhere(found, evidence) + use
    behind = found.present.room(evidence.reason).behind
    more = "," if use else ""
    return f"{words}{more} and {behind} with jobs that it may preempt" if behind else words


def _short(found: Explanation, evidence: Wait) -> str:
    """Return the same, with for what free GPUs are that would be enough."""
    words = _room(found, evidence, use_of_free(found, evidence))
    starts_us = found.present.starts_us
    return words if starts_us is None else f"{words}; the plan at {clock(starts_us)} starts it"


def _short_since(found: Explanation, evidence: Wait, cause: str) -> str:
    """Return the same with its cause, unless the next plan starts the job."""
    words = _short(found, evidence)
    return words if found.present.starts_us is not None else f"{words}; {cause}"


def _nearness(found: Explanation) -> str:
    """Return how near together the GPUs must be: as the job asks, or its placement."""
    demand = found.story.spec.demand() if found.job is None else found.job.demand
    level, splits = demand.max_level, " or ".join(map(split_in_words, demand.shapes))
    if level is None and splits:
        return f"as {splits}"
    return "on as few servers as could hold it" if level is None else f"within one {level}"


def _pieces(found: Explanation) -> str:
    """Return the servers with free GPUs."""
    pieces = [
        f"{server.name}:{server.offered.bit_count()}"
        for server in found.there.cluster.servers.values()
        if server.offered
    ]
    more = f" and {len(pieces) - 8} more servers" if len(pieces) > 8 else ""
    return " ".join(pieces[:8]) + more if pieces else "nothing is free now"


def _quota(found: Explanation, evidence: Wait) -> str:
    name = found.story.spec.queue
    queue = found.there.queues.get(name)
    used = "" if queue is None else f": {queue.gpus} of {queue.quota_gpus} are used"
    room = found.present.quota
    if room is not None and room.kept:
        used += f", {room.kept} are kept for {', '.join(room.kept_for[:NAMED])}, which may start"
    words = f"queue {name} has {gpus_in_words(evidence.free)} of its quota left, "
    return f"{words}it needs {evidence.needed}{used}{_quota_now(found, evidence)}"


def _quota_now(found: Explanation, evidence: Wait) -> str:
    """Return what the next plan finds where the quota, by now, is enough."""
    present = found.present
    if present.next_plan is None or evidence.free < evidence.needed:
        return ""
    at = f"; that is enough by now, and the plan at {clock(present.next_plan.at_us)}"
    if present.starts_us is not None:
        return f"{at} starts it"
    return f"{at} finds {present.wait.reason}" if present.wait else ""


def _array(found: Explanation, evidence: Wait) -> str:
    """Return how many tasks of its array may run at once, and which have their turn."""
    spec, turns = found.story.spec, first_of(evidence.blockers, TASKS_NAMED) or "others"
    come = "comes" if len(evidence.blockers) == 1 else "come"
    tasks = counted(spec.at_once or 1, "task")
    return f"{tasks} of array {spec.array} may run at once, and {turns} {come} first"


def _backing_off(found: Explanation, evidence: Wait) -> str:
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
    return (
        f"its last attempt left by itself at {at}, with exit code 75: "
        f"{again if held and held[-1].until_us is not None else 'the next one waits a while'}"
    )


def _lost(found: Explanation, evidence: Wait) -> str:
    """Return which servers are out of service, and how; or which attempt was lost."""
    if evidence.detail:
        return f"its last attempt was lost ({evidence.detail}), and no round has looked at it since"
    cluster, types = found.there.cluster, found.story.spec.gpu_types
    down = down_in_words(cluster, types, found.unheld) or "every server is in service"
    one = " of one type" if len(cluster.pools) > 1 else ""
    up = _most_up(cluster, types)
    return f"it needs {gpus_in_words(evidence.needed)}, and {up}{one} are in service: {down}"


def _most_up(cluster: Cluster, types: Sequence[str]) -> int:
    """Return the most GPUs of one type that take jobs."""
    pools = cluster.pools.items()
    return max((pool.gpus_up for name, pool in pools if not types or name in types), default=0)


def _taken(found: Explanation, evidence: Wait) -> str:
    """Return how many GPUs are not in the hands of others, and what these hold."""
    cluster, types = found.there.cluster, found.story.spec.gpu_types
    one = " of one type" if len(cluster.pools) > 1 else ""
    held = held_by_others(cluster, types) or "others hold nothing now"
    return (
        f"it needs {gpus_in_words(evidence.needed)}, and beside what others hold there are "
        f"{_most_up(cluster, types)}{one}: {held}"
    )


def _beside(found: Explanation, evidence: Wait) -> str:
    """Return what a job needs beside its GPUs, and what servers have of it."""
    spec, held = found.story.spec, ""
    if found.there.cluster.is_beside_taken:
        held = f"; {held_by_others(found.there.cluster, spec.gpu_types)}"
    beside = found.present.beside
    words = "not with enough CPUs and memory" if beside is None else f"not with {beside.words()}"
    if not spec.gpus:
        return f"no server has enough: it needs {words.removeprefix('not with ')}{held}"
    return f"{_room(found, evidence)}, but {words}{held}"


def _shared(found: Explanation, evidence: Wait) -> str:
    """Return what a job got of its share, where the policy divides time."""
    before = "it is others' turn"
    parts = evidence.detail.split(":")
    if len(parts) == 4 and parts[0] == "share":
        before = share_in_words(parts[1], float(parts[2]), float(parts[3]))
    return f"{before}; {_short(found, evidence)}"


def _checkpoint_unreachable(found: Explanation, evidence: Wait) -> str:
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


def _checkpoint_stays(found: Explanation, evidence: Wait) -> str:
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


def _displaced(found: Explanation, evidence: Wait) -> str:
    """Return who has the GPUs that a job was to start on."""
    events = [own.event for own in found.story.own if is_displacement(own.event)]
    last = events[-1] if events else None
    assert isinstance(last, facts.AllocationChanged), "a job is displaced by one kind only"
    return f"{because_in_words(last.because)}, and no round has looked at it since"


def _split_kept(found: Explanation, evidence: Wait) -> str:
    """Return the split over servers that a job keeps."""
    split = "" if found.job is None else "+".join(map(str, found.job.split))
    return (
        f"it needs {gpus_in_words(evidence.needed)}, and {evidence.free} are free for it, but not "
        f"as {split} a server, the split over servers that its checkpoints are of"
    )


def _proposed(found: Explanation, evidence: Wait) -> str:
    """Return that the order lets a job start, and what became of its last proposal."""
    lets = "the order lets it start"
    last = found.there.proposals.rejections.get(found.story.job_id)
    if last is None:
        return f"{lets}, and no place was proposed for it yet"
    return f"{lets}, and {proposal_rejection_in_words(last)}"


def _more_gpus(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs more must come free."""
    present = found.present
    if evidence.detail == HEIGHT_MOST:
        return ["a job ends or leaves a server on which it may take turns, or GPUs come free to it"]
    missing = present.missing(Reason.no_capacity)
    if missing <= 0:
        return ["a job that ranks before it starts, ends or comes to rank behind it"]
    gpus = "1 more GPU comes" if missing == 1 else f"{missing} more GPUs come"
    return [f"{gpus} free to it: others before it end, leave or fall behind it, or servers join"]


def _together(found: Explanation, evidence: Wait) -> list[str]:
    spec = found.story.spec
    ways = ["GPUs come free beside those that are, so that it fits"]
    if spec.shapes_accepted:
        ways.append("it accepts another split over servers")
    level = spec.level_max if found.job is None else found.job.demand.max_level
    if level is None and evidence.reason is Reason.locality_not_met:
        ways.append("its model is found to be less skewed, or it says so itself (skew)")
    if level is not None:
        ways.append(f"it accepts to spread further than one {level}")
    return [", or ".join(ways)]


def _next_round(found: Explanation, evidence: Wait) -> list[str]:
    rules, present = found.rules, found.present
    if rules is None or rules.backend_rounds or not rules.round_us:
        return ["the next round finds room for it"]
    at = clock(rules.grid_at(found.story.at_us))
    wait = present.wait
    why = f"; as things are it would wait there: {wait.reason}" if wait else ""
    return [f"the round at {at}, or a later one, finds room for it{why}"]


def _wait_ends(found: Explanation, evidence: Wait) -> list[str]:
    """Return until when it waits for its next launch."""
    until_us = None if found.job is None else found.job.back_at_us
    at = "" if until_us is None else f" at {clock(until_us)}"
    return [f"its wait between two launches is over{at}, or it is resumed before"]


def _is_for_launches(found: Explanation) -> bool:
    """Say whether what keeps jobs is their launch: no runtime is configured."""
    return found.rules is not None and not found.rules.guards.min_runtime_us


def _not_preempted(found: Explanation, evidence: Wait) -> str:
    if _is_for_launches(found):
        return _short_since(found, evidence, "others keep what they were given until they start")
    return _short_since(found, evidence, "others may not be preempted yet (min_runtime)")


def _runtime_ends(found: Explanation, evidence: Wait) -> list[str]:
    if _is_for_launches(found):
        return ["jobs that were given GPUs start there, or GPUs come free otherwise"]
    return _guard_ends(found, evidence)


def _guard_ends(found: Explanation, evidence: Wait) -> list[str]:
    pinned = found.present.pinned[:1]
    first = [f"a guard ends, the first at {clock(until_us)}: {job}" for job, until_us in pinned]
    return [
        f"{(first or ['a job that may not be preempted ends'])[0]}, or GPUs come free otherwise"
    ]


def _others_end(found: Explanation, evidence: Wait) -> list[str]:
    jobs = found.there.jobs
    return [
        f"{each.job_id} ends {'well' if each.when == 'ok' else 'in whatever way'}"
        for each in found.story.spec.depends_on
        if each.job_id in jobs
    ]


def _needs_quota(found: Explanation, evidence: Wait) -> list[str]:
    missing = max(1, found.present.missing(Reason.quota))
    queue = found.story.spec.queue
    return [f"jobs of queue {queue} give back {gpus_in_words(missing)}, or its quota is raised"]


def _was_not_launched(found: Explanation) -> bool:
    """Say whether the last attempt never began, so that it has printed nothing."""
    own = [each.event for each in found.story.own]
    kinds = (facts.LaunchFailed, facts.AttemptStarted)
    last = next((event for event in reversed(own) if isinstance(event, kinds)), None)
    return isinstance(last, facts.LaunchFailed)


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


RELEASES_NAMED = 8


def _next_round_in_words(found: Explanation, _: Wait) -> str:
    rules = found.rules
    if rules is None or rules.backend_rounds or not rules.round_us:
        return "the next round"
    return f"the round at {clock(rules.grid_at(found.story.at_us))}"


def _last_hold(found: Explanation) -> facts.JobHeld | None:
    holds = [own.event for own in found.story.own if isinstance(own.event, facts.JobHeld)]
    return holds[-1] if holds else None


def _held(found: Explanation, evidence: Wait) -> str:
    event = _last_hold(found)
    if event is None:
        return "it is on hold"
    return f"it was put on hold{f' by {event.by}' if event.by else ''} at {clock(event.at_us)}"


def _release(found: Explanation, _: Wait) -> str:
    """Return who put it on hold, and has to let it go."""
    event = _last_hold(found)
    return f"{(event and event.by) or 'somebody'} to let it go on"


def _next_attempt(found: Explanation, _: Wait) -> str:
    until_us = None if found.job is None else found.job.back_at_us
    return "its next attempt" + ("" if until_us is None else f", at {clock(until_us)}")


def _resume(found: Explanation, _: Wait) -> str:
    job_id = found.story.job_id
    logs = "" if _was_not_launched(found) else f"`shunter logs {job_id}` says how it left; "
    return f"{logs}`shunter resume {job_id}` starts it at once"


def _home(found: Explanation) -> str:
    """Return the server with a checkpoint that is too large to be copied."""
    return (found.job and found.job.stays_on) or "the server that has it"


def _discard(found: Explanation) -> str:
    return f"`shunter admin discard-checkpoint {found.story.job_id}`"


def _down(found: Explanation, _: Wait) -> str:
    return down_in_words(found.there.cluster, found.story.spec.gpu_types, found.unheld)


def _holders_outside(found: Explanation, _: Wait) -> str:
    held = held_by_others(found.there.cluster, found.story.spec.gpu_types)
    return held.replace("others hold", "those who hold", 1)


def _others_leave(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs others must leave that hold too many of them."""
    types = found.story.spec.gpu_types
    missing = gpus_in_words(max(1, evidence.needed - _most_up(found.there.cluster, types)))
    return [f"others leave {missing} or more of one type, or servers join"]


def _no_such_type(found: Explanation, evidence: Wait) -> str:
    if evidence.detail == "throughput":
        return "by the throughputs that are known, its model gets on with no GPU type that is up"
    types = " or ".join(found.story.spec.gpu_types)
    return f"no server with GPUs{f' of type {types}' if types else ''} is up"


def _no_capacity(found: Explanation, evidence: Wait) -> str:
    words = _short(found, evidence)
    if evidence.detail == HEIGHT_MOST:
        words += "; the servers on which it may take turns have as many jobs as height_most allows"
    return words


_OUT_OF_SERVICE = _Words(
    _lost,
    "servers come back into service or join, until enough GPUs are up",
    _down,
    _bring_back,
)
_SHARED = _Words(_shared, "its turn comes, as others get their shares")

_WORDS: dict[Reason, _Words] = {
    Reason.no_capacity: _Words(_no_capacity, _more_gpus),
    Reason.outranked: _Words(
        lambda found, evidence: _short_since(found, evidence, "others rank before it"),
        _more_gpus,
    ),
    Reason.fragmented: _Words(
        lambda found, evidence: (
            f"{_room(found, evidence)}, but not where they fit together: {_pieces(found)}"
        ),
        _together,
        hint="or submit it with other splits (--shape)",
    ),
    Reason.locality_not_met: _Words(
        lambda found, evidence: (
            f"{_room(found, evidence)}, but not {_nearness(found)}: {_pieces(found)}"
        ),
        _together,
        hint="or submit it with another --max-level, --shape or --min-speed",
    ),
    Reason.split_kept: _Words(
        _split_kept,
        "GPUs come free on servers so that its split fits, or it is submitted anew with "
        "--split-may-change, if another number of processes can load its checkpoints",
        to_do="wait until its split fits, or submit it with --split-may-change, if another number "
        "of processes can load its checkpoints",
    ),
    Reason.cpu_or_memory_short: _Words(
        _beside,
        "jobs on servers with free GPUs give back CPUs or memory, or other GPUs come free",
        hint="or submit it with fewer CPUs or less memory",
    ),
    Reason.gpu_type_unavailable: _Words(
        _no_such_type,
        lambda _found, evidence: [
            "a server with other GPUs joins, or its throughputs are measured anew"
            if evidence.detail == "throughput"
            else "a server with such GPUs joins or comes back"
        ],
        lambda _found, evidence: (
            "a GPU type on which its model gets on"
            if evidence.detail == "throughput"
            else "a server with GPUs that it accepts"
        ),
        "add a server with such GPUs, or submit it with other types (--type)",
    ),
    Reason.quota: _Words(_quota, _needs_quota),
    Reason.share_met: _SHARED,
    Reason.time_sliced: _SHARED,
    Reason.guard_min_runtime: _Words(_not_preempted, _runtime_ends),
    Reason.guard_preemption_limit: _Words(
        lambda found, evidence: _short_since(
            found,
            evidence,
            "others may not be preempted: never, or not again so soon "
            "(max_preemptions_per_job_hour)",
        ),
        _guard_ends,
    ),
    Reason.waiting_for_round: _Words(
        "no round has looked at it yet", _next_round, _next_round_in_words
    ),
    Reason.displaced: _Words(_displaced, _next_round, _next_round_in_words),
    Reason.waiting_for_release: _Words(
        lambda _found, evidence: (
            f"it was granted {gpus_in_words(evidence.needed)}, of which others have yet to leave "
            f"{evidence.needed - evidence.free}"
        ),
        lambda _found, evidence: [
            f"the GPUs that it was granted are left by {', '.join(evidence.blockers) or 'others'}"
        ],
    ),
    Reason.dependency: _Words(
        lambda found, evidence: (
            f"it depends on {', '.join(_there(found, evidence)) or 'other jobs'}, which must end "
            "first"
        ),
        _others_end,
        hint="`shunter show` of that job says how far it is",
    ),
    Reason.array_limit: _Words(
        _array,
        lambda found, _: [
            f"a task of array {found.story.spec.array} that has its turn ends, or gives it up"
        ],
    ),
    Reason.held: _Words(
        _held,
        "it is released",
        _release,
        lambda found, _: f"`shunter resume {found.story.job_id}` lets it start",
    ),
    Reason.backing_off: _Words(_backing_off, _wait_ends, _next_attempt, _resume),
    Reason.node_lost: replace(
        _OUT_OF_SERVICE,
        waits_for=lambda found, evidence: (_next_round_in_words if evidence.detail else _down)(
            found, evidence
        ),
    ),
    Reason.node_drained: _OUT_OF_SERVICE,
    Reason.gpus_quarantined: _OUT_OF_SERVICE,
    Reason.gpus_taken: _Words(_taken, _others_leave, _holders_outside),
    Reason.awaiting_proposal: _Words(
        _proposed,
        waits_for="its job scheduler, which has to propose a place",
        to_do=_PROPOSE,
    ),
    Reason.proposal_rejected: _Words(
        _proposed,
        waits_for="its job scheduler, which has to propose again",
        to_do=_PROPOSE,
    ),
    Reason.checkpoint_unreachable: _Words(
        _checkpoint_unreachable,
        lambda found, _: [
            (
                "the server answers again or is lost for good, or its owner gives the checkpoint "
                f"up: {_discard(found)}"
            )
        ],
        lambda found, evidence: _checkpoint_unreachable(found, evidence).split(", and ")[-1],
        lambda found, _: f"bring that server back, or give the checkpoint up: {_discard(found)}",
    ),
    Reason.checkpoint_stays: _Words(
        _checkpoint_stays,
        lambda found, _: [
            (
                f"GPUs for it come free on {_home(found)}, or what it saved there is made smaller "
                f"and then `shunter resume {found.story.job_id}` lets it be copied, or its owner "
                f"gives the checkpoint up: {_discard(found)}"
            )
        ],
        lambda found, _: f"room on {_home(found)}, where what it saved is",
        lambda found, _: (
            "wait for room there; or make that folder smaller, then `shunter resume "
            f"{found.story.job_id}`; or give it up: {_discard(found)}"
        ),
    ),
}


def _there(found: Explanation, evidence: Wait) -> list[JobId]:
    """Return the blockers that have not ended."""
    jobs = found.there.jobs
    return [each for each in evidence.blockers if each in jobs]
