"""A plan with the sizes of all that it starts, moves, proposes and lets go on."""

from shunter.core.planning.plan import (
    EMPTY_PLAN,
    Change,
    Move,
    Plan,
    Proposal,
    Reshape,
    Start,
    Suspend,
)
from shunter.core.sizing.guarantees import with_shares
from shunter.core.sizing.servers import SHRUNK, Servers
from shunter.core.sizing.sized_jobs import SizedJob
from shunter.core.sizing.sizing_input import Shares, SizingInput
from shunter.core.state import Job
from shunter.events.values.allocation import Allocation
from shunter.events.values.fact import replace
from shunter.events.values.reasons import Because


def sized_plan(plan: Plan, given: SizingInput, *, is_drafted: bool) -> Plan:
    """Return a plan in which jobs get their sizes, also some of those that run.

    Suspensions come first, then what jobs give up and get, and then all that needs it.

    Args:
        plan: what the policy wants; jobs have what they are guaranteed.
        given: the round that it makes.
        is_drafted: whether changed sizes alone need no approval.
    """
    sizes = _Sizes(given)
    reshapes = sizes.reshapes()
    if not (plan.changes or plan.proposals or reshapes):
        return plan
    if plan is EMPTY_PLAN:
        return Plan(reshapes, is_drafted=is_drafted)
    leave: list[Change] = []
    come: list[Change] = []
    for change in plan.changes:
        if type(change) is Suspend:
            leave.append(change)
        elif type(change) is Start or type(change) is Move:
            come.append(replace(change, allocation=Allocation(sizes.of_start(change))))
        else:
            come.append(change)
    proposals = tuple([sizes.proposed(proposal) for proposal in plan.proposals])
    return replace(plan, changes=(*leave, *reshapes, *come), proposals=proposals)


class _Sizes:
    """The sizes of one round: what is guaranteed, and where jobs grow, more."""

    def __init__(self, given: SizingInput) -> None:
        self._guarantees, self._jobs = given.guarantees, given.view.jobs
        self._servers: Servers | None = None
        if given.guarantees.sizing.grows:
            self._servers = servers = Servers(given)
            if given.book.answer is None:
                servers.tune()
            else:
                servers.take(given.book.answer)

    def reshapes(self) -> tuple[Reshape, ...]:
        """Return the changes of those that run."""
        servers = self._servers
        if servers is None:
            return ()
        return tuple([servers.reshape(job_id) for job_id in servers.changed()])

    def of_start(self, change: Start | Move) -> Shares:
        """Return what a job has where it starts."""
        if self._servers is not None:
            return self._servers.shares(change.job_id)
        return self._guarantees.beside(self._jobs[change.job_id], change.allocation.shares)

    def proposed(self, proposal: Proposal) -> Proposal:
        """Return a proposal for the least of its job, with what others would give up.

        It comes on top of all changes of the plan: what is granted, nobody knows yet.
        """
        job, servers = self._jobs[proposal.job_id], self._servers
        targets = [
            replace(target, shares=self._least(job, target.shares))
            for target in proposal.candidates
        ]
        proposal = replace(proposal, candidates=tuple(targets))
        if servers is None:
            return proposal
        nodes = [share.node for target in targets for share in target.shares]
        givers = [peer for node in dict.fromkeys(nodes) for peer in servers.as_they_give(node)]
        gives = [
            self._given_up(peer, job) for peer in dict.fromkeys(givers) if peer.has != peer.least
        ]
        return replace(proposal, gives=tuple(gives))

    def _least(self, job: Job, shares: Shares) -> Shares:
        guarantees = self._guarantees
        if self._servers is None or not job.spec.gpus:
            return guarantees.beside(job, shares)
        return with_shares(shares, guarantees.bounds(job, guarantees.pool_of(shares)).least)

    def _given_up(self, sized: SizedJob, gainer: Job) -> Reshape:
        """Return the change by which a running job has its least, for another one."""
        job, sizing = self._jobs[sized.job_id], self._guarantees.sizing
        speeds = sizing.speed(job.spec, sized.has), sizing.speed(job.spec, sized.least)
        shares = with_shares(sized.shares, sized.least)
        because = Because(SHRUNK, speeds, (gainer.job_id,))
        return Reshape(job.job_id, Allocation(shares, job.allocation.sharing), because)
