"""Every counterfactual that is stated of a log of any policy, executed in a fork: it is true.

The change is made here from what was said, its words and the jobs it names, and not from what was
tried to find it. With it the job starts at the instant that was told, and without it not by then.
"""

import asyncio
import re
from collections.abc import Sequence
from random import Random

import pytest

from shunter.ask.forks import (
    Counterfactual,
    ForkChange,
    ForkPoint,
    WorkEstimates,
    counterfactuals,
    end_of_instant,
    fork_at,
    fork_point,
    recorded_world_with,
    standing_at,
)
from shunter.backends.simulated import TotalWork
from shunter.core import CancelJob, ChangePriority, Input, Job, JobPhase, ResizeJob
from shunter.events import ConfigurationSet, JobId, JobSpec, NodeName, QuotaChanged
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild, recorded_parts
from tests.factories import needs_highs
from tests.replay.truth.mixed_runs import RUNS, simulated_once
from tests.slices import THOROUGH, slice_number

PAIRS = 200 if THOROUGH else 1
SERVERS = re.compile(r"(\d+) servers? more with (\d+) GPUs? of type (\w+) joined")


def change_of(claim: Counterfactual, job: Job, point: ForkPoint) -> ForkChange:
    """Return the change that a claim is about, from its words."""
    state, at_us = point.state(), point.at_us
    numbers = [int(number) for number in re.findall(r"\b\d+\b", claim.words)]
    orders: Sequence[Input] = ()
    if claim.kind in ("end", "ends"):
        assert all(other in claim.words for other in claim.jobs[:3])
        orders = [CancelJob(at_us, other, "test") for other in claim.jobs]
    elif claim.kind in ("good_end", "good_ends"):
        given_up = claim.jobs[len(ended_well(claim)) :]
        orders = [CancelJob(at_us, other, "test") for other in given_up]
    elif claim.kind == "priority":
        orders = [ChangePriority(at_us, job.job_id, numbers[-1], "test")]
    elif claim.kind == "size":
        orders = [ResizeJob(at_us, job.job_id, numbers[-1], "test")]
    elif claim.kind == "quota":
        queue = state.queues[job.spec.queue]
        fact = QuotaChanged(at_us, queue.name, numbers[-1], queue.weight, queue.users)
        return ForkChange(facts=(fact,))
    else:
        found = SERVERS.fullmatch(claim.words)
        assert found is not None, claim.words
        count, gpus, gpu_type = int(found[1]), int(found[2]), found[3]
        return ForkChange(
            added=[(NodeName(f"more-{n}"), _like(point, gpus, gpu_type)) for n in range(count)]
        )
    return ForkChange(orders=orders)


def ended_well(claim: Counterfactual) -> Sequence[JobId]:
    """Return the jobs that a claim says would end well, from its words."""
    if not claim.kind.startswith("good"):
        return ()
    named = claim.words.partition(" ended well now")[0]
    hidden = re.search(r" and (\d+) others?$", named)
    count = named.count(",") + 1 + (int(hidden[1]) if hidden else 0)
    return claim.jobs[:count]


def _like(point: ForkPoint, gpus: int, gpu_type: str) -> ConfigurationSet:
    """Return what a server of so many GPUs of a type is made of."""
    servers = point.state().cluster.servers.values()
    there = (server.configuration for server in servers)
    return next(each for each in there if (each.gpus, each.gpu_type) == (gpus, gpu_type))


async def start_of(
    point: ForkPoint,
    job_id: JobId,
    change: ForkChange,
    until_us: int,
    finished: Sequence[JobId] = (),
) -> int | None:
    """Return when a job has GPUs in a fork with a change; None: not up to a round after then."""
    durations_us = point.state().durations_us
    estimates = WorkEstimates((), point.rules.seed)

    def work_of(name: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        known_us = 0 if name in finished else durations_us.get(name)
        return (
            estimates.work_of(name, spec, job, now_us) if known_us is None else TotalWork(known_us)
        )

    make_world = recorded_world_with(recorded_parts(point.started.config))(change)
    fork = fork_at(standing_at(point, make_world, None, work_of, ForkChange()), change)
    state = fork.core.state

    def has_gpus() -> bool:
        return job_id in state.jobs and bool(state.jobs[job_id].allocation.shares)

    await fork.run(until_us + max(1, point.rules.round_us), is_enough=has_gpus)
    return state.now_us if has_gpus() else None


async def checked(reader: LogReader) -> int:
    """Execute all that is stated of some random waiting jobs; return how many statements."""
    rng, count, claims = Random(3 if THOROUGH else 3 + slice_number()), 0, 0
    head = await reader.head()
    while count < PAIRS or (not claims and count < 10 * PAIRS):  # of some jobs nothing can be said
        seq = await end_of_instant(reader, rng.randrange(10, head.seq))
        point = await fork_point(reader, seq, rebuild)
        jobs = point.state().jobs.values()
        waiting = [job for job in jobs if job.phase is JobPhase.waiting]
        if not waiting:
            continue
        job, count = rng.choice(waiting), count + 1
        worlds = recorded_world_with(recorded_parts(point.started.config))
        told = await counterfactuals(point, worlds, job.job_id, ())
        if told.starts_us is not None:
            claims += 1
            starts_us = await start_of(point, job.job_id, ForkChange(), told.starts_us)
            assert starts_us == told.starts_us
        for claim in told.found:
            claims += 1
            change = change_of(claim, job, point)
            well = ended_well(claim)
            found_us = await start_of(point, job.job_id, change, claim.starts_us, well)
            assert found_us == claim.starts_us
            without_us = await start_of(point, job.job_id, ForkChange(), claim.starts_us)
            assert without_us is None or without_us > claim.starts_us
    return claims


@needs_highs
@pytest.mark.parametrize("name", RUNS)
def test_what_is_said_to_start_a_job_starts_it_in_a_fork(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)

    async def ran() -> int:
        async with read_log(url) as reader:
            return await checked(reader)

    assert asyncio.run(ran()), "nothing was said of any job"
