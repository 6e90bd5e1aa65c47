"""What must happen before a waiting job starts, and what is enough for it.

`needs` are necessary: none of them promises a start, because others may rank before the job, or
come first. `suffices` are the few things of which the planner itself says that the job starts.
"""

from collections.abc import Callable

from shunter.ask.replaying.formatting import gpus_in_words
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.events.values.causes import HEIGHT_MOST
from shunter.events.values.reasons import Reason, Wait

_LOST = Reason.node_lost


def needs(found: Explanation) -> list[str]:
    """Return what has to happen at least before a job starts, each of it."""
    now, evidence = found.waits_now, found.evidence
    if now is None or evidence is None:
        return []
    present = found.present
    if present is not None and present.starts_us is not None:
        return []
    reason = Reason.waiting_for_round if evidence.reason is _LOST and evidence.detail else None
    reason = reason or now.wait.reason
    if now.told is not None and present is not None and present.wait is not None:
        reason = present.wait.reason  # what the next plan will find counts, not what the last did
    advise = _NEEDS.get(reason)
    return [] if advise is None else advise(found, evidence)


def suffices(found: Explanation) -> list[str]:
    """Return what is enough for a job to start, as the planner itself says."""
    present = found.present
    if found.waits_now is None or present is None or present.starts_us is None:
        return []
    return [f"nothing changes until the plan at {clock(present.starts_us)}, which starts it"]


def _more_gpus(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs more must come free."""
    present = found.present
    if evidence.detail == HEIGHT_MOST:
        return ["a job ends or leaves a server on which it may take turns, or GPUs come free to it"]
    missing = 0 if present is None else present.missing(Reason.no_capacity)
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
    wait = None if present is None else present.wait
    why = f"; as things are it would wait there: {wait.reason}" if wait else ""
    return [f"the round at {at}, or a later one, finds room for it{why}"]


def _wait_ends(found: Explanation, evidence: Wait) -> list[str]:
    """Return until when it waits for its next launch."""
    until_us = None if found.job is None else found.job.back_at_us
    at = "" if until_us is None else f" at {clock(until_us)}"
    return [f"its wait between two launches is over{at}, or it is resumed before"]


def _guard_ends(found: Explanation, evidence: Wait) -> list[str]:
    pinned = () if found.present is None else found.present.pinned[:1]
    first = [f"a guard ends, the first at {clock(until_us)}: {job}" for job, until_us in pinned]
    return [
        f"{(first or ['a job that may not be preempted ends'])[0]}, or GPUs come free otherwise"
    ]


def _others_end(found: Explanation, evidence: Wait) -> list[str]:
    jobs = {} if found.state is None else found.state.jobs
    return [
        f"{each.job_id} ends {'well' if each.when == 'ok' else 'in whatever way'}"
        for each in found.story.spec.depends_on
        if each.job_id in jobs
    ]


def _quota(found: Explanation, evidence: Wait) -> list[str]:
    missing = 1 if found.present is None else max(1, found.present.missing(Reason.quota))
    queue = found.story.spec.queue
    return [f"jobs of queue {queue} give back {gpus_in_words(missing)}, or its quota is raised"]


def _servers_back(found: Explanation, evidence: Wait) -> list[str]:
    return ["servers come back into service or join, until enough GPUs are up"]


def _others_leave(found: Explanation, evidence: Wait) -> list[str]:
    """Return how many GPUs others must leave that hold too many of them."""
    pools = {} if found.state is None else found.state.cluster.pools
    types = found.story.spec.gpu_types
    up = [pool.gpus_up for name, pool in pools.items() if not types or name in types]
    missing = max(1, evidence.needed - max(up, default=0))
    return [f"others leave {gpus_in_words(missing)} or more of one type, or servers join"]


def _go_on_without(found: Explanation, evidence: Wait) -> list[str]:
    """Return what lets a job go on whose checkpoint is out of reach."""
    given_up = (
        f"its owner gives the checkpoint up: `shunter discard-checkpoint {found.story.job_id}`"
    )
    return [f"the server answers again or is lost for good, or {given_up}"]


def _room_at_home(found: Explanation, evidence: Wait) -> list[str]:
    """Return what lets a job go on whose checkpoint is too large to be copied."""
    job_id = found.story.job_id
    home = (found.job and found.job.stays_on) or "the server that has it"
    return [
        (
            f"GPUs for it come free on {home}, or what it saved there is made smaller and then "
            f"`shunter resume {job_id}` lets it be copied, or its owner gives the checkpoint up: "
            f"`shunter discard-checkpoint {job_id}`"
        )
    ]


def _split_fits(found: Explanation, evidence: Wait) -> list[str]:
    """Return what a job waits for that keeps its split over servers."""
    return [
        (
            "GPUs come free on servers so that its split fits, or it is submitted anew with "
            "--split-may-change, if another number of processes can load its checkpoints"
        )
    ]


_NEEDS: dict[Reason, Callable[[Explanation, Wait], list[str]]] = {
    Reason.no_capacity: _more_gpus,
    Reason.outranked: _more_gpus,
    Reason.fragmented: _together,
    Reason.locality_not_met: _together,
    Reason.cpu_or_memory_short: lambda _found, _: [
        "jobs on servers with free GPUs give back CPUs or memory, or other GPUs come free"
    ],
    Reason.gpu_type_unavailable: lambda _found, evidence: [
        "a server with other GPUs joins, or its throughputs are measured anew"
        if evidence.detail == "throughput"
        else "a server with such GPUs joins or comes back"
    ],
    Reason.quota: _quota,
    Reason.guard_min_runtime: _guard_ends,
    Reason.guard_preemption_limit: _guard_ends,
    Reason.waiting_for_round: _next_round,
    Reason.waiting_for_release: lambda _found, evidence: [
        f"the GPUs that it was granted are left by {', '.join(evidence.blockers) or 'others'}"
    ],
    Reason.dependency: _others_end,
    Reason.array_limit: lambda found, _: [
        f"a task of array {found.story.spec.array} that has its turn ends, or gives it up"
    ],
    Reason.held: lambda _found, _: ["it is released"],
    Reason.backing_off: _wait_ends,
    Reason.share_met: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.time_sliced: lambda _found, _: ["its turn comes, as others get their shares"],
    Reason.node_lost: _servers_back,
    Reason.node_drained: _servers_back,
    Reason.gpus_quarantined: _servers_back,
    Reason.gpus_taken: _others_leave,
    Reason.checkpoint_unreachable: _go_on_without,
    Reason.checkpoint_stays: _room_at_home,
    Reason.split_kept: _split_fits,
    Reason.displaced: _next_round,
}
