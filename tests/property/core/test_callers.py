"""64 schedulers of others, in process: each looks into a view of its own and proposes from it.

Whatever they propose and however old their views are: no GPU is granted twice, gangs are whole,
everybody comes through if it goes on, and the log verifies.
"""

import random
from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from shunter.ask import Verifier
from shunter.core import AttemptExited, Input, JobPhase
from shunter.events import Allocation, JobId, NodeName, Share
from tests.factories import job_id
from tests.property.invariants import check_state
from tests.replay.eventful_run import S
from tests.replay.proposing.proposed_run import ProposedScript, propose, submit
from tests.slices import searched

PROPOSERS = 64
GPUS = 8


@dataclass
class View:
    """What a scheduler fetched: the free GPUs by server, and the version."""

    version: int = 0
    free: dict[NodeName, int] = field(default_factory=dict)


def fetched(script: ProposedScript) -> View:
    servers = script.core.state.cluster.servers
    return View(script.core.state.seq, {name: one.offered for name, one in servers.items()})


def place(view: View, gpus: int, rng: random.Random) -> Allocation | None:
    """Return a gang on a server of a view, or over two of them."""
    names = rng.sample(sorted(view.free), len(view.free))
    shares: list[Share] = []
    for name in names:
        bits = [1 << bit for bit in range(GPUS) if view.free[name] >> bit & 1]
        rng.shuffle(bits)
        taken = bits[: gpus - sum(share.gpus for share in shares)]
        if taken:
            shares.append(Share(name, sum(taken)))
        if sum(share.gpus for share in shares) == gpus:
            return Allocation(tuple(shares))
    return None


@searched(12)
@given(seed=st.integers(0, 2**32), every=st.integers(1, 12), name=st.sampled_from(["fifo", "srtf"]))
def test_64_concurrent_proposers_come_through(seed: int, every: int, name: str) -> None:
    """Views are fetched anew each so many steps only; many propose in one step."""
    rng, script = random.Random(seed), ProposedScript(GPUS, GPUS, GPUS, name=name)
    gangs = [rng.choice([1, 1, 2, 4, 8, 12]) for _ in range(PROPOSERS)]
    script.step(*[submit(number, gpus) for number, gpus in enumerate(gangs)])
    views = [fetched(script)] * PROPOSERS
    state = script.core.state
    for number in range(800):
        ended = [one for one in state.jobs.values() if one.phase is not JobPhase.waiting]
        inputs: list[Input] = [
            AttemptExited(0, job.job_id, job.attempt, 0, released=True)
            for job in ended
            if rng.random() < 0.3
        ]
        for caller in rng.sample(range(PROPOSERS), 16):
            job, view = job_id(caller), views[caller]
            kept = state.proposals.reserved.get(job)
            found = place(view, gangs[caller], rng) if kept is None else Allocation(kept)
            if job in state.jobs and found is not None:
                inputs.append(propose(caller, found, version=view.version))
        script.step(*inputs, after_us=rng.randint(1, 5 * S))
        check_state(state)
        if number % every == 0:
            views = [fetched(script) if rng.random() < 0.5 else view for view in views]
        if not state.jobs:
            break
    assert not state.jobs, f"{len(state.jobs)} of {PROPOSERS} still wait"
    assert state.proposals.approved == PROPOSERS
    assert state.proposals.conflicts > 0
    assert state.proposals.is_empty
    recorded = script.recorded()
    divergence = Verifier(recorded.rebuild).take(recorded.events)
    assert divergence is None, "\n".join(divergence.lines())


def test_a_proposer_whose_view_is_never_fetched_anew_is_still_served() -> None:
    """What is kept for it is told with each view, and it names that."""
    script = ProposedScript(4, 4)
    script.step(submit(0), submit(1))
    script.step(propose(0, Allocation((Share(NodeName("n0"), 0b1111),))))
    stale = Allocation((Share(NodeName("n0"), 0b1111),))
    reserved = script.core.state.proposals.reserved
    for _ in range(20):
        kept = reserved.get(JobId("j1"))
        script.step(propose(1, stale if kept is None else Allocation(kept)), after_us=61 * S)
        if script.core.state.jobs[JobId("j1")].allocation.shares:
            return
    raise AssertionError("it was never granted anything")
