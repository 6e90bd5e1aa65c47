"""Links, messages, agents, supervisors, machines and the daemon fail at once, for hours.

Meanwhile people hold jobs and drain servers.

Whatever happens, every job comes to its end, none of its attempts runs while another one does, no
GPU is given to two, none is given back twice, and the log follows from what was seen.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import pytest

from shunter.core import DrainNode, Policy, ReleaseJob, RestoreNode, State, SuspendJob
from shunter.events import JobId, NodeName, Resources
from tests.doubles.simulated_nodes import Disturbance, SimulatedProgram
from tests.doubles.virtual_clock import VirtualClock
from tests.factories import las_policy
from tests.faults.nodes.cluster import LIMITS, NOTHING, Cluster, Submission

SECOND_NS = 10**9
HOUR_US = 3_600_000_000
MORE = [pytest.mark.live, pytest.mark.thorough]
SEEDS = (*range(8), 17, *(pytest.param(seed, marks=MORE) for seed in range(18, 118)))
BOUNDS = (10**9, 10**10)
FAULTS = 60
KINDS = ("silence", "cut", "message", "message", "supervisor", "reboot", "daemon", "hold", "drain")
BEYOND_S = LIMITS.heartbeat_deadline_s + LIMITS.margin_s + 120.0
ASKED = ("start", "start", "send", "fence", "look", "claim", "inventory", "port", "set_aside")


def submissions(rng: Random, count: int) -> list[Submission]:
    """Return jobs of one to three GPUs that come over some hours."""
    found, at_s = [], 0.0
    for number in range(count):
        at_s += rng.expovariate(1 / 1200)
        program = SimulatedProgram(
            work_us=rng.randrange(HOUR_US // 10, 3 * HOUR_US),
            start_us=rng.choice([0, 20_000_000]),
            save_us=rng.choice([0, 5_000_000, 45_000_000]),
            checkpoint_us=rng.choice([0, HOUR_US // 4]),
            dies_us=rng.choice([0, 2_000_000]),
            heeds=rng.choice(["request", "request", "signal", "term", "nothing"]),
            tells=rng.random() < 0.5,
        )
        found.append(Submission(at_s, JobId(f"j{number}"), rng.choice([1, 1, 2, 3]), program))
    return found


async def disturb(cluster: Cluster, rng: Random) -> None:
    """Cause faults for some hours, then let all be as it should."""
    async with anyio.create_task_group() as tasks:
        for _ in range(FAULTS):
            await anyio.sleep(rng.expovariate(1 / 600))
            tasks.start_soon(cause, cluster, rng)


async def cause(cluster: Cluster, rng: Random) -> None:
    """Cause a fault."""
    link = rng.choice(cluster.links)
    kind = rng.choice(KINDS)
    if kind == "silence" and not link.is_silent:
        link.silence()
        await anyio.sleep(rng.choice([5.0, 60.0, 300.0, BEYOND_S]))
        link.restore()
    elif kind == "cut":
        link.cut()
    elif kind == "message":
        link.disturb(rng.choice(ASKED), disturbance(rng))
    elif kind == "supervisor":
        held = [key for key, each in link.node.attempts.items() if each.is_held]
        if held:
            link.node.kill_supervisor(*rng.choice(held))
    elif kind == "reboot":
        link.node.reboot()
    elif kind == "daemon":
        cluster.crashes_at = rng.choice(["begin", "end", ""])
        if not cluster.crashes_at:
            cluster.kill()
    elif kind == "hold" and cluster.jobs:
        await hold(cluster, rng.choice(cluster.jobs), rng.choice([1.0, 100.0, 3000.0]))
    elif kind == "drain":
        await drain(cluster, link.name, rng.choice([1.0, 100.0, 3000.0]))


async def hold(cluster: Cluster, job_id: JobId, for_s: float) -> None:
    """Have somebody hold a job for a while."""

    def is_gone(state: State) -> bool:
        return job_id not in state.jobs

    def is_held(state: State) -> bool:
        return is_gone(state) or state.jobs[job_id].held_by == "ana"

    def is_free(state: State) -> bool:
        return is_gone(state) or state.jobs[job_id].held_by != "ana"

    await cluster.order(lambda at_us: SuspendJob(at_us, job_id, "ana"), is_held)
    await anyio.sleep(for_s)
    await cluster.order(lambda at_us: ReleaseJob(at_us, job_id, "ana"), is_free)


async def drain(cluster: Cluster, node: NodeName, for_s: float) -> None:
    """Have somebody drain a server for a while."""

    def is_drained(state: State) -> bool:
        return state.cluster.servers[node].drained

    await cluster.order(lambda at_us: DrainNode(at_us, node, "ana"), is_drained)
    await anyio.sleep(for_s)
    await cluster.order(lambda at_us: RestoreNode(at_us, node, "ana"), lambda s: not is_drained(s))


def disturbance(rng: Random) -> Disturbance:
    """Return what happens to a message."""
    return rng.choice(
        [
            Disturbance(loses_answer=True),
            Disturbance(loses_question=True),
            Disturbance(late_ns=rng.randrange(60) * SECOND_NS),
            Disturbance(again_after_ns=rng.randrange(600) * SECOND_NS),
        ]
    )


def played(
    seed: int,
    chosen: Policy[Any] | None = None,
    models: Sequence[str] = ("",),
    beside: Resources = NOTHING,
    jobs: int = 12,
) -> Cluster:
    """Return a cluster after all its jobs have come to their ends.

    Args:
        seed: of jobs and faults.
        chosen: the policy; None: `las`.
        models: those of the jobs, in turn.
        beside: what goes with each GPU, if jobs are sized.
        jobs: how many come, twenty minutes apart.
    """
    chosen = las_policy(BOUNDS) if chosen is None else chosen

    async def main() -> Cluster:
        rng = Random(seed)
        wanted = [
            replace(each, model=models[number % len(models)])
            for number, each in enumerate(submissions(rng, jobs))
        ]
        cluster = Cluster((2, 2, 4), chosen, wanted, 20_000_000, beside)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(disturb, cluster, rng)
            with anyio.fail_after(400 * 3600):
                await cluster.serve((1.0, 20.0, 400.0, BEYOND_S))
            tasks.cancel_scope.cancel()
        return cluster

    return VirtualClock().run(main)


@pytest.mark.rotating("seed")
@pytest.mark.parametrize("seed", SEEDS)
def test_all_jobs_end_and_nothing_runs_twice(seed: int) -> None:
    played(seed).check()
