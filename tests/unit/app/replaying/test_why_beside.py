"""What `why` says of CPUs and memory that a waiting job lacks, counted again from the state."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from shunter.ask.why import document
from shunter.core import Job, State
from shunter.core.fold import replay
from shunter.core.planning import Consolidated, RoundRules
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing, with_shares
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import Resources, Share
from shunter.policies import SubmissionOrder
from shunter.workloads import TraceJob
from tests.factories import World, job_id, las_policy, node_name, run, servers, trace_job
from tests.replay.recording import Recorded, asked, rebuilt

FIFO = SubmissionOrder("fifo", Misfit.skipped)
TABLE = SensitivityTable(
    {"hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (2, 2)))}},
    Resources(0, 3000, 10),
)


def recorded(policy: RankedPolicy, *jobs: TraceJob, gpus: int = 4) -> Recorded:
    """Return a run on one server with 3 CPUs and 10 MB for each GPU."""
    there = servers(gpus, cpus_milli=3000 * gpus, memory_mb=10 * gpus)
    speeds = SpeedModel({each.node: each.configuration for each in there}, sensitivity=TABLE)
    outcome = run(World(servers=there, jobs=jobs, round_us=10, speeds=speeds), policy)
    return Recorded(list(outcome.events), rebuilt(policy, RoundRules(10)))


def shares_of(job: Job) -> Sequence[Share]:
    return job.allocation.shares


def sized(mechanism: Mechanism) -> RankedPolicy:
    return RankedPolicy(FIFO, Consolidated(), sizing=Sizing(mechanism, TABLE))


def said(run_: Recorded, job: str, at: int) -> tuple[str, Any, State]:
    """Return the sentence and the numbers of a job that waits, and the state they are of."""
    found = asyncio.run(asked(run_, job, at))
    told = document(found)
    assert told["reason"]["name"] == "cpu_or_memory_short"
    upto = max(seq for seq, event in enumerate(run_.events, 1) if event.at_us <= at)
    return told["details"][0], told["evidence"]["beside"], replay(run_.events[:upto])


def free_of(state: State, shares: Callable[[Job], Sequence[Share]] = shares_of) -> dict[str, Any]:
    """Count what is left of the server, from its size and the jobs' shares."""
    where = state.cluster.servers[node_name(0)].configuration
    free = Resources(where.gpus, where.cpus_milli, where.memory_mb)
    for job in state.jobs.values():
        for share in shares(job):
            free -= Resources(share.gpus) + share.beside
    return {
        "node": "n0",
        "gpus": free.gpus,
        "cpus": free.cpus_milli / 1000,
        "memory_mb": free.memory_mb,
    }


def test_request_is_told_beside_what_the_server_has_free() -> None:
    jobs = trace_job(0, 1, lasts=100, cpus_milli=9000), trace_job(1, 2, at=1, cpus_milli=6000)

    words, beside, state = said(recorded(RankedPolicy(FIFO, Consolidated()), *jobs), "j1", 50)

    assert beside["needed"] == {"gpus": 2, "cpus": 6.0, "memory_mb": 0}
    assert beside["servers"] == [free_of(state)]
    assert words == (
        "it needs 2 GPUs, and 3 are free, but not with the 6 CPUs that it needs beside them "
        "(3 CPUs each): n0 has 3 CPUs beside 3 GPUs"
    )


def test_job_without_gpus_is_told_what_servers_have_free() -> None:
    jobs = trace_job(0, 1, lasts=100, cpus_milli=9000), trace_job(1, 0, at=1, cpus_milli=6000)

    words, _, _ = said(recorded(RankedPolicy(FIFO, Consolidated()), *jobs), "j1", 50)

    assert words == "no server has enough: it needs the 6 CPUs: n0 has 3 CPUs"


def test_greedy_job_is_told_what_makes_it_fastest() -> None:
    jobs = [trace_job(number, 1, lasts=100, model="hungry") for number in range(3)]

    words, beside, state = said(recorded(sized(Mechanism.greedy), *jobs), "j2", 20)

    assert beside["needed"] == {"gpus": 1, "cpus": 6.0, "memory_mb": 5}
    assert beside["servers"] == [free_of(state)]
    assert words == (
        "it needs 1 GPU, and 2 are free, but not with the 6 CPUs and 5 MB that it needs beside it: "
        "n0 has 0 CPUs and 30 MB beside 2 GPUs"
    )


def test_under_tune_others_count_with_their_shares() -> None:
    """Method: j0 has all 6 CPUs and 5 MB; its share are 3 CPUs and 10 MB."""
    hungry = trace_job(0, 1, lasts=200, model="hungry")
    asking = trace_job(1, 1, at=1, model="hungry", cpus_milli=4000)

    words, beside, state = said(recorded(sized(Mechanism.tune), hungry, asking, gpus=2), "j1", 20)

    assert beside["needed"] == {"gpus": 1, "cpus": 4.0, "memory_mb": 10}
    at_shares = free_of(state, lambda job: with_shares(shares_of(job), TABLE.proportional))
    assert beside["servers"] == [at_shares]
    assert words.endswith("n0 has 3 CPUs and 10 MB beside 1 GPU (counting others at their shares)")


def test_jobs_that_may_be_made_to_leave_count_as_gone() -> None:
    """Method: j0 has fallen behind, j1 is as new as j2 and came before it."""
    jobs = (
        trace_job(0, 1, lasts=500, cpus_milli=3000),
        trace_job(1, 1, at=61, lasts=500, cpus_milli=3000),
        trace_job(2, 1, at=62, cpus_milli=10_000),
    )

    words, beside, state = said(recorded(las_policy(), *jobs), "j2", 75)

    assert state.jobs[job_id(1)].allocation.shares
    gone = free_of(state, lambda job: () if job.job_id == "j0" else shares_of(job))
    assert beside["servers"] == [gone]
    assert words.endswith("n0 has 9 CPUs beside 3 GPUs (counting jobs that it may preempt as gone)")


def test_others_count_with_their_shares_for_a_job_without_gpus_too() -> None:
    """Method: j0 has all 6 CPUs and 5 MB; its share are 3 CPUs and 10 MB."""
    hungry = trace_job(0, 1, lasts=200, model="hungry")
    asking = trace_job(1, 0, at=1, cpus_milli=4000)

    words, beside, state = said(recorded(sized(Mechanism.tune), hungry, asking, gpus=2), "j1", 20)

    at_shares = free_of(state, lambda job: with_shares(shares_of(job), TABLE.proportional))
    assert beside["servers"] == [at_shares]
    assert words == (
        "no server has enough: it needs the 4 CPUs: n0 has 3 CPUs (counting others at their shares)"
    )
