"""The goal `make_room`: move running jobs so that a gang finds its GPUs together.

Enough GPUs are free for it, but not where its contract wants them (Xiao, SOSP-SRC 2017: the
migration module packs running jobs to make room for a large job with strict locality). Jobs are
moved exactly if the gain, which is stated, exceeds the cost, which is stated:

    gain = GPUs of the gang x how long it would still wait for a place without the moves
    cost = sum over the moves of GPUs of the job x the time that a move takes

How long it would wait is a guess: running jobs end one after another as `expected_us` says, and it
waits until their GPUs and those that are free now have a place for it. What this plan starts stays.

Other goals are tried and measured (`planner.py`), since whether they help nobody knows before. This
one is not for the mover, who gains nothing: what it makes possible is seen at once, and undoing it
would move jobs again. Moved is whom that planner may move, who has had GPUs to itself for ten times
what a move takes, so that moves take a tenth of its time at most; and at most so many in one plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop

from shunter.core.estimates import expected_us
from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft, Needs
from shunter.core.planning.making_room import MAKE_ROOM, ROOM_MADE
from shunter.core.planning.plan import Change, Move, Plan, Start, Suspend
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Because, ClassWait, Reason
from shunter.events.values.trials import MILLION
from shunter.policies.migration.blocks import Blocks, Room
from shunter.policies.migration.planner import RUN_LEAST, may_move


@dataclass(frozen=True)
class MakingRoom:
    """Makes room for gangs of one server.

    Attributes:
        cost_us: what a move costs each GPU of a job, in microseconds.
        moves_most: how many jobs one plan moves at most.
        every_us: how long after a plan to look again, while gangs wait for a place.
    """

    cost_us: int
    moves_most: int
    every_us: int

    def after(
        self,
        plan: Plan,
        view: View,
        placement: Placement,
        gangs: Iterable[Job],
        needs: Needs | None = None,
    ) -> Plan:
        """Return a plan with the moves that pay, and the starts that they make possible."""
        waiting = list(gangs)
        if not waiting:
            return plan
        changed = frozenset(change.job_id for change in plan.changes)
        found: list[Change] = []
        started: list[Job] = []
        with Draft(view) as draft:
            if needs is not None:
                needs.settle(draft)
            draft.carry_out(plan.changes, view.jobs)
            for kept in view.proposals.reserved.values():
                draft.take_back(kept)
            movable = [job for job in view.jobs.values() if self._may_move(job, view, changed)]
            blocks = Blocks(view, draft, movable, self.cost_us, needs)
            in_vain: dict[tuple[tuple[str, Demand], ...], None] = {}
            for job in waiting:
                left = self.moves_most - len(found) + len(started)
                if not left or not movable:
                    break
                demands = _demands(job, draft, needs)
                if tuple(demands.items()) in in_vain or not _may_start(job, draft):
                    continue
                moved = changed.union(change.job_id for change in found)
                gain_gpu_us = job.demand.gpus * _wait_us(demands, view, draft, placement, moved)
                room = blocks.cheapest(demands, left, gain_gpu_us)
                if room is None:
                    in_vain[tuple(demands.items())] = None
                    continue
                blocks.take(room, job)
                found += _changes(job, room, gain_gpu_us)
                started.append(job)
        return _joined(plan, found, started, view) if started else plan

    def _may_move(self, job: Job, view: View, changed: frozenset[JobId]) -> bool:
        began_us = job.attempt_began_us
        return (
            may_move(job, view, changed)
            and job.allocation.sharing is Sharing.exclusive
            and began_us is not None
            and view.now_us - began_us >= RUN_LEAST * self.cost_us
            and view.guards.pinned_by(job, view.now_us) is None
        )


def _may_start(job: Job, draft: Draft) -> bool:
    """Say whether the quota of a job's queue has so many GPUs left."""
    left = draft.quota_left(job.spec.queue)
    return bool(job.demand.gpus) and (left is None or left >= job.demand.gpus)


def _demands(job: Job, draft: Draft, needs: Needs | None) -> dict[str, Demand]:
    """Return what a gang must find in each pool in which it may be."""
    demand = job.demand
    names = [name for name in demand.gpu_types or draft.pools if name in draft.pools]
    if needs is None:
        return dict.fromkeys(names, demand)
    return {name: needs.demand(demand, job, name) for name in names}


def _wait_us(
    demands: Mapping[str, Demand],
    view: View,
    draft: Draft,
    placement: Placement,
    changed: frozenset[JobId],
) -> int:
    """Return how long a gang would wait for a place, in microseconds.

    Where none is had even then: until the last job has ended that runs and is not changed.
    """
    now_us, mark = view.now_us, draft.mark
    ends = [
        (expected_us(job, now_us), job.ordinal, job)
        for job in view.jobs.values()
        if job.allocation.shares and job.job_id not in changed
    ]
    heapify(ends)  # the first few are often enough
    wait_us = 0
    while ends:
        wait_us, _, job = heappop(ends)
        draft.free(job)
        if any(
            not isinstance(draft.place(placement, name, demand), Reason)
            for name, demand in demands.items()
            if draft.pools[name].gpus_free >= demand.gpus
        ):
            break
    draft.rollback(mark)
    return wait_us


def _changes(gang: Job, room: Room, gain_gpu_us: int) -> list[Change]:
    """Return the moves and the start of the gang, with scores in GPU-seconds."""
    scores = (gain_gpu_us / MILLION, room.cost_gpu_us / MILLION)
    because = Because(MAKE_ROOM, scores, (gang.job_id,))
    moves = [Move(job.job_id, Allocation((share,)), because) for job, share in room.moves]
    start = Start(gang.job_id, Allocation((room.share,)), Because(ROOM_MADE, scores))
    return [*moves, start]


def _joined(plan: Plan, found: Sequence[Change], started: Sequence[Job], view: View) -> Plan:
    """Return a plan with further changes, without reasons that hold no more."""
    gone = {job.job_id for job in started}
    changed = {change.job_id for change in plan.changes if type(change) is not Suspend}
    still = {
        job.waits_as: None
        for job in view.jobs.values()
        if not job.allocation.shares and job.job_id not in gone and job.job_id not in changed
    }
    told = {each.demand: None for each in plan.waits}
    over = [
        ClassWait(demand, None)
        for demand in dict.fromkeys(job.waits_as for job in started)
        if demand not in still and demand not in told and demand in view.class_waits
    ]
    waits = [
        each if each.demand in still or each.wait is None else ClassWait(each.demand, None)
        for each in plan.waits
        if each.demand in still or each.wait is None or each.demand in view.class_waits
    ]
    return replace(
        plan,
        changes=(*plan.changes, *found),
        waits=(*waits, *over),
        job_waits=tuple([each for each in plan.job_waits if each[0] not in gone]),
        reservations=tuple([each for each in plan.reservations if each.job_id not in gone]),
        is_drafted=False,
    )
