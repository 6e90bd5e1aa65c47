"""No policy of other people is trusted: every change is checked before it becomes a fact.

Changes are checked in plan order and carried out in a draft, each on what those before it left. One
that does not fit is refused alone, with its reason. A suspension is dropped once all its
beneficiaries were refused. A GPU is given twice only where every tenant of it is packed. What our
own policies made on a draft was checked as it was made.

First come changes of CPUs and memory, and sizes; then `approve` and `Check`, the rules of every
change; last the approver of proposals, which uses the same check.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shunter.core.cluster import Health, Server, gpus_of
from shunter.core.plan import Change, Move, Pack, Plan, Rehome, Reshape, Resize, Start, Suspend
from shunter.core.planning.draft import Draft
from shunter.core.planning.placement import is_within
from shunter.core.planning.proposals import Decentralised
from shunter.core.speeds import level_of
from shunter.core.state import AT_WORK, ENDING, RUNNING, Job, State
from shunter.core.view import Guards
from shunter.events import (
    CALLER,
    NO_SUCH_JOB,
    PROPOSED,
    Allocation,
    ConfigurationSet,
    Demand,
    Event,
    JobId,
    JobSpec,
    Level,
    NodeName,
    Reason,
    Resources,
    Share,
    Sharing,
    SuspendMode,
    fact,
    facts,
    record,
)

# Jobs may swap CPUs and memory in a circle, so all are taken first and checked afterwards.

Refusal = tuple[Reason, str]


def reshape_together(
    draft: Draft, state: State, changes: Sequence[Reshape]
) -> dict[JobId, Refusal]:
    """Carry changes of shares out in a draft; return refusals by job.

    Those that could not be allowed on any server are refused alone, the others all or none.
    """
    servers = state.cluster.servers
    refused: dict[JobId, Refusal] = {}
    mark, more = draft.mark, dict[NodeName, Resources]()
    for change in changes:
        job = state.jobs[change.job_id]
        refusal = refused_shape(job, change.allocation)
        if refusal is not None:
            refused[job.job_id] = refusal
            continue
        draft.reshape(job.allocation, change.allocation)
        for old, new in zip(job.allocation.shares, change.allocation.shares, strict=True):
            more[new.node] = more.get(new.node, Resources()) + (new.beside - old.beside)
    short = next((node for node in more if not _fits(draft, servers[node], more[node])), None)
    if short is not None:
        draft.rollback(mark)
        why = Reason.cpu_or_memory_short, f"node {short} has too little CPU or memory left"
        refused |= {change.job_id: why for change in changes if change.job_id not in refused}
    return refused


def refused_shape(job: Job, target: Allocation) -> Refusal | None:
    """Return why a job cannot have such shares, whatever its servers have left."""
    before = job.allocation
    if job.is_of_one_size:
        return Reason.refused, "its attempt refused other CPUs or memory before"
    if not before.shares:
        return Reason.refused, f"the job is {job.phase} and has no shares to change"
    if target.sharing is not before.sharing or not target.is_on_gpus_of(before):
        return Reason.refused, "a job that is reshaped keeps its GPUs"
    if any(share.cpus_milli < 0 or share.memory_mb < 0 for share in target.shares):
        return Reason.refused, "an allocation cannot take less than nothing"
    asked = Resources(0, job.spec.cpus_milli, job.spec.memory_mb)
    if not asked.fit_beside(sum([share.beside for share in target.shares], Resources())):
        return Reason.cpu_or_memory_short, "less CPU or memory than the job asks for"
    return None


def _fits(draft: Draft, server: Server, more: Resources) -> bool:
    """Say whether a server has what was taken of it.

    A draft knows only those that are up.
    """
    if server.is_up:
        return draft.has_beside(Share(server.name, 0))
    return more.fit_beside(server.beside_free)


# Sizes of an elastic job: its own bounds only. The draft says whether the GPUs are free.

KEEPS_STATE = (SuspendMode.cooperative, SuspendMode.signal)
"""The modes that end an attempt with all its work saved, for another number of processes."""


def unfit_for_sizes(spec: JobSpec) -> tuple[str, str] | None:
    """Return the field of a job that contradicts its sizes, and why; None: none.

    Args:
        spec: what is submitted; one that is not elastic contradicts nothing.
    """
    if not spec.is_elastic:
        return None
    fewest, most = spec.sizes
    if not spec.gpus:
        field = "gpus_min" if spec.gpus_min is not None else "gpus_max"
        return field, "expected a job with GPUs"
    if spec.gpus_min is not None and spec.gpus_max is not None and fewest > most:
        return "gpus_min", f"expected gpus_max = {most} at most"
    if fewest < 1:
        return "gpus_min", "expected 1 at least"
    if fewest > spec.gpus:
        return "gpus_min", f"expected gpus = {spec.gpus} at most, with which it starts"
    if most < spec.gpus:
        return "gpus_max", f"expected gpus = {spec.gpus} at least, with which it starts"
    if spec.suspend_mode not in KEEPS_STATE:
        modes = " or ".join(KEEPS_STATE)
        return "suspend_mode", f"expected {modes}: a job that is resized has to keep its state"
    return None


def refused_size(job: Job, target: Allocation) -> tuple[Reason, str] | None:
    """Return why a plan may not give a job another size so; None: it may."""
    spec, gpus = job.submitted_spec, target.gpus
    fewest, most = spec.sizes
    if not spec.is_elastic:
        return Reason.refused, "the job is not elastic: it names neither gpus_min nor gpus_max"
    if not fewest <= gpus <= most:
        return Reason.refused, f"the job takes {fewest} to {most} GPUs, not {gpus}"
    if gpus == job.spec.gpus:
        return Reason.refused, "the job is of that size already"
    if len(target.shares) != 1:
        return Reason.refused, "a job is resized on one server"
    if spec.suspend_mode not in KEEPS_STATE:
        return Reason.refused, f"with suspend mode {spec.suspend_mode} it would lose its state"
    return None


_LEVELS = list(Level)  # the nearest first

_EXCLUSIVE, _PACKED, _SLICED = Sharing
_NEVER = SuspendMode.never

_ID_MOST = 200


@record
class Approval:
    """What may be done of a plan, and what may not."""

    granted: list[Change]
    refused: list[facts.PlanRejected]


def approve(
    plan: Plan,
    state: State,
    guards: Guards,
    now_us: int,
    *,
    takes_turns: bool = False,
    homes_are_fixed: bool = False,
    settle: Callable[["Check"], None] | None = None,
) -> Approval:
    """Check a plan gang by gang.

    Args:
        plan: what a policy wants.
        state: the cluster and the jobs.
        guards: which jobs keep what they have.
        now_us: the instant.
        takes_turns: whether jobs can share GPUs in turns here.
        homes_are_fixed: whether those that do keep their GPUs, but for those that can move.
        settle: what else is checked on what the changes leave.
    Returns:
        the changes that may be carried out, in plan order, and the refusals as facts.
    """
    if plan.is_drafted and settle is None:
        return Approval(list(plan.changes), [])
    dropped: set[JobId] = set()
    first: dict[JobId, facts.PlanRejected] = {}
    with Draft(state) as draft:
        while True:
            check = Check(state, draft, guards, now_us, takes_turns, homes_are_fixed)
            approval = check.run(plan, dropped)
            for refusal in approval.refused:
                first.setdefault(refusal.job_id, refusal)
            vain = _in_vain(approval) if approval.refused else None
            if not vain:
                break
            dropped |= vain
            draft.rollback(0)
        if settle is not None:
            settle(check)
    # What a job was refused for at first, and not that nobody makes room for it since.
    approval.refused = [first[refusal.job_id] for refusal in approval.refused]
    return approval


def no_such_job(job_id: JobId, rule: str, now_us: int) -> facts.PlanRejected:
    """Return the refusal of what a plan wants for a job that does not exist."""
    named = JobId(job_id[:_ID_MOST])
    return facts.PlanRejected(now_us, named, Reason.refused, rule, NO_SUCH_JOB)


def _in_vain(approval: Approval) -> set[JobId]:
    """Return the jobs to be suspended only for jobs that were refused."""
    granted = {change.job_id for change in approval.granted}
    refused = {refusal.job_id for refusal in approval.refused}
    return {
        change.job_id
        for change in approval.granted
        if isinstance(change, Suspend)
        and any(gainer in refused for gainer in change.because.beneficiaries)
        and not any(gainer in granted for gainer in change.because.beneficiaries)
    }


@dataclass
class Check:
    """One pass over a plan, carried out in a draft as far as it is allowed."""

    state: State
    draft: Draft
    guards: Guards
    now_us: int
    takes_turns: bool = False
    homes_are_fixed: bool = False
    given: dict[JobId, Sharing] = field(default_factory=dict)
    reshaped: dict[JobId, Allocation] = field(default_factory=dict)
    otherwise: set[JobId] = field(default_factory=set)

    @property
    def servers(self) -> Mapping[NodeName, Server]:
        """The servers by name."""
        return self.state.cluster.servers

    def run(self, plan: Plan, dropped: set[JobId]) -> Approval:
        """Check every change in order, leaving out the suspensions in `dropped`."""
        approval, seen, left = Approval([], []), set[JobId](), set[JobId]()
        jobs, granted = self.state.jobs, approval.granted
        reshaped: dict[JobId, Refusal] = {}
        for number, change in enumerate(plan.changes):
            job_id = change.job_id
            job = jobs.get(job_id)
            if job is None:
                rule = change.because.rule
                approval.refused.append(no_such_job(job_id, rule, self.now_us))
                continue
            follows = number > 0 and type(plan.changes[number - 1]) is Reshape
            if type(change) is Reshape and not follows:
                reshaped = self._reshape(plan.changes, number, seen)
            if job_id in dropped:
                continue  # it would make room in vain
            if job_id in left and type(change) is Start:
                # It has given its GPUs back and takes others: gangs may move in a circle.
                refusal: Refusal | None = self.take(job, change.allocation, job.demand)
                left.discard(job_id)
            elif job_id in seen:
                refusal = Reason.refused, "a plan may change a job only once"
            elif type(change) is Reshape:
                refusal = reshaped.get(job_id)
            elif type(change) is Resize:
                refusal = self._resize(job, change)
            elif type(change) is not Start:
                refusal = self._leave(job, change, job.demand)
            elif job.is_eligible:
                refusal = self.take(job, change.allocation, job.demand)
            else:
                refusal = Reason.refused, f"the job is {job.phase}, on hold or blocked"
            seen.add(job_id)
            if refusal is None:
                granted.append(change)
                if type(change) is Reshape:
                    self.reshaped[job_id] = change.allocation
                else:
                    self.otherwise.add(job_id)
                if type(change) is Suspend:
                    left.add(job_id)
            else:
                reason, detail = refusal
                rule = change.because.rule
                approval.refused.append(
                    facts.PlanRejected(self.now_us, job_id, reason, rule, detail)
                )
        return approval

    def _reshape(
        self, changes: Sequence[Change], first: int, seen: set[JobId]
    ) -> dict[JobId, Refusal]:
        """Carry out the changes of shares from one on; return refusals."""
        together: dict[JobId, Reshape] = {}
        for change in changes[first:]:
            if type(change) is not Reshape:
                break
            if change.job_id in self.state.jobs and change.job_id not in seen:
                together.setdefault(change.job_id, change)
        return reshape_together(self.draft, self.state, list(together.values()))

    def _resize(self, job: Job, change: Resize) -> Refusal | None:
        """Check another size of a job, and take it there, whether it runs or waits."""
        refusal = refused_size(job, change.allocation)
        if refusal is not None:
            return refusal
        demand = self.state.demand_of(job.submitted_spec.resized(change.allocation.gpus))
        if job.allocation.shares:
            return self._leave(job, change, demand)
        if not job.is_eligible:
            return Reason.refused, f"the job is {job.phase}, on hold or blocked"
        return self.take(job, change.allocation, demand)

    def _leave(self, job: Job, change: Change, demand: Demand) -> Refusal | None:
        if not job.allocation.shares or job.end_cause or job.phase is ENDING:
            return Reason.refused, f"the job is {job.phase} and has nothing to give back"
        if type(change) is Pack:
            return self._open_up(job, change.allocation)
        if type(change) is Rehome:
            return self._rehome(job, change.allocation)
        if not self.guards.are_off or job.phase is not RUNNING or job.spec.suspend_mode is _NEVER:
            pinned = self.guards.pinned_by(job, self.now_us)
            if pinned is not None and not self._may_be_promised_others(job, change):
                return pinned, "the job is guarded, or has not been launched where it is to run"
        mark = self.draft.mark
        self.draft.free(job)
        refusal = None
        if isinstance(change, Move | Resize):
            refusal = self.take(job, change.allocation, demand)
        if refusal is not None:
            self.draft.rollback(mark)
        return refusal

    def _may_be_promised_others(self, job: Job, change: Change) -> bool:
        """Say whether a job that waits for its GPUs may wait for others instead."""
        goes_on = type(change) is Move or type(change) is Resize
        return job.phase not in AT_WORK and goes_on and not self.guards.guarded_by(job, self.now_us)

    def take(self, job: Job, target: Allocation, demand: Demand) -> Refusal | None:
        """Check an allocation against what is left and a demand, and take it."""
        refusal = (
            self._sharing(job, target)
            or self._servers(job, target)
            or self._alike(target)
            or self._gang(target, demand)
            or self._quota(job, demand.gpus)
        )
        if refusal is None:
            self.draft.allocate(job, target)
            self.given[job.job_id] = target.sharing
        return refusal

    def _open_up(self, job: Job, target: Allocation) -> Refusal | None:
        """Check that a job may have tenants from now on where it is, and open its GPUs."""
        before = job.allocation
        if target.sharing is not _PACKED or target.shares != before.shares or not job.spec.gpus:
            return Reason.refused, "a job that is packed keeps its GPUs"
        if before.sharing is not _EXCLUSIVE:
            return Reason.refused, "the job shares its GPUs already"
        if any(
            self.servers[share.node].configuration.unit_cpus_milli
            for share in before.shares
            if share.node in self.servers
        ):
            return Reason.refused, "units of CPU are not shared"
        self.draft.open_up(job, target)
        self.given[job.job_id] = target.sharing
        return None

    def _rehome(self, job: Job, target: Allocation) -> Refusal | None:
        """Check that a job in turns may have other GPUs of its server, and take them."""
        if not job.takes_turns_on_server_of(target):
            return Reason.refused, "the job takes no turns on as many GPUs of that server"
        if self.homes_are_fixed and not job.can_move:
            return Reason.refused, "the job works on the GPUs that it was launched with"
        mark = self.draft.mark
        self.draft.free(job)
        refusal = self.take(job, target, job.demand)
        if refusal is not None:
            self.draft.rollback(mark)
        return refusal

    def _sharing(self, job: Job, target: Allocation) -> Refusal | None:
        """Check that a job may share what it is to share."""
        if target.sharing is _EXCLUSIVE:
            return None
        if not job.spec.gpus:
            return Reason.refused, "only whole GPUs can be shared, by jobs that have some"
        if target.sharing is _SLICED and not self.takes_turns:
            return Reason.refused, "jobs take turns on GPUs with policy.slicing only"
        there = [self.servers.get(share.node) for share in target.shares]
        if not all(server is None or accepts(job, server) for server in there):
            return Reason.gpu_type_unavailable, "the job does not accept this GPU type"
        if any(server is not None and server.configuration.unit_cpus_milli for server in there):
            return Reason.refused, "units of CPU are not shared"
        return None

    def _alike(self, target: Allocation) -> Refusal | None:
        """Check that all who share a GPU do so in one way."""
        if target.sharing is _EXCLUSIVE:
            return None
        for gpu in [gpu for share in target.shares for gpu in gpus_of(share)]:
            tenants = self.draft.tenants.of(gpu)
            if any(self._sharing_of(name) is not target.sharing for name in tenants):
                return Reason.refused, "jobs on a GPU run at once or in turns, all of them alike"
        return None

    def _sharing_of(self, job_id: JobId) -> Sharing:
        given = self.given.get(job_id)
        return self.state.jobs[job_id].allocation.sharing if given is None else given

    def _servers(self, job: Job, target: Allocation) -> Refusal | None:
        """Check that each server has what is wanted of it, and gives it to this job."""
        for share in self.draft.unopened(target):
            refusal = self._check_share(job, share)
            if refusal is not None:
                return refusal
        return None

    def _check_share(self, job: Job, share: Share) -> Refusal | None:
        node = share.node
        server = self.servers.get(node)
        if server is None:
            return Reason.refused, f"there is no node {node}"
        if not server.is_up:
            is_drained = server.health is Health.up
            reason = Reason.node_drained if is_drained else Reason.node_lost
            return reason, f"node {node} takes no jobs"
        if server.lacks(share):
            return Reason.refused, f"node {node} has no such GPUs to give"
        if not self.draft.has_gpus(share):
            return Reason.no_capacity, f"GPUs of node {node} are taken"
        if share.gpu_mask and not accepts(job, server):
            return Reason.gpu_type_unavailable, "the job does not accept this GPU type"
        if share.cpus_milli < 0 or share.memory_mb < 0:
            return Reason.refused, "an allocation cannot take less than nothing"
        if share.cpus_milli < share.gpus * server.configuration.unit_cpus_milli:
            return Reason.refused, f"units of node {node} are given without all of their CPUs"
        if (share.cpus_milli or share.memory_mb) and not self.draft.has_beside(share):
            return Reason.cpu_or_memory_short, f"node {node} has too little CPU or memory left"
        return None

    def _gang(self, target: Allocation, demand: Demand) -> Refusal | None:
        """Check that a gang is whole, and as near together as is demanded."""
        shares, gpus = target.shares, target.gpus
        if gpus != demand.gpus:
            return Reason.refused, f"{gpus} GPUs instead of the gang of {demand.gpus}"
        if not demand.accepts_split([share.gpus for share in shares]):
            reason = Reason.split_kept if demand.keeps_split else Reason.locality_not_met
            return reason, "the job does not accept this split over servers"
        if gpus and demand.max_level is not None:
            nodes = {share.node: self.servers[share.node].configuration for share in shares}
            if not is_as_near(target, nodes, demand.max_level):
                level = level_of(target, nodes)
                return Reason.locality_not_met, f"its GPUs would only share a {level}"
        if not shares:
            return Reason.refused, "an allocation must name a server"
        if len({share.node for share in shares}) != len(shares):
            return Reason.refused, "an allocation names a server twice"
        types = {self.servers[share.node].configuration.gpu_type for share in shares}
        if gpus and len(types) > 1:
            return Reason.gpu_type_unavailable, "a gang must be of one GPU type"
        return None

    def _quota(self, job: Job, gpus: int) -> Refusal | None:
        """Check that a job's queue may use so many GPUs more."""
        queue = job.spec.queue
        left = self.draft.quota_left(queue)
        if left is not None and gpus > left:
            quota_gpus = self.state.queues[queue].quota_gpus
            return Reason.quota, f"queue {queue} may use {quota_gpus} GPUs"
        return None


def accepts(job: Job, server: Server) -> bool:
    """Say whether a job accepts the GPU type of a server."""
    return not job.spec.gpu_types or server.configuration.gpu_type in job.spec.gpu_types


def is_as_near(
    target: Allocation, nodes: Mapping[NodeName, ConfigurationSet], max_level: Level
) -> bool:
    """Say whether all GPUs of an allocation share a level, or one nearer."""
    if _LEVELS.index(level_of(target, nodes)) <= _LEVELS.index(max_level):
        return True
    share = target.shares[0]
    return len(nodes) == 1 and is_within(nodes[share.node], share.gpu_mask, max_level)


# Jobs give up what they have beyond what they must (Synergy's tuning), only for a gang that is
# granted.


def taken_with(
    job: Job, target: Allocation, gives: Sequence[Reshape], check: Check
) -> tuple[Refusal | None, tuple[Reshape, ...]]:
    """Take an allocation for a job, after others have given up what it lacks.

    Args:
        job: for whom it is.
        target: the allocation.
        gives: what others can give up, in the order in which they do.
        check: what is left; as it was, where the allocation is refused.
    Returns:
        why the allocation cannot be had, and what they gave up.
    """
    mark, before = check.draft.mark, dict(check.reshaped) if gives else {}
    given = tuple(_given(target, gives, check)) if gives else ()
    refusal = check.take(job, target, job.demand)
    if refusal is None:
        return None, given
    if given:
        check.draft.rollback(mark)
        check.reshaped = before
    return refusal, ()


def _given(target: Allocation, gives: Sequence[Reshape], check: Check) -> list[Reshape]:
    """Let jobs give up what servers of an allocation lack; return what they did."""
    given = []
    for share in target.shares:
        server = check.servers.get(share.node)
        if server is None or not server.is_up:
            continue
        for give in gives:
            if check.draft.has_beside(share):
                break
            is_there = any(each.node == share.node for each in give.allocation.shares)
            if is_there and _gives_up(give, check):
                given.append(give)
    return given


def _gives_up(give: Reshape, check: Check) -> bool:
    """Let a job give something up, if it may and has not yet; say whether it did."""
    job = check.state.jobs.get(give.job_id)
    if job is None or job.job_id in check.otherwise:
        return False
    before, after = check.reshaped.get(job.job_id, job.allocation), give.allocation
    if before == after or refused_shape(job, after) is not None:
        return False
    pairs = zip(before.shares, after.shares, strict=True)
    if not all(new.beside.fit_beside(old.beside) for old, new in pairs):
        return False
    check.draft.reshape(before, after)
    check.reshaped[job.job_id] = after
    return True


# A gang is granted whole if its GPUs are free now, however old the view in which they were found
# (optimistic concurrency; Xiao, SOSP student research competition 2017).

KEPT = "kept for a job that was rejected too often"
NOT_ADMITTED = "the order does not let the job start now"


Masks = Mapping[NodeName, Mapping[JobId, int]]


class Rules(Protocol):
    """What the approver needs to know of the rules of a round."""

    @property
    def guards(self) -> Guards:
        """Which jobs keep what they have."""

    @property
    def seed(self) -> int:
        """The seed of the back-off."""

    @property
    def instant(self) -> bool:
        """Whether what is granted is had at once."""

    @property
    def decentralised(self) -> Decentralised | None:
        """How job schedulers propose; None: they do not."""


@fact
class Granted:
    """Which candidate is granted, and what others gave up for it."""

    choice: int
    gives: tuple[Reshape, ...] = ()


@fact
class Refused:
    """Why the first candidate cannot be granted, nor any other; its taken GPUs."""

    reason: Reason
    detail: str
    conflicts: tuple[tuple[NodeName, int], ...] = ()


def settled(plan: Plan, check: Check, rules: Rules) -> Iterator[Event]:
    """Yield the facts of proposals, each checked on what those before it left.

    Args:
        plan: its changes have been made in the draft of the check.
        check: what is left, and takes what is granted.
        rules: those of the round.
    """
    state, now_us = check.state, check.now_us
    kept = kept_masks({promise.job_id: promise.shares for promise in plan.reservations})
    proposed: set[JobId] = set()
    for proposal in plan.proposals:
        job_id = proposal.job_id
        job = state.jobs.get(job_id)
        if job is None:
            yield no_such_job(job_id, "proposal", now_us)
            continue
        if job_id in proposed or not proposal.candidates:
            detail = "a plan proposes a job once, with one candidate or more"
            yield facts.PlanRejected(now_us, job_id, Reason.refused, "proposal", detail)
            continue
        proposed.add(job_id)
        version = min(proposal.version, state.seq)
        yield facts.GangProposed(now_us, job_id, version, proposal.candidates)
        granted = judged(job, proposal.candidates, check, kept, proposal.gives)
        if isinstance(granted, Refused):
            yield _rejected(granted, job, state, now_us, rules)
        else:
            target = proposal.candidates[granted.choice]
            for give in granted.gives:
                yield facts.JobReshaped(now_us, give.job_id, give.allocation, give.because)
            yield facts.GangApproved(now_us, job_id, state.seq, granted.choice)
            yield facts.AllocationChanged(now_us, job_id, target, proposal.because, rules.instant)


def gang_reactions(
    state: State, rules: Rules
) -> dict[type[Event], Callable[[facts.GangProposed, None], Sequence[Event]]]:
    """Return what follows from proposals: from those of callers, an answer."""

    def proposed(event: facts.GangProposed, before: None) -> Sequence[Event]:
        return answered(event, state, rules) if event.cause == CALLER else ()

    return {facts.GangProposed: proposed}


def answered(event: facts.GangProposed, state: State, rules: Rules) -> list[Event]:
    """Return what follows from a proposal of a caller that has just been folded."""
    granted = looked_at(event, state, rules)
    job = state.jobs[event.job_id]
    if isinstance(granted, Refused):
        return [_rejected(granted, job, state, event.at_us, rules, CALLER)]
    target = event.candidates[granted.choice]
    return [
        facts.GangApproved(event.at_us, job.job_id, state.seq, granted.choice, CALLER),
        facts.AllocationChanged(event.at_us, job.job_id, target, PROPOSED, rules.instant),
    ]


def looked_at(event: facts.GangProposed, state: State, rules: Rules) -> Granted | Refused:
    """Return which candidate of a caller's proposal can be granted now, or why none."""
    book, job = state.proposals, state.jobs[event.job_id]
    if rules.decentralised is None:
        return Refused(Reason.refused, "job schedulers do not propose here")
    if job.job_id not in book.admitted:
        wait = job.wait or state.class_waits.get(job.waits_as)
        return Refused(Reason.waiting_for_round if wait is None else wait.reason, NOT_ADMITTED)
    with Draft(state) as draft:
        check = Check(state, draft, rules.guards, event.at_us)
        return judged(job, event.candidates, check, kept_masks(book.reserved))


def judged(
    job: Job,
    candidates: tuple[Allocation, ...],
    check: Check,
    kept: Masks,
    gives: Sequence[Reshape] = (),
) -> Granted | Refused:
    """Take the first candidate that is wholly free; return which, or why none is.

    Args:
        job: for whom it is.
        candidates: the best first.
        check: what is left.
        kept: the masks of the GPUs that are kept for jobs, by server and job.
        gives: what others can give up of CPUs and memory.
    """
    if not job.is_eligible:
        return Refused(Reason.refused, f"the job is {job.phase}, on hold or blocked")
    first: tuple[Reason, str] | None = None
    for number, target in enumerate(candidates):
        refusal = _kept_from(job, target, kept) if kept else None
        if refusal is None and target.sharing is not _EXCLUSIVE:
            refusal = Reason.refused, "a gang that is proposed has its GPUs to itself"
        if refusal is None:
            refusal, given = taken_with(job, target, gives, check)
            if refusal is None:
                return Granted(number, given)
        first = first or refusal
    assert first is not None, "a proposal names a candidate"
    return Refused(*first, _conflicts(job, candidates[0], check, kept))


def kept_masks(reserved: Mapping[JobId, tuple[Share, ...]]) -> Masks:
    """Return the masks of the GPUs that are kept for jobs, by server."""
    found: dict[NodeName, dict[JobId, int]] = {}
    for job_id, shares in reserved.items():
        for share in shares:
            found.setdefault(share.node, {})[job_id] = share.gpu_mask
    return found


def _kept_from(job: Job, target: Allocation, kept: Masks) -> tuple[Reason, str] | None:
    for share in target.shares:
        if share.gpu_mask & _of_others(job, share.node, kept):
            return Reason.outranked, KEPT
    return None


def _of_others(job: Job, node: NodeName, kept: Masks) -> int:
    """Return the mask of the GPUs of a server that are kept for other jobs."""
    mask = 0
    for job_id, theirs in kept.get(node, {}).items():
        if job_id != job.job_id:
            mask |= theirs
    return mask


def _conflicts(
    job: Job, target: Allocation, check: Check, kept: Masks
) -> tuple[tuple[NodeName, int], ...]:
    """Return the masks of the GPUs of an allocation that are not free for a job."""
    found = []
    for share in target.shares:
        server = check.servers.get(share.node)
        if server is None:
            continue
        free = check.draft.pools[server.configuration.gpu_type].free[server.position]
        taken = share.gpu_mask & server.all_gpus & ~(free & ~_of_others(job, share.node, kept))
        if taken:
            found.append((share.node, taken))
    return tuple(found)


def _rejected(
    refused: Refused, job: Job, state: State, now_us: int, rules: Rules, cause: str = ""
) -> facts.GangRejected:
    """Return the fact of a rejection, with when the job may be proposed again."""
    scheme, retry_us = rules.decentralised, None
    if scheme is not None:
        rejected = state.proposals.rejected_in_a_row(job.job_id) + 1
        retry_us = scheme.retry_at(job, rejected, now_us, rules.seed)
    return facts.GangRejected(
        *(now_us, job.job_id, state.seq, refused.reason, refused.conflicts, cause, refused.detail),
        retry_us=retry_us,
    )
