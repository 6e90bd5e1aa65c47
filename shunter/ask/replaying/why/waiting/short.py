"""The short answer to why a job waits: the reason, what it waits for, and what to do about it."""

from collections.abc import Callable

from shunter.ask.replaying.formatting import (
    allocation_in_words,
    down_in_words,
    gpus_in_words,
    held_by_others,
)
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.waits import STOPPED, holders, stands_still
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.needs import needs, suffices
from shunter.ask.replaying.why.ranking import became
from shunter.ask.replaying.why.reasons import reason_in_words
from shunter.ask.replaying.why.sentences import headline
from shunter.ask.replaying.why.waiting.free_gpus import names_of, next_grants, promised_to
from shunter.core.cluster import Health
from shunter.core.state import Job, JobPhase
from shunter.events.facts.execution import AttemptStarted, LaunchFailed
from shunter.events.facts.jobs import JobHeld
from shunter.events.values.reasons import Reason, Wait

SERVERS_NAMED = 2
BLOCKERS_NAMED = 2
RELEASES_NAMED = 8


def short_of(found: Explanation) -> dict[str, str] | None:
    """Return why a job waits, for what, and what to do; None: it does not wait."""
    evidence = found.evidence
    if found.waits_now is None or evidence is None:
        return None
    said = headline(found)
    if found.phase != JobPhase.granted:
        said += f": {reason_in_words(found, evidence)}"
    return {
        "answer": said,
        "waits_for": "; ".join([_waits_for(found, evidence), *found.losses]),
        "to_do": _to_do(found, evidence),
    }


def _waits_for(found: Explanation, evidence: Wait) -> str:
    """Return who or what a job waits for."""
    state, present = found.state, found.present
    fault = "" if state is None else state.policy_fault
    if fault:
        return f"a policy that works: this one failed, and nothing was decided: {fault}"
    if present is not None and present.starts_us is not None:
        return f"the plan at {clock(present.starts_us)}, which starts it"
    named = _NAMED.get(evidence.reason)
    words = "" if named is None else named(found, evidence)
    if words:
        return words
    promised = promised_to(found)
    if promised is not None and present is not None:
        return present.outlasts.removeprefix("it is not started before ")
    grants = next_grants(found, evidence)
    if grants and evidence.free >= evidence.needed:
        return f"{names_of([*grants])}, which the next plan starts before it"
    return _blockers(found, evidence) or _holders(found, evidence)


def _blockers(found: Explanation, evidence: Wait) -> str:
    jobs = {} if found.state is None else found.state.jobs
    there = [jobs[each] for each in evidence.blockers if each in jobs]
    return _jobs(there)


def _holders(found: Explanation, evidence: Wait) -> str:
    """Return the jobs on GPUs that a job accepts, or those of its queue."""
    state, spec = found.state, found.story.spec
    if state is None:
        return "others"
    default = f"the quota of queue {spec.queue}" if evidence.reason is Reason.quota else "GPUs"
    return _jobs(holders(evidence.reason, spec, state)) or default


def _jobs(jobs: list[Job]) -> str:
    """Return jobs with what they hold, the first few of them."""
    said = [f"{job.job_id} ({_phase(job)})" for job in jobs[:BLOCKERS_NAMED]]
    more = len(jobs) - BLOCKERS_NAMED
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def _phase(job: Job) -> str:
    has = job.held if job.held.shares else job.allocation
    if not has.shares:
        return f"{job.phase}, needs {gpus_in_words(job.demand.gpus)}"
    phase = STOPPED if stands_still(job) else job.phase
    return f"{phase} on {allocation_in_words(has, SERVERS_NAMED)}"


def _servers(found: Explanation, _: Wait) -> str:
    if found.state is None:
        return ""
    return down_in_words(found.state.cluster, found.story.spec.gpu_types, found.unheld)


def _others(found: Explanation, _: Wait) -> str:
    if found.state is None:
        return ""
    held = held_by_others(found.state.cluster, found.story.spec.gpu_types)
    return held.replace("others hold", "those who hold", 1)


def _round(found: Explanation, _: Wait) -> str:
    rules = found.rules
    if rules is None or rules.backend_rounds or not rules.round_us:
        return "the next round"
    return f"the round at {clock(rules.grid_at(found.story.at_us))}"


def _release(found: Explanation, _: Wait) -> str:
    """Return who put it on hold, and has to let it go."""
    holds = [own.event for own in found.story.own if isinstance(own.event, JobHeld)]
    by = holds[-1].by if holds else ""
    return f"{by or 'somebody'} to let it go on"


def _launch(found: Explanation, _: Wait) -> str:
    until_us = None if found.job is None else found.job.back_at_us
    return "its next attempt" + ("" if until_us is None else f", at {clock(until_us)}")


_NAMED: dict[Reason, Callable[[Explanation, Wait], str]] = {
    Reason.held: _release,
    Reason.backing_off: _launch,
    Reason.waiting_for_round: _round,
    Reason.displaced: _round,
    Reason.node_lost: lambda found, evidence: (
        _round(found, evidence) if evidence.detail else _servers(found, evidence)
    ),
    Reason.node_drained: _servers,
    Reason.gpus_quarantined: _servers,
    Reason.gpus_taken: _others,
    Reason.gpu_type_unavailable: lambda _found, evidence: (
        "a GPU type on which its model gets on"
        if evidence.detail == "throughput"
        else "a server with GPUs that it accepts"
    ),
    Reason.awaiting_proposal: lambda _found, _: "its job scheduler, which has to propose a place",
    Reason.proposal_rejected: lambda _found, _: "its job scheduler, which has to propose again",
    Reason.checkpoint_stays: lambda found, evidence: (
        f"room on {_home(found)}, where what it saved is"
    ),
    Reason.checkpoint_unreachable: lambda found, evidence: reason_in_words(found, evidence).split(
        ", and "
    )[-1],
}


def _was_not_launched(found: Explanation) -> bool:
    """Say whether the last attempt never began, so that it has printed nothing."""
    own = [each.event for each in found.story.own]
    kinds = (LaunchFailed, AttemptStarted)
    last = next((event for event in reversed(own) if isinstance(event, kinds)), None)
    return isinstance(last, LaunchFailed)


def _home(found: Explanation) -> str:
    """Return the server with a checkpoint that is too large to be copied."""
    return (found.job and found.job.stays_on) or "the server that has it"


def _to_do(found: Explanation, evidence: Wait) -> str:
    """Return what somebody can do about a wait."""
    if found.later is not None and found.later.event is not None:  # it is of the past
        return f"nothing: {became(found)[0]}"
    starts = suffices(found)
    if starts:
        return "nothing: it starts by itself"
    if found.phase == JobPhase.granted:
        return "nothing: it starts as soon as they have left"
    if promised_to(found) is not None:
        return "wait, or submit it with a --time that ends before that"
    advise = _ADVICE.get(evidence.reason)
    if advise is not None and not (evidence.reason is Reason.node_lost and evidence.detail):
        return advise(found)
    until, stopped = needs(found), _stopped(found, evidence)
    if not until:
        return f"wait; {stopped}{_TRY}"
    return f"wait until {', and '.join(until)}; {stopped}{_HINTS.get(evidence.reason, _TRY)}"


def _stopped(found: Explanation, evidence: Wait) -> str:
    """Return what lets go of the GPUs of a job that was stopped on them; or nothing."""
    if found.state is None:
        return ""
    has = [found.state.jobs[each] for each in evidence.blockers if each in found.state.jobs]
    has = has or holders(evidence.reason, found.story.spec, found.state)
    job_id = next((job.job_id for job in has if stands_still(job)), None)
    if job_id is None:
        return ""
    return (
        f"{job_id} keeps its GPUs while it is stopped: `shunter resume {job_id}` lets it go on, "
        f"`shunter cancel {job_id}` ends it; "
    )


def _bring_back(found: Explanation) -> str:
    """Return how servers and GPUs that are out of service get back to work."""
    servers = () if found.state is None else found.state.cluster.servers.values()
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
        more = f" and {len(gpus) - RELEASES_NAMED} more" if len(gpus) > RELEASES_NAMED else ""
        ways.append(f"{', '.join(gpus[:RELEASES_NAMED])}{more}")
    silent = [each for each in servers if each.health in (Health.lost, Health.unreachable)]
    if any(each.name in found.unheld for each in silent):
        ways.append("wait until Slurm gives nodes (`shunter nodes` says since when it is asked)")
    if any(each.name not in found.unheld for each in silent):
        ways.append("bring back what does not answer (`shunter doctor` says why)")
    return ", ".join([*ways, "or add servers"]) if ways else "add servers"


_TRY = "`--counterfactuals` tries what would start it now"
_HINTS = {
    Reason.cpu_or_memory_short: "or submit it with fewer CPUs or less memory",
    Reason.dependency: "`shunter show` of that job says how far it is",
    Reason.locality_not_met: "or submit it with another --max-level, --shape or --min-speed",
    Reason.fragmented: "or submit it with other splits (--shape)",
}
_PROPOSE = "nothing where the scheduler itself proposes; else see that its job scheduler runs"
_ADVICE: dict[Reason, Callable[[Explanation], str]] = {
    Reason.held: lambda found: f"`shunter resume {found.story.job_id}` lets it start",
    Reason.backing_off: lambda found: (
        (
            ""
            if _was_not_launched(found)
            else f"`shunter logs {found.story.job_id}` says how it left; "
        )
        + f"`shunter resume {found.story.job_id}` starts it at once"
    ),
    Reason.node_lost: _bring_back,
    Reason.node_drained: _bring_back,
    Reason.gpus_quarantined: _bring_back,
    Reason.gpu_type_unavailable: lambda _found: (
        "add a server with such GPUs, or submit it with other types (--type)"
    ),
    Reason.checkpoint_unreachable: lambda found: (
        "bring that server back, or give the checkpoint up: `shunter discard-checkpoint "
        f"{found.story.job_id}`"
    ),
    Reason.checkpoint_stays: lambda found: (
        f"wait for room there; or make that folder smaller, then `shunter resume "
        f"{found.story.job_id}`; or give it up: `shunter discard-checkpoint {found.story.job_id}`"
    ),
    Reason.awaiting_proposal: lambda _found: _PROPOSE,
    Reason.proposal_rejected: lambda _found: _PROPOSE,
    Reason.split_kept: lambda _found: (
        "wait until its split fits, or submit it with --split-may-change, if another number of "
        "processes can load its checkpoints"
    ),
}
