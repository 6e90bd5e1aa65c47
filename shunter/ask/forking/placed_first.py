"""One job first, at one decision: the policy is asked as ever, and after that decision as before.

    ranked policies   the job's key stands at the head of the order while they plan, and is put back
    all others        of what their plan leaves free or takes away, the job has the first choice

Nothing of it is in the state or in the policy's memory once the decision is made. A policy knows
that after its own plan nothing is left to do; after this one that is not so, and it is asked again
at the next round or, where there are none, at the next event. Jobs that a guard pins keep their
GPUs, and a policy that does not preempt makes nobody leave: first in the order is not placed yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from shunter.core.interfaces import Observers, Rng
from shunter.core.plan import Change, Plan, Start, Suspend
from shunter.core.planning.draft import Draft, pools_without_gpus
from shunter.core.planning.placement import FirstFit, Placement
from shunter.core.ranking import Ranking
from shunter.core.ranking.ranking import (
    NO_POOL,
    PRIORITY_MOST,
    Entry,
    band_of,
    ordinal_of,
    pack,
    rank_of,
)
from shunter.core.scheduler import Asked
from shunter.core.state import Job
from shunter.core.view import Band, View
from shunter.events.facts.decisions import SolvedFact, Target
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Because, Reason

RULE = "placed_first"
"""The rule by which a job starts that a policy without an order was made to place first."""


class PlacedFirst:
    """A policy that has one job first in its first plan at or after an instant.

    `placed_us` is the instant of that plan; None: it was not made yet. `placement` finds the job's
    GPUs under policies without an order. `in_rounds` says that plans are made in rounds.
    """

    def __init__(
        self,
        policy: Asked,
        job_id: JobId,
        from_us: int,
        placement: Placement | None = None,
        *,
        in_rounds: bool = True,
    ) -> None:
        self.name, self.version, self.oracle = policy.name, policy.version, policy.oracle
        self.placed_us: int | None = None
        self._leaves_work = False
        self._in_rounds = in_rounds
        self._policy = policy
        self._job_id = job_id
        self._from_us = from_us
        self._placement = placement or FirstFit()

    @property
    def is_lost(self) -> bool:
        """Whether the policy must begin anew."""
        return self._policy.is_lost

    @property
    def aside(self) -> str:
        """Why the policy is not asked any more."""
        return self._policy.aside

    def start(self, view: View) -> Any:
        """Return the memory of the policy."""
        return self._policy.start(view)

    def observers(self, memory: Any) -> Observers:
        """Return what the policy observes."""
        return self._policy.observers(memory)

    def advance(self, memory: Any, view: View) -> None:
        """Bring the policy's memory up to an instant."""
        self._policy.advance(memory, view)

    def target(self, memory: Any, view: View) -> tuple[Target, ...] | SolvedFact | None:
        """Return what the policy solves for, with the job first where it is."""
        with self._in_front(memory, view):
            return self._policy.target(memory, view)

    def plan(self, memory: Any, view: View, rng: Rng) -> Plan:
        """Return the policy's plan, with the job first where it is."""
        self._leaves_work = self._is_now(view)
        if not self._leaves_work:
            return self._policy.plan(memory, view, rng)
        self.placed_us = view.now_us
        with self._in_front(memory, view):
            plan = self._policy.plan(memory, view, rng)
        job = view.jobs.get(self._job_id)
        if isinstance(memory, Ranking) or job is None:
            return plan
        return with_first_choice(plan, job, view, self._placement)

    def wake_at(self, memory: Any) -> int | None:
        """Return when the policy could decide otherwise: soon, after such a plan."""
        wake_us = self._policy.wake_at(memory)
        if not (self._leaves_work and self._in_rounds) or self.placed_us is None:
            return wake_us
        return self.placed_us + 1 if wake_us is None else min(wake_us, self.placed_us + 1)

    def settled(self, memory: Any) -> bool:
        """Say whether a plan made now could not change anything."""
        return not self._leaves_work and self._policy.settled(memory)

    def _is_now(self, view: View) -> bool:
        """Say whether this is the decision, or one of the same instant."""
        if self.placed_us is None:
            return view.now_us >= self._from_us
        return view.now_us == self.placed_us

    @contextmanager
    def _in_front(self, memory: Any, view: View) -> Iterator[None]:
        """Let the job stand at the head of a ranking for as long as something is asked."""
        entry = memory.entries.get(self._job_id) if isinstance(memory, Ranking) else None
        if entry is None or not self._is_now(view) or band_of(entry.key) == Band.pinned:
            yield
            return
        before = entry.key
        head = pack(Band.starved, PRIORITY_MOST, rank_of(before), ordinal_of(before))
        _put(memory, entry, head)
        try:
            yield
        finally:
            _put(memory, entry, before)


def with_first_choice(plan: Plan, job: Job, view: View, placement: Placement) -> Plan:
    """Return a plan in which a job stays, or starts before all others.

    It has the first choice of what is free and of what those hold that the plan suspends. Who then
    finds no room is refused when the plan is checked.

    Args:
        plan: of a policy without an order.
        job: is to be first.
        view: what the plan was made on.
        placement: finds GPUs.
    """
    job_id = job.job_id
    if job.allocation.shares:
        stay = [each for each in plan.changes if not _leaves(each, job_id)]
        return replace(plan, changes=tuple(stay), is_drafted=False)
    if not job.is_eligible or any(each.job_id == job_id for each in plan.changes):
        return plan
    leaving = [each for each in plan.changes if type(each) is Suspend]
    found = _place_after(leaving, job, view, placement)
    if found is None:
        return plan
    first = Start(job_id, found, Because(RULE))
    rest = [each for each in plan.changes if type(each) is not Suspend]
    waits = tuple(each for each in plan.job_waits if each[0] != job_id)
    return replace(plan, changes=(*leaving, first, *rest), job_waits=waits, is_drafted=False)


def _place_after(
    leaving: Sequence[Suspend], job: Job, view: View, placement: Placement
) -> Allocation | None:
    jobs: Mapping[JobId, Job] = view.jobs
    demand = job.demand
    with Draft(view) as draft:
        for each in leaving:
            draft.free(jobs[each.job_id])
        names = demand.gpu_types or view.pools if demand.gpus else pools_without_gpus(view.pools)
        for name in names:
            if name in view.pools:
                shares = draft.place(placement, name, demand)
                if not isinstance(shares, Reason):
                    return Allocation(shares)
    return None


def _leaves(change: Change, job_id: JobId) -> bool:
    return type(change) is Suspend and change.job_id == job_id


def _put(memory: Ranking, entry: Entry, key: int) -> None:
    """Let a job stand elsewhere in the order, where it runs or waits."""
    waits = entry.pool == NO_POOL
    if waits:
        memory.classes[entry.number].remove(entry.key)
    else:
        memory.unseat(entry)
    entry.key = key
    if waits:
        memory.classes[entry.number].add(key)
    else:
        memory.seat(entry)
