"""Jobs that have not ended, as rows.

Ten thousand of them are one answer, so they are made as plain dictionaries; a test holds them to
their model. Read `job_row` and `queue_document` first.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from shunter.ask import (
    Dated,
    allocation_in_words,
    down_in_words,
    held_by_others,
    holding_back,
    instant_us,
    job_state,
    most_free,
    stands_still,
    told_apart,
    wait_of,
)
from shunter.core import LAUNCHING, WAITING, Cluster, Job, State, turn_shares
from shunter.events import Demand, JobId, NodeName, Reason, Wait

# The fair share of a job in turns is a part of the time: in proportion to the weights of turns
# (decision 0055), at most all of it, and what one cannot use goes to the others (weighted max-min
# fairness). The rotation of a server (`backends/node/rotation`) comes to it for gangs of one size;
# where sizes differ, it may be less for those that fit badly. `used` is the service over all GPU
# time in which the job held its GPUs.


class TurnShares:
    """The turns of all jobs of a state up to an instant, counted on demand."""

    def __init__(self, state: State, now_us: int) -> None:
        self._state = state
        self._now_us = now_us
        self._shares: dict[JobId, float] | None = None

    def of(self, job: Job) -> dict[str, Any] | None:
        """Return the turns of a job as a `TurnPart`; None: it takes none, or not now."""
        if not _takes_turns(job):
            return None
        if self._shares is None:
            self._shares = turn_shares(filter(_takes_turns, self._state.jobs.values()))
        assert job.since_us is not None, "its attempt is under way"
        present_us = self._now_us - job.since_us
        off_us = job.off_turn_gpu_us + (job.held.gpus - job.gpus) * present_us
        used_us = job.service_us(self._now_us)
        return {
            "is_on": not job.awaits_turn,
            "fair_share": self._shares[job.job_id],
            "used": used_us / (used_us + off_us) if used_us + off_us else None,
            "held_s": job.occupied_us(self._now_us) / 1e6,
        }


def _takes_turns(job: Job) -> bool:
    """Say whether a job has turns, or waits for one."""
    return job.takes_turns and not stands_still(job)


BLOCKERS_MOST = 8
_OF_ALL = (Reason.dependency, Reason.waiting_for_release)
"""Reasons of which jobs that were given no GPUs are blockers too."""

_REASONS_OF_SERVERS = (Reason.node_lost, Reason.node_drained, Reason.gpus_quarantined)


@dataclass(frozen=True, slots=True)
class Present:
    """What a cluster at work says of now, beside its state.

    `launch_wait` says what the launch of a job waits for; nothing: it does not. `unheld` are nodes
    that Slurm has not given.
    """

    now_us: int
    launch_wait: Callable[[JobId], str]
    unheld: Collection[NodeName] = ()


NO_RANKS: Mapping[JobId, int] = MappingProxyType({})


def job_row(
    job: Job,
    state: State,
    dated: Dated,
    *,
    rank: int | None = None,
    evidence: "Evidence | None" = None,
    present: Present | None = None,
    turns: TurnShares | None = None,
) -> dict[str, Any]:
    """Return the row of a job.

    Args:
        job: one that has not ended.
        state: that of the cluster.
        dated: turns instants into dates.
        rank: its place among those that wait.
        evidence: what rows of the same state share.
        present: what is so now; of a past state None.
        turns: those of all jobs of the state, up to now.
    """
    spec = job.spec
    wait = wait_of(job, state)
    since_us = job.attempt_began_us if wait is None else job.waiting_since_us
    submitted_at = dated(job.submitted_us)
    now_us = instant_of(state, present)
    return {
        "id": job.job_id,
        "name": spec.name,
        "user": spec.user,
        "queue": spec.queue,
        "group": spec.group,
        "gpus": spec.gpus,
        "cpus": spec.cpus_milli / 1000,
        "memory_mb": spec.memory_mb,
        "state": job_state(job),
        "priority": job.priority,
        "submitted_at": submitted_at,
        "since_at": submitted_at if since_us in (None, job.submitted_us) else dated(since_us),
        "where": allocation_in_words(job.held) if job.held.shares else "",
        "cpus_held": sum([share.cpus_milli for share in job.held.shares]) / 1000,
        "memory_mb_held": sum([share.memory_mb for share in job.held.shares]),
        "attempt": job.attempt,
        "preemptions": job.preemptions,
        "service_gpu_s": job.service_us(now_us) / 1e6,
        "turns": (turns or TurnShares(state, now_us)).of(job),
        "array_index": spec.array_index,
        "rank": rank,
        "reason": None if wait is None else (evidence or Evidence(state)).part(job, wait),
        "launch_wait": ""
        if present is None or job.phase is not LAUNCHING
        else present.launch_wait(job.job_id),
    }


def instant_of(state: State, present: Present | None) -> int:
    """Return the instant up to which time counts: now, or that of a past state."""
    return state.now_us if present is None else max(state.now_us, present.now_us)


def told_of_servers(
    wait: Wait, demand: Demand, cluster: Cluster, unheld: Collection[NodeName] = ()
) -> Wait:
    """Return why a job waits, told with the servers that take no jobs.

    Where these are why, as they are drained, lost, or held by others, no job holds it back.
    """
    reason, types = told_apart(wait, demand.gpu_types, cluster), demand.gpu_types
    if reason in _REASONS_OF_SERVERS and not wait.detail:
        return replace(
            wait, reason=reason, blockers=(), detail=down_in_words(cluster, types, unheld)
        )
    if reason is Reason.gpus_taken:
        return replace(wait, reason=reason, blockers=(), detail=held_by_others(cluster, types))
    if reason is Reason.cpu_or_memory_short and cluster.is_beside_taken:
        return replace(wait, detail=wait.detail or held_by_others(cluster, types))
    return replace(wait, reason=reason)


class Evidence:
    """Reasons with the evidence of one state: what is recorded may be of long ago.

    Blockers are those that still hold GPUs, or wait before the job where it is known who does.
    """

    def __init__(
        self,
        state: State,
        ranks: Mapping[JobId, int] = NO_RANKS,
        unheld: Collection[NodeName] = (),
    ) -> None:
        self._state = state
        self._ranks = ranks
        self._unheld = unheld
        self._parts: dict[tuple[Wait, Demand, str], dict[str, Any]] = {}

    def part(self, job: Job, wait: Wait) -> dict[str, Any]:
        """Return why a job waits as a `ReasonPart`, with its evidence."""
        key = (wait, job.demand, job.spec.queue)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._part(job, wait)
        named = wait.blockers
        if wait.reason is Reason.quota:
            named = holding_back(named, wait.reason, job.spec, self._state)
        ahead = [job_id for job_id in named if self._waits_before(job_id, job)]
        return {**part, "blockers": [*ahead, *part["blockers"]]} if ahead else part

    def _part(self, job: Job, wait: Wait) -> dict[str, Any]:
        jobs = self._state.jobs
        is_told = wait.reason is Reason.waiting_for_release  # of this state, with its evidence
        told = told_of_servers(wait, job.demand, self._state.cluster, self._unheld)
        open_ones = [job_id for job_id in told.blockers if job_id in jobs]
        if wait.reason not in _OF_ALL:
            found = holding_back(open_ones, told.reason, job.spec, self._state)
            open_ones = [job_id for job_id in found if jobs[job_id].allocation.shares]
        return {
            "name": told.reason.value,
            "needed": wait.needed,
            "free": self._free(job, wait) if wait.needed and not is_told else wait.free,
            "blockers": open_ones[:BLOCKERS_MOST],
            "detail": told.detail,
        }

    def _waits_before(self, job_id: JobId, job: Job) -> bool:
        """Say whether a job that is recorded as a blocker waits in front of another one."""
        ranks, other = self._ranks, self._state.jobs.get(job_id)
        if other is None or other.allocation.shares or job.job_id not in ranks:
            return False
        return ranks.get(job_id, len(ranks) + 1) < ranks[job.job_id]

    def _free(self, job: Job, wait: Wait) -> int:
        """Return how many GPUs are free now, or how many of a quota."""
        queue = self._state.queues.get(job.spec.queue)
        if wait.reason is Reason.quota and queue is not None and queue.quota_gpus is not None:
            return max(0, queue.quota_gpus - queue.gpus)
        return most_free(job, self._state)


def in_order(jobs: Iterable[Job], ranks: Mapping[JobId, int]) -> list[Job]:
    """Return jobs as people want them: who holds GPUs, then who waits, by rank."""
    last = len(ranks) + 1
    return sorted(
        jobs,
        key=lambda job: (job.phase is WAITING, ranks.get(job.job_id, last), job.ordinal),
    )


def queue_document(
    state: State,
    jobs: Iterable[Job],
    dated: Dated,
    *,
    now: str,
    ranks: Mapping[JobId, int],
    present: Present | None = None,
    limit: int | None = None,
    of_others: int = 0,
) -> dict[str, Any]:
    """Return the rows of some jobs, with how many there are in each state.

    `of_others` are those left out because another user's were not asked for.
    """
    ordered = in_order(jobs, ranks)
    counts = Counter(job_state(job) for job in ordered)
    unheld = () if present is None else present.unheld
    evidence = Evidence(state, ranks, unheld)
    turns = TurnShares(state, instant_of(state, present))
    return {
        "schema_version": 1,
        "seq": state.seq,
        "now": now,
        "total": len(ordered),
        "of_others": of_others,
        "states": dict(sorted(counts.items())),
        "jobs": [
            job_row(
                *(job, state, dated),
                rank=ranks.get(job.job_id),
                evidence=evidence,
                present=present,
                turns=turns,
            )
            for job in ordered[:limit]
        ],
    }


# Why is answered for any log, and a simulation has no dates: there an instant is T+03:12:40.

_CLOCK = re.compile(r"T\+\d+:\d\d:\d\d(?:\.\d{1,6})?")


def dated_why(document: dict[str, Any], dated: Dated) -> dict[str, Any]:
    """Return the answer of `why` with dates for instants, and for numbers alone."""
    for part in document["timeline"]:
        for each in (part, *part.get("reasons", ())):
            each["from"] = dated(each["from_us"])
    for blocker in (document["evidence"] or {}).get("blockers", ()):
        if blocker.get("since_us") is not None:
            blocker["since"] = dated(blocker["since_us"])
    answer: dict[str, Any] = with_dates(document, dated)
    return answer


def with_dates(value: object, dated: Dated) -> Any:
    """Return a JSON-able value in which instants are dates, in UTC."""
    if isinstance(value, dict):
        return {name: with_dates(inner, dated) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_dates(inner, dated) for inner in value]
    if isinstance(value, str):
        return _CLOCK.sub(lambda found: dated(instant_us(found.group(), None)), value)
    return value
