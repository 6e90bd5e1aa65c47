"""Job lists of a peer, played by Shunter: what the literal simulators are compared with."""

from collections.abc import Sequence
from typing import Any

from shunter.backends.simulated import Credit, EndSeen, Lease, SimulatedBackend
from shunter.core.planning import PLACEMENTS
from shunter.policies import Fifo, FifoBackfill
from shunter.workloads import TraceJob
from shunter_peers.queueing import BloxPeer, TiresiasPeer
from shunter_peers.remembered_ends import RememberedEnds
from tests.factories import Outcome, World, node_added, run, trace_job
from tests.peers.blox_literal import ROUND_S, BloxJob
from tests.peers.tiresias_literal import PeerJob

SECOND_US = 1_000_000


class RememberingWorld(World):
    """A world that ends jobs as the Tiresias simulator does."""

    def backend(self) -> Any:
        return RememberedEnds().around(SimulatedBackend(self.jobs), 0)


def trace_jobs(jobs: Sequence[PeerJob]) -> tuple[TraceJob, ...]:
    """Return the jobs in the order of submission, in microseconds."""
    return tuple(
        trace_job(
            job.job_id, job.gpus, at=job.submit_s * SECOND_US, lasts=job.duration_s * SECOND_US
        )
        for job in sorted(jobs, key=lambda job: job.submit_s)
    )


def play_tiresias(jobs: Sequence[PeerJob], gpus: int, schedule: str) -> Outcome:
    """Run a job list on one server of so many GPUs in the peer setting."""
    world = RememberingWorld(servers=(node_added(gpus=gpus),), jobs=trace_jobs(jobs))
    return run(world, tiresias_policy(schedule))


def tiresias_policy(schedule: str) -> Any:
    """Return what the example of that schedule chooses."""
    placement = PLACEMENTS["first_fit"]()
    if schedule in ("fifo", "fjf"):
        plugin = Fifo if schedule == "fifo" else FifoBackfill
        return plugin.build(plugin.Params(), placement)
    return TiresiasPeer.build(TiresiasPeer.Params.model_validate({"schedule": schedule}), placement)


def play_blox(jobs: Sequence[BloxJob], gpus: int, schedule: str) -> Outcome:
    """Run a job list of one GPU each on one server in the peer setting."""
    round_us = ROUND_S * SECOND_US
    lease = Lease(credit=Credit.at_grant, end_seen=EndSeen.at_lease_end, round_us=round_us)
    world = World(
        servers=(node_added(gpus=gpus),),
        jobs=tuple(
            trace_job(job.job_id, at=job.arrival_s * SECOND_US, lasts=job.length_ms * 1000)
            for job in sorted(jobs, key=lambda job: job.arrival_s)
        ),
        round_us=round_us,
        lease=lease,
    )
    placement = PLACEMENTS["first_fit"]()
    if schedule == "fifo":
        return run(world, Fifo.build(Fifo.Params(), placement))
    params = BloxPeer.Params.model_validate({"schedule": schedule})
    return run(world, BloxPeer.build(params, placement))


def ends_s(outcome: Outcome) -> dict[str, int]:
    """Return the end of each finished job in whole seconds."""
    ends = outcome.ends_us()
    assert all(end_us % SECOND_US == 0 for end_us in ends.values())
    return {job_id: end_us // SECOND_US for job_id, end_us in ends.items()}
