"""Job lists of the Synergy simulator, played by Shunter: what the literal one is compared with."""

from collections.abc import Sequence
from typing import Any

from shunter.core.planning import PLACEMENTS
from shunter.events import NodeAdded
from shunter.workloads import TraceJob
from shunter_peers.synergy import SynergyPeer, SynergyRounds
from shunter_peers.synergy.policy import SynergyPolicy
from tests.factories import Outcome, World, node_added, run, trace_job
from tests.peers.synergy.literal import PeerJob

SECOND_US = 1_000_000


def peer(**params: Any) -> SynergyPolicy:
    """Return the policy with some parameters."""
    placement = PLACEMENTS["first_fit"]()
    return SynergyPeer.build(SynergyPeer.Params.model_validate(params), placement)


def peer_servers(count: int) -> tuple[NodeAdded, ...]:
    """Return servers of 8 GPUs, 24 CPUs and 500 GB."""
    shape = {"gpus": 8, "cpus_milli": 24_000, "memory_mb": 500_000}
    return tuple(node_added(number, **shape) for number in range(count))


def trace_jobs(jobs: Sequence[PeerJob]) -> tuple[TraceJob, ...]:
    """Return the jobs of a list; how long they run is settled by the rounds."""
    return tuple(
        trace_job(
            job.job_id,
            job.gpus,
            at=round(job.arrival * SECOND_US),
            lasts=SECOND_US,
            model=job.model,
            total_steps=job.iterations,
        )
        for job in jobs
    )


class RoundsWorld(World):
    """A world whose rounds end jobs as the simulator does."""

    def played(self, policy: SynergyPolicy) -> Any:
        """Return its backend for a policy."""
        there = [server.configuration for server in self.servers]
        return SynergyRounds().playing(policy, there).around(self.backend(), 0)


def play(jobs: Sequence[PeerJob], servers: int = 4, **params: Any) -> Outcome:
    """Run a job list in the peer setting."""
    world = RoundsWorld(servers=peer_servers(servers), jobs=trace_jobs(jobs))
    policy = peer(**params)
    return run(world, policy, wrapped=lambda _: world.played(policy))


def ends_s(outcome: Outcome) -> dict[str, int]:
    """Return the end of each finished job in whole seconds."""
    ends = outcome.ends_us()
    assert all(end_us % SECOND_US == 0 for end_us in ends.values())
    return {job_id: end_us // SECOND_US for job_id, end_us in ends.items()}


__all__ = ["ends_s", "peer", "peer_servers", "play", "trace_jobs"]
