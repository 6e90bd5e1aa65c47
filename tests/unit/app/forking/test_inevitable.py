"""Each claim of `why --inevitable` is true: the run is made again to there, the job raised there.

A claim rests on a fork from the state, in which the job is put at the head of the order. Here the
whole run is made again from its beginning instead, and a person gives the job the highest priority
right before the decision and its own right after it: under rounds nothing is decided in between.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import seq_at
from shunter.ask.forks import (
    ForkChange,
    Harm,
    Staged,
    WorkEstimates,
    fork_at,
    fork_point,
    inevitable,
    normal_wait,
    read_future,
    rerun_to,
)
from shunter.ask.why import explain
from shunter.core import ChangePriority, State
from shunter.core.ranking import PRIORITY_MOST
from shunter.errors import UsageError
from shunter.events import JOB_ENDS, AllocationChanged, Event, JobId, JobSubmitted
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild, recorded_parts
from tests.factories import Tape, granted, job_submitted
from tests.unit.app.forking.worlds import simulated, tree

ROUND_US = 60_000_000
JOBS = 120
CLAIMS_LEAST = {"las": 3, "fifo_easy": 10, "fifo_backfill": 6, "srtf": 2, "tiresias": 3}


async def answer(reader: LogReader, job: str, kind: Harm | None = None) -> dict[str, Any] | None:
    """Return what is found of a job; None: nothing was to be avoided."""
    head = await reader.head()
    found = await explain(reader, JobId(job), head.seq, 10**16, rebuild)
    try:
        return await inevitable(reader, found, rebuild, kind)
    except UsageError:
        return None


async def run_with_priority(
    reader: LogReader, job_id: JobId, at_us: int, until_us: int
) -> tuple[list[Event], list[Event]]:
    """Return the events before a round, and those of a run in which the job is first in it."""
    seq = await seq_at(reader, at_us - ROUND_US)
    point = await fork_point(reader, seq, rebuild)
    whole = await read_future(reader, State(), is_simulated=True)
    parts, works = recorded_parts(point.started.config), WorkEstimates((), 0)
    staged = Staged(point, point.state(), parts, ForkChange(), whole, works, is_rerun=True)
    make, work_of = staged._make_world(), works.work_of
    standing = await rerun_to(reader, seq, rebuild, make, whole, work_of, ForkChange())
    orders = (
        ChangePriority(at_us, job_id, PRIORITY_MOST, "test"),
        ChangePriority(at_us + 1, job_id, 0, "test"),
    )
    before = [event async for event in reader.events(0, standing.state.seq)]
    fork, tape = fork_at(standing, ForkChange(orders=orders)), Tape()
    await fork.run(until_us, tape)
    return before, tape.events


def without_gpus_us(events: list[Event], job_id: JobId, since_us: int, until_us: int) -> int:
    """Return how long a job has no GPUs between two instants, by its events one by one."""
    has_gpus, gone, waited_us, last_us = False, False, 0, since_us
    for event in [each for each in events if getattr(each, "job_id", None) == job_id]:
        upto_us = min(max(event.at_us, since_us), until_us)
        if not has_gpus and not gone:
            waited_us += upto_us - last_us
        last_us = upto_us
        if isinstance(event, JobSubmitted):
            last_us = max(event.at_us, since_us)
        elif isinstance(event, AllocationChanged):
            has_gpus = bool(event.allocation.shares)
        gone = gone or isinstance(event, JOB_ENDS)
    return waited_us + (0 if has_gpus or gone else until_us - last_us)


@pytest.mark.parametrize("name", CLAIMS_LEAST)
def test_each_claim_about_a_wait_holds_in_a_run_made_again(name: str, tmp_path: Path) -> None:
    workload = {"generate": {"jobs": JOBS, "load": 1.3, "gpus_max": 8}}
    url = simulated(tmp_path, tree(name, workload=workload))

    async def checked() -> int:
        count = 0
        async with read_log(url) as reader:
            for number in range(0, JOBS, 9):
                found = await answer(reader, str(number), Harm.wait)
                if found is not None:
                    assert found["as_it_was"]["agrees"]
                    count += await check(reader, JobId(str(number)), found)
        return count

    assert asyncio.run(checked()) >= CLAIMS_LEAST[name]


async def check(reader: LogReader, job_id: JobId, found: dict[str, Any]) -> int:
    """Make the run again for some claims; return how many."""
    outcome = found["outcome"]
    since_us, until_us = outcome["since_us"], outcome["until_us"]
    claims = [found["found"], found["before"], found["next"], *found["spot_checks"]]
    claims = [each for each in claims if each is not None] or found["tried"]
    for each in claims:
        before, after = await run_with_priority(reader, job_id, each["us"], until_us)
        waited_us = without_gpus_us([*before, *after], job_id, since_us, until_us)
        assert each["avoids"] == (waited_us <= outcome["normal_us"]), each
    return len(claims)


def test_nine_in_ten_waited_no_longer_than_is_told() -> None:
    """Of 13 jobs 12 waited 101.7 seconds at most, and 11 no more than 101."""
    waits_us = [*range(1_000_000, 12_000_000, 1_000_000), 101_700_000, 500_000_000]
    events: list[Event] = [job_submitted(number, 8, at=0) for number in range(13)]
    events += [granted(number, us, n0=0xFF) for number, us in enumerate(waits_us)]
    found = normal_wait(events, JobId("other"), 8, 0, 10**9)
    assert (found.most_us, found.jobs) == (101_700_000, 13)
    assert "waited 1m 42s at most" in found.words
