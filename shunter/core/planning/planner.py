"""From a view to facts: ask the policy, check its plan, and write down what was decided.

The planner changes nothing. The scheduler emits what it returns, `replay --verify` compares it with
what was recorded, and `why` asks it once more with all reasons.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from shunter.core.cluster import Pool, Server
from shunter.core.fold import home_of
from shunter.core.interfaces import Policy
from shunter.core.plan import Change, Plan, Rehome, Reshape, Resize, Start, Suspend
from shunter.core.planning.approver import Check, approve, no_such_job, settled
from shunter.core.planning.fault_barrier import OnFault
from shunter.core.planning.placement import Consolidated, find
from shunter.core.planning.proposals import Decentralised
from shunter.core.planning.trials import trial_facts, verdicts
from shunter.core.rng import RandomStream
from shunter.core.speeds import TableCheck
from shunter.core.state import Job, State
from shunter.core.view import NO_GUARDS, Guards, View
from shunter.events import (
    BY_POLICY,
    Allocation,
    Event,
    JobId,
    NodeName,
    Share,
    Sharing,
    SolvedFact,
    fact,
    facts,
)

# What fails within its first seconds may fail of where it is (a broken GPU, a folder that is not
# mounted): such a job goes to a server that none of its early failures was on, else to other GPUs.
# A job whose checkpoint is too large to be copied starts there, or not in this round.

_PLACEMENT: Final = Consolidated()


def elsewhere(plan: Plan, state: State) -> Plan:
    """Return a plan whose starts avoid where their jobs failed at once."""
    if plan.proposals or state.proposals.reserved:
        return plan  # places are proposed, and kept, GPU by GPU
    found = {
        number: other
        for number, change in enumerate(plan.changes)
        if type(change) is Start
        and (job := state.jobs.get(change.job_id)) is not None
        and job.failed_on
        and (other := _other_place(job, change.allocation, plan, state)) is not None
    }
    for number, other in found.items():
        changes, start = [*plan.changes], plan.changes[number]
        changes[number] = Start(start.job_id, other, start.because)
        plan = replace(plan, changes=tuple(changes), is_drafted=False)
    return plan


def at_home(plan: Plan, state: State) -> Plan:
    """Return a plan whose starts are where their jobs can go on from what they saved."""
    homes = {
        number: home
        for number, change in enumerate(plan.changes)
        if type(change) is Start
        and (job := state.jobs.get(change.job_id)) is not None
        and job.stays_on is not None
        and (home := home_of(job, state.cluster)) is not None
        and [share.node for share in change.allocation.shares] != [home.name]
    }
    for number in sorted(homes, reverse=True):  # so that those before keep their numbers
        changes, start, home = [*plan.changes], plan.changes[number], homes[number]
        others = [(name, -1) for name in state.cluster.servers if name != home.name]
        place = _place(state.jobs[start.job_id], start.allocation, home, others, plan, state)
        changes[number : number + 1] = (
            [] if place is None else [Start(start.job_id, place, start.because)]
        )
        plan = replace(plan, changes=tuple(changes), is_drafted=False)
    return plan


def _other_place(job: Job, given: Allocation, plan: Plan, state: State) -> Allocation | None:
    """Return another place of the same size for a job; None: it may stay, or must."""
    servers = state.cluster.servers
    known = [share.node in servers for share in given.shares]
    if not given.gpus or given.sharing is not Sharing.exclusive or not all(known):
        return None
    failed = {share.node for share in job.failed_on}
    if not any(share.node in failed for share in given.shares):
        return None
    return next(
        (
            place
            for avoided in _avoided(job.failed_on)
            if (place := _place(job, given, servers[given.shares[0].node], avoided, plan, state))
        ),
        None,
    )


def _place(
    job: Job,
    given: Allocation,
    among: Server,
    avoided: Iterable[tuple[NodeName, int]],
    plan: Plan,
    state: State,
) -> Allocation | None:
    """Return a place for a job that a plan leaves free on servers of one type.

    Args:
        job: whose start it is.
        given: where the plan has it start.
        among: a server of that type.
        avoided: GPUs that are not to be used, as masks of servers.
        plan: what else is done.
        state: of the cluster, before that.
    """
    scratch = state.cluster.pools[among.configuration.gpu_type].copied()
    for change in plan.changes:
        if change.job_id != job.job_id and not isinstance(change, Suspend):
            for share in change.allocation.shares:
                if (position := _position(scratch, state, share.node)) is not None:
                    scratch.take(position, share)
    demand = replace(
        job.demand,
        cpus_milli=sum(share.cpus_milli for share in given.shares),
        memory_mb=sum(share.memory_mb for share in given.shares),
    )
    for node, mask in avoided:
        if (position := _position(scratch, state, node)) is not None:
            scratch.set_free(position, scratch.free[position] & ~mask)
    places = find(_PLACEMENT, scratch, demand)
    if isinstance(places, list) and len(places) <= len(given.shares):
        return Allocation(tuple([share for _, share in places]))
    return None


def _avoided(failed_on: Sequence[Share]) -> Iterator[list[tuple[NodeName, int]]]:
    """Yield what to avoid: servers, then GPUs, of all failures, then of less.

    The mask of a server that is avoided as a whole has every bit.
    """
    for first in range(len(failed_on)):
        yield [(share.node, -1) for share in failed_on[first:]]
        yield [(share.node, share.gpu_mask) for share in failed_on[first:]]


def _position(pool: Pool, state: State, node: NodeName) -> int | None:
    """Return where a server is in a pool; None: in another one, or gone."""
    server = state.cluster.servers.get(node)
    if server is None or server.position >= len(pool.servers):
        return None
    return server.position if pool.servers[server.position] is server else None


@fact
class RoundRules:
    """When plans are made: each `round_us` if anything changed, or (0) at each event.

    With `backend_rounds` the backend says when a round is over. `instant` repeats what the backend
    declares: all its outcomes are immediate and part of the decision. `is_live`: jobs really run.
    With `live_reactions` of a simulation, its core does what one of a live cluster does: it tries
    failed jobs again, lets those wait that are lost again and again, and stops them in place.
    `checkpoints_stay`: checkpoints lie on the servers that saved them. `launches_wait`: attempts
    wait in a queue that is not ours before they start, and that counts neither as service nor to
    limits. `takes_turns`: jobs can share GPUs in turns. `on_fault` says what a fault of the policy
    leads to. `table_check`: what jobs measure corrects the table of sensitivity by which they are
    sized. `learns_tolerance`: what gangs measure becomes the curve of tolerance of their model.
    `decentralised`: job schedulers propose where gangs go. `keeps_homes`: jobs of a simulation that
    take turns keep their GPUs as live ones do. `full_waits`: a plan without classes also says why
    those wait that lose their GPUs by it. `moves_evicted`: the plan that evicts a job gives it
    other GPUs, if some are left. `bounds_departures`: a job whose attempts leave unasked and
    without progress waits longer each time, and fails in the end. `retries_elsewhere`: a job that
    failed in its first seconds starts on other GPUs, if any are left.
    """

    round_us: int
    seed: int = 0
    instant: bool = False
    backend_rounds: bool = False
    all_reasons: bool = False
    guards: Guards = NO_GUARDS
    is_live: bool = False
    live_reactions: bool = False
    checkpoints_stay: bool = False
    launches_wait: bool = False
    takes_turns: bool = False
    on_fault: OnFault = OnFault.stop
    table_check: TableCheck | None = None
    learns_tolerance: bool = False
    decentralised: Decentralised | None = None
    keeps_homes: bool = False
    full_waits: bool = False
    moves_evicted: bool = False
    bounds_departures: bool = False
    retries_elsewhere: bool = False

    @property
    def reacts_as_live(self) -> bool:
        """Whether the core does to jobs what it does on a live cluster."""
        return self.is_live or self.live_reactions

    @property
    def homes_are_fixed(self) -> bool:
        """Whether jobs that take turns keep their GPUs, but for those that can move."""
        return self.is_live or self.keeps_homes

    def view(self, state: State, *, oracle: bool) -> View:
        """Return a closed view of a state for a policy under these rules."""
        return View(
            state,
            self.guards,
            oracle=oracle,
            all_reasons=self.all_reasons,
            homes_are_fixed=self.homes_are_fixed,
            full_waits=self.full_waits,
            moves_evicted=self.moves_evicted,
        )

    def number_at(self, now_us: int, state: State) -> int:
        """Return the number of a round at an instant: on the grid, or counted."""
        on_grid = self.round_us and not self.backend_rounds
        return now_us // self.round_us if on_grid else state.rounds_planned

    def grid_at(self, at_us: int) -> int:
        """Return the first instant from `at_us` on at which a plan may be made."""
        return -(-at_us // self.round_us) * self.round_us if self.round_us else at_us


@dataclass(slots=True)
class Planner:
    """A policy with its memory, on one state."""

    policy: Policy[Any]
    memory: Any
    state: State
    view: View
    rules: RoundRules

    def targets(self, now_us: int) -> SolvedFact | None:
        """Return what the policy solved for, if anything is due; to emit before planning."""
        self.view.now_us = now_us
        self.policy.advance(self.memory, self.view)
        targets = self.policy.target(self.memory, self.view)
        return facts.TargetsSet(now_us, targets) if isinstance(targets, tuple) else targets

    def plan(self, now_us: int) -> tuple[int, Plan]:
        """Return the number of the round at an instant, and what the policy wants in it."""
        self.view.now_us = now_us
        rules, policy = self.rules, self.policy
        number = rules.number_at(now_us, self.state)
        return number, policy.plan(
            self.memory, self.view, RandomStream(rules.seed, policy.name, number)
        )

    def decisions(self, now_us: int, trigger: facts.Trigger) -> list[Event]:
        """Return the facts of one round: the round, its changes, refusals and promises."""
        state = self.state
        number, plan = self.plan(now_us)
        if self.rules.retries_elsewhere:
            plan = elsewhere(plan, state)
        if self.rules.checkpoints_stay and plan.changes:
            plan = at_home(plan, state)
        skipped = number - state.round_number - 1
        found: list[Event] = [
            facts.RoundPlanned(
                now_us,
                number,
                skipped,
                state.seq,
                trigger,
                plan.waits,
                plan.fault,
                self._known(plan.consolidated) if plan.consolidated else (),
                self._known(plan.spread) if plan.spread else (),
                self._known(plan.admitted) if plan.admitted else (),
                self._known(plan.dismissed) if plan.dismissed else (),
            )
        ]
        gangs: list[Event] = []
        granted: Sequence[Change] = ()
        changes: Sequence[Event] = ()
        if plan.changes or plan.proposals:
            granted, changes = self._changes(plan, now_us, gangs)
        if plan.trials:
            found.extend(verdicts(plan, granted, state, now_us))
        found.extend(changes)
        if plan.trials:
            found.extend(trial_facts(plan, granted, state, now_us))
        found.extend(gangs)
        if plan.consolidated or plan.spread:
            found.extend(
                no_such_job(job_id, "class", now_us)
                for job_id in (*plan.consolidated, *plan.spread)
                if job_id not in state.jobs
            )
        if plan.job_waits:
            found.extend(self._waits(plan, now_us))
        if plan.reservations or state.reservations:
            found.extend(self._promises(plan, gangs, now_us))
        return found

    def _changes(
        self, plan: Plan, now_us: int, gangs: list[Event]
    ) -> tuple[Sequence[Change], Sequence[Event]]:
        """Return the changes that may be carried out, and all facts of changes.

        Those of proposals are put into `gangs`.
        """
        rules = self.rules

        def settle(check: Check) -> None:
            gangs.extend(settled(plan, check, rules))

        approval = approve(
            plan,
            self.state,
            rules.guards,
            now_us,
            takes_turns=rules.takes_turns,
            homes_are_fixed=rules.homes_are_fixed,
            settle=settle if plan.proposals else None,
        )
        found: list[Event] = []
        for change in approval.granted:
            job_id, target, because = change.job_id, change.allocation, change.because
            if type(change) is Reshape or type(change) is Rehome:
                found.append(facts.JobReshaped(now_us, job_id, target, because))
            else:
                if type(change) is Resize:
                    found.append(facts.JobResized(now_us, job_id, target.gpus, BY_POLICY))
                found.append(
                    facts.AllocationChanged(now_us, job_id, target, because, rules.instant)
                )
        return approval.granted, [*found, *approval.refused]

    def _known(self, jobs: tuple[JobId, ...]) -> tuple[JobId, ...]:
        """Return the jobs that there are."""
        return tuple(job_id for job_id in jobs if job_id in self.state.jobs)

    def _waits(self, plan: Plan, now_us: int) -> list[Event]:
        """Return why single jobs wait; a job that does not exist waits for nothing."""
        jobs = self.state.jobs
        return [
            facts.WaitReasonChanged(now_us, job_id, wait)
            if job_id in jobs
            else no_such_job(job_id, "wait", now_us)
            for job_id, wait in plan.job_waits
        ]

    def _promises(self, plan: Plan, gangs: Sequence[Event], now_us: int) -> list[Event]:
        """Return what changed of the promises made to waiting jobs.

        One whose proposal was approved needs none any more, and that fact says so.
        """
        kept = {promise.job_id for promise in plan.reservations}
        started = {change.job_id for change in plan.changes}
        approved = {fact.job_id for fact in gangs if type(fact) is facts.GangApproved}
        reserved = self.state.proposals.reserved
        found: list[Event] = [
            facts.ReservationSet(
                now_us, promise.job_id, promise.start_us, promise.gpus, promise.shares
            )
            if promise.job_id in self.state.jobs
            else no_such_job(promise.job_id, "reservation", now_us)
            for promise in plan.reservations
            if promise.job_id not in approved
            and (
                self.state.reservations.get(promise.job_id) != promise.start_us
                or reserved.get(promise.job_id, ()) != promise.shares
            )
        ]
        found.extend(
            facts.ReservationSet(now_us, job_id, None)
            for job_id in self.state.reservations
            if (job_id not in kept | started or job_id in started) and job_id not in approved
        )
        return found
