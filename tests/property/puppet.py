"""A policy of a third party that returns whatever it was told to, however foolish."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from shunter.core import Change, Job, JobPhase, Move, Pack, Plan, Rng, Start, State, Suspend, View
from shunter.core.planning import FirstFit, place
from shunter.events import Allocation, Because, JobId, NodeName, Reason, Share, Sharing
from tests.stateless import Stateless

GRANTED, SUSPENDING = JobPhase.granted, JobPhase.suspending


@dataclass
class Puppet(Stateless):
    """Plans its wishes once, at the next instant at which it may."""

    name: str = "puppet"
    version: str = "1"
    oracle: bool = False
    wishes: list[Change] = field(default_factory=list)

    def wake_at(self, memory: None) -> int | None:
        return 0 if self.wishes else None

    def settled(self, memory: None) -> bool:
        return not self.wishes

    def plan(self, memory: None, view: View, rng: Rng) -> Plan:
        return Plan(tuple(self.wishes))


@st.composite
def wishes(draw: st.DrawFn, state: State) -> list[Change]:
    """Return changes, some of them sensible, of jobs that are mostly there."""
    moving = [name for name, job in state.jobs.items() if job.phase in (GRANTED, SUSPENDING)]
    names = [*state.jobs, *moving, *moving, JobId("nobody")]
    found = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    couples = draw(_couples(state)) if draw(st.booleans()) else []
    return [*couples, *(draw(_wish(name, state, names)) for name in found)]


@st.composite
def _couples(draw: st.DrawFn, state: State) -> list[Change]:
    """Return changes that put a job beside one of its size that has GPUs, open to others or not."""
    placed = [job for job in state.jobs.values() if job.allocation.gpus]
    waiting = [job for job in state.jobs.values() if job.is_eligible and job.spec.gpus]
    pairs = [(one, two) for one in placed for two in waiting if one.spec.gpus == two.spec.gpus]
    if not pairs:
        return []
    one, two = draw(st.sampled_from(pairs))
    where, because = Allocation(one.allocation.shares, Sharing.packed), Because("couple")
    starting = Start(two.job_id, where, because)
    return [Pack(one.job_id, where, because), starting] if draw(st.integers(0, 3)) else [starting]


@st.composite
def _wish(draw: st.DrawFn, job_id: JobId, state: State, names: list[JobId]) -> Change:
    gainers = tuple(draw(st.lists(st.sampled_from(names), max_size=2)))
    because = Because("wish", (), gainers)
    job = state.jobs.get(job_id)
    placed = job is not None and bool(job.allocation.shares)
    likely = ["suspend", "move", "move", "pack"] if placed else ["start", "start", "start"]
    kind = draw(st.sampled_from([*likely, "start", "suspend", "move"]))
    if kind == "suspend":
        return Suspend(job_id, because)
    if kind == "pack" and job is not None:
        return Pack(job_id, Allocation(job.allocation.shares, Sharing.packed), because)
    where = draw(_allocation(job_id, state))
    return Start(job_id, where, because) if kind == "start" else Move(job_id, where, because)


@st.composite
def _spoilt(draw: st.DrawFn, shares: tuple[Share, ...]) -> list[Share]:
    """Return good shares with other CPUs and memory than they should have."""
    cpus, memory = draw(st.integers(-9000, 9000)), draw(st.integers(-9, 9))
    return [Share(share.node, share.gpu_mask, cpus, memory) for share in shares]


@st.composite
def _likely_beside(draw: st.DrawFn, job: Job | None, state: State) -> tuple[Share, ...]:
    """Return the place of another job, mostly of one that is as large."""
    alike = [
        other.allocation.shares
        for other in state.jobs.values()
        if other is not job and job is not None and other.allocation.gpus == job.spec.gpus
    ]
    every = [other.allocation.shares for other in state.jobs.values()]
    return draw(st.sampled_from(alike or every or [()]))


@st.composite
def _allocation(draw: st.DrawFn, job_id: JobId, state: State) -> Allocation:
    """Return a place where the job fits now, that of another one, or any nonsense."""
    job = state.jobs.get(job_id)
    choice = draw(st.integers(0, 6))
    if choice > 4:
        sharing = draw(st.sampled_from([Sharing.packed, Sharing.packed, Sharing.exclusive]))
        return Allocation(draw(_likely_beside(job, state)), sharing)
    if job is not None and choice > 1:
        pool = draw(st.sampled_from(list(state.cluster.pools.values())))
        shares = place(FirstFit(), pool.copied(), job.demand)
        if isinstance(shares, Reason):
            return Allocation()
        return Allocation(shares if choice > 2 else tuple(draw(_spoilt(shares))))
    if choice == 1:
        return draw(st.sampled_from([*state.jobs.values()])).allocation
    nodes = [*state.cluster.servers, NodeName("nowhere")]
    amount = st.integers(-2, 9)
    share = st.builds(
        Share, st.sampled_from(nodes), st.integers(-1, 40), amount.map(lambda n: n * 1000), amount
    )
    return Allocation(
        tuple(draw(st.lists(share, max_size=3))),
        draw(st.sampled_from([Sharing.exclusive, Sharing.exclusive, Sharing.packed])),
    )
