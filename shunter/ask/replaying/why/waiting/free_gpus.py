"""For what GPUs are that are free and enough for a job that waits all the same.

"It needs 1 GPU, and 1 is free" answers nothing: the next plan gives it to another job, it is kept
for the first in the queue, promised, or came free since the last plan. Where too few GPUs are free,
it is told where others are idle that would be enough, as on drained servers.
"""

from collections.abc import Sequence

from shunter.ask.replaying.formatting import gpus_in_words
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.present import NAMED, Present
from shunter.core.cluster import Cluster, Health, Server
from shunter.core.state import JobPhase
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Wait


def use_of_free(found: Explanation, evidence: Wait) -> str:
    """Return for what free GPUs are, as a clause; empty: too few, or unknown."""
    present, free = found.present, evidence.free
    if present is None or present.starts_us is not None or not 0 < evidence.needed <= free:
        return ""
    at = "" if present.next_plan is None else clock(present.next_plan.at_us)
    said = ""
    grants, admitted = next_grants(found, evidence), _admitted_next(found)
    for gpus, text in (
        (present.gpus.kept, f"for {names_of(present.gpus.kept_for)}, to be placed before it"),
        (sum(grants.values()), f"given to {names_of([*grants])} by the plan at {at}"),
        (sum(admitted.values()), f"left to {names_of([*admitted])} by the plan at {at}"),
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
    state, present = found.state, found.present
    if state is None or present is None or present.next_plan is None:
        return {}
    counted = _counted_type(found, state.cluster, evidence.free)
    return {
        grant.job_id: grant.gpus
        for grant in present.next_plan.grants
        if grant.gpu_type == counted and grant.job_id != found.story.job_id
    }


def promised_to(found: Explanation) -> JobId | None:
    """Return another job that the policy promised GPUs which this one would outlast."""
    state, present = found.state, found.present
    if state is None or present is None or not present.outlasts:
        return None
    return next((each for each in state.reservations if each != found.story.job_id), None)


def idle_elsewhere(found: Explanation, evidence: Wait) -> str:
    """Return where GPUs are idle that do not count and would be enough, as a clause."""
    state = found.state
    missing = evidence.needed - evidence.free
    if state is None or missing <= 0:
        return ""
    counted = _counted_type(found, state.cluster, evidence.free)
    types = found.story.spec.gpu_types
    idle: dict[str, int] = {}
    for server in state.cluster.servers.values():
        gpus, where = _not_counted(server, counted, types)
        if gpus:
            idle[where] = idle.get(where, 0) + gpus
    if sum(idle.values()) < missing:
        return ""
    return f" (and {', '.join(f'{gpus} {where}' for where, gpus in idle.items())})"


def names_of(jobs: Sequence[JobId]) -> str:
    """Return jobs by their names, as many as a line can bear."""
    more = len(jobs) - NAMED
    return ", ".join(jobs[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _admitted_next(found: Explanation) -> dict[JobId, int]:
    """Return the jobs that the next plan lets job schedulers place, with their GPUs."""
    state, plan = found.state, None if found.present is None else found.present.next_plan
    if state is None or plan is None:
        return {}
    types, mine = found.story.spec.gpu_types, found.story.job_id
    jobs = [state.jobs[job_id] for job_id in plan.admitted if job_id != mine]
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
    state = found.state
    first = present.gpus.holders[0] if present.gpus.holders else None
    job = None if state is None or first is None else state.jobs.get(first)
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
    if present is None or present.next_plan is not None:
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
