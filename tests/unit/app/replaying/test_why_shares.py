"""What `why` says of a running job whose CPUs and memory were changed, against the numbers."""

import asyncio
from dataclasses import replace
from typing import Any

from shunter.api import Found, decision_document, find_decision
from shunter.ask import end_of_decision, fact_in_words
from shunter.ask.why import document
from shunter.core.planning import Consolidated, RoundRules
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import (
    AllocationChanged,
    JobReshaped,
    JobSpec,
    ProfileSampled,
    Resources,
    SizesSet,
)
from shunter.policies import HighsSolver, SubmissionOrder
from shunter.workloads import JobEnd, TraceJob
from tests.factories import World, job_id, las_policy, needs_highs, run, servers
from tests.replay.recording import Recorded, asked, reading, rebuilt

ROWS = ((0.5, 0.5), (1.0, 1.0), (2.0, 2.0))
TABLE = SensitivityTable(
    {
        "hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ROWS)},
        "modest": {1: Sensitivity((1000, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))},
    },
    Resources(0, 3000, 10),
)


def job(number: int, model: str, lasts: int, at: int = 0) -> TraceJob:
    return TraceJob(job_id(number), at, JobSpec(model=model), lasts, JobEnd.finished)


def recorded(*jobs: TraceJob, mechanism: Mechanism = Mechanism.tune) -> Recorded:
    """Return a run on one server of 2 GPUs and 6 CPUs."""
    there = servers(2, cpus_milli=6000, memory_mb=20)
    speeds = SpeedModel({each.node: each.configuration for each in there}, sensitivity=TABLE)
    index = SubmissionOrder("fifo", Misfit.skipped)
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    chosen = RankedPolicy(index, Consolidated(), sizing=Sizing(mechanism, TABLE, solver))
    outcome = run(World(servers=there, jobs=jobs, round_us=10, speeds=speeds), chosen)
    return Recorded(list(outcome.events), rebuilt(chosen, RoundRules(10)))


JOBS = job(0, "hungry", 200), job(1, "modest", 30, at=35)
"""j0 shrinks for j1 and grows again."""

RUN = recorded(*JOBS)


def said(at: int, run: Recorded = RUN) -> Any:
    return document(asyncio.run(asked(run, "j0", at))).get("shares")


def test_a_job_that_made_room_says_for_whom_and_at_which_speeds() -> None:
    seq = RUN.seqs(JobReshaped)[0]
    shrunk = said(40)
    assert (shrunk["seq"], shrunk["rule"], shrunk["beneficiaries"]) == (seq, "shrunk", ["j1"])
    assert (shrunk["cpus"], shrunk["memory_mb"]) == (5.0, 5)
    # 5 of 6 CPUs are a third of the way from 2 to 1: 5/3.
    assert shrunk["words"] == (
        f"5 CPUs and 5 MB since T+00:00:00.00004 (e{seq}), "
        "shrunk to make room for j1: speed 2 -> 1.67"
    )


def test_rates_that_the_job_reported_stand_beside_those_of_the_table() -> None:
    """The last before the change, and the last since; before anything is reported, none."""
    sampled = RUN
    for at_us, batch_s in ((39, 0.25), (34, 0.5)):  # after the last event by then
        seq = max(seq for seq, event in enumerate(RUN.events, 1) if event.at_us <= at_us)
        before = sampled.at(seq)
        sample = ProfileSampled(before.at_us, job_id(0), 1, step=4, batch_s=batch_s)
        sampled = sampled.changed(seq, before, sample)

    def words(recorded: Recorded) -> str:
        shares: Any = document(asyncio.run(asked(recorded, "j0", 40)))["shares"]
        return str(shares["words"])

    assert words(sampled).endswith("speed 2 -> 1.67; measured 4 -> unknown steps a second")
    after = ProfileSampled(40, job_id(0), 1, step=8, batch_s=0.3)
    seq = max(seq for seq, event in enumerate(sampled.events, 1) if event.at_us <= 40)
    sampled = sampled.changed(seq, sampled.at(seq), after)
    assert words(sampled).endswith("; measured 4 -> 3.33 steps a second")


def test_a_job_that_shrank_to_the_speed_of_its_share_says_so() -> None:
    """Method: the other wants CPUs as well, so 3 of 6 are left for each."""
    run_ = recorded(job(0, "hungry", 200), job(1, "hungry", 30, at=35))
    shrunk: Any = document(asyncio.run(asked(run_, "j0", 40))).get("shares")
    (event,) = [run_.at(seq) for seq in run_.seqs(JobReshaped)][:1]

    (share,) = event.allocation.shares
    assert event.because.scores == (2.0, TABLE.speed(JobSpec(model="hungry"), event.allocation))
    assert (shrunk["cpus"], shrunk["memory_mb"]) == (share.cpus_milli / 1000, share.memory_mb)
    assert shrunk["words"].endswith(
        "shrunk to the speed of its proportional share to make room for j1: speed 2 -> 1"
    )


def test_one_that_grew_again_says_so() -> None:
    assert said(70)["words"].endswith("grown: speed 1.67 -> 2")


def test_where_nobody_sizes_jobs_nothing_is_said() -> None:
    plain = las_policy()
    jobs = (replace(JOBS[0], spec=JobSpec(model="hungry", cpus_milli=1000)),)
    outcome = run(World(servers=servers(2, cpus_milli=6000), jobs=jobs, round_us=10), plain)
    assert said(20, Recorded(list(outcome.events), rebuilt(plain, RoundRules(10)))) is None


def test_a_change_of_shares_is_a_part_of_its_decision() -> None:
    seq = RUN.seqs(JobReshaped)[0]
    start = next(each for each in RUN.seqs(AllocationChanged) if each > seq)

    async def decision() -> Found:
        async with reading(RUN.events) as reader:
            return await find_decision(reader, seq)

    found = asyncio.run(decision())
    assert [number for number, _ in found][-2:] == [seq, start]
    told: Any = decision_document(found, "fifo", str)
    assert [change["seq"] for change in told["changes"]] == [seq, start]
    assert fact_in_words(RUN.at(seq)).startswith("give j0 5 CPUs and 5 MB, because shrunk")


@needs_highs
def test_opt_says_the_same_of_a_job_and_the_bound_with_the_decision() -> None:
    run = recorded(*JOBS, mechanism=Mechanism.opt)
    assert said(40, run)["words"].endswith("shrunk to make room for j1: speed 2 -> 1.67")
    assert said(70, run)["words"].endswith("grown: speed 1.67 -> 2")
    words = [fact_in_words(run.at(seq)) for seq in run.seqs(SizesSet)]
    assert words[1] == "size 2 jobs: 2.667 of at most 2.667 in speed"
    first = run.seqs(SizesSet)[0]

    async def ends() -> int:
        async with reading(run.events) as reader:
            return await end_of_decision(reader, first)

    assert asyncio.run(ends()) == run.seqs(AllocationChanged)[0]


def test_a_job_that_has_what_it_was_given_says_since_when() -> None:
    """j1 shrinks nobody and is not shrunk; j0 has nothing else before j1 comes."""
    granted = next(
        seq for seq in RUN.seqs(AllocationChanged) if getattr(RUN.at(seq), "job_id", "") == "j0"
    )
    kept = said(20)
    assert (kept["seq"], kept["cpus"], kept["memory_mb"]) == (granted, 6.0, 5)
    assert kept["words"] == f"6 CPUs and 5 MB since T+00:00:00 (e{granted}), as it was given"
