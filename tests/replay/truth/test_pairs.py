"""Random jobs at random moments of a log of each policy: all that `why` says of them is true."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from shunter.ask import fold_events, told_apart, wait_of
from shunter.ask.why import document, explain
from shunter.core import State
from shunter.events import Event, JobId
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild
from tests.factories import needs_highs
from tests.replay.truth.brute_force import Truth, decision_around
from tests.replay.truth.claim import Claim
from tests.replay.truth.claims import check
from tests.replay.truth.mixed_runs import RUNS, simulated_once
from tests.slices import THOROUGH, share

PAIRS = 200 if THOROUGH else 30
WAITS = ("waiting", "granted")


def pairs(events: list[Event], count: int) -> Iterator[tuple[int, JobId, str]]:
    """Yield moments with a job that waits there and why; some moments lie within a decision."""
    rng = Random(11)
    while count:
        seq = rng.randrange(10, len(events) + 1)
        state = State()
        fold_events(state, events[: decision_around(events, seq)[1]])
        there = [job.job_id for job in state.jobs.values() if job.phase in WAITS]
        if there:
            count -= 1
            job_id = rng.choice(there)
            yield seq, job_id, in_the_queue(state, job_id)


async def checked(reader: LogReader, name: str) -> Counter[str]:
    """Check what is said of the slice's pairs; return how often each reason is there in all."""
    events = [event async for event in reader.events()]
    drawn = list(pairs(events, PAIRS))
    for seq, job_id, _ in share(drawn):
        at_us, end = events[seq - 1].at_us, decision_around(events, seq)[1]
        said = document(await explain(reader, job_id, seq, at_us, rebuild))
        truth = Truth(events[:end], name, at_us)
        check(Claim(said, events, truth))
        assert in_the_queue(truth.state, job_id) == said["reason"]["name"]
    return Counter(reason for *_, reason in drawn)


def in_the_queue(state: State, job_id: JobId) -> str:
    """Return the reason that `queue`, `replay` and `report` say, which look at the state alone."""
    job = state.jobs[job_id]
    wait = wait_of(job, state)
    assert wait is not None
    return told_apart(wait, job.demand.gpu_types, state.cluster).value


@needs_highs
@pytest.mark.parametrize("name", RUNS)
def test_reasons_and_blockers_are_what_brute_force_finds(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)

    async def ran() -> Counter[str]:
        async with read_log(url) as reader:
            return await checked(reader, name)

    assert len(asyncio.run(ran())) >= 3, "the run makes jobs wait for one reason or two"
