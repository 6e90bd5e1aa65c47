"""What-if of the same policy against what really happened, on logs of real processes.

The jobs train with the SDK and sleep for each mini-batch. Under `las` they make each other leave
and come back from checkpoints; under `gandiva` they take turns on GPUs that they keep. The work of
a job is known from what came later in the log; how it was spent is what the fork has to get right.
"""

from pathlib import Path
from random import Random
from typing import Any

import anyio

from shunter.ask.forks import Wishes, what_if
from shunter.daemon import Site
from shunter.events import Event, JobFinished, SuspendMode
from tests.live.local.test_prediction import training
from tests.live.site.sites import NOBODY, events_until, of

JOBS = 12
WITHIN = 0.05
MOMENTS = (0.05, 0.2, 0.4, 0.6)
LAS: dict[str, Any] = {"name": "las", "params": {"las": {"queues_gpu_s": [8, 30]}}}
GANDIVA: dict[str, Any] = {
    "name": "gandiva",
    "params": {"gandiva": {"height_most": 3}},
    "slicing": {"quantum": "1s", "wait_most": "1m", "boundary_most": "1s"},
}


async def run_jobs(site: Site) -> list[Event]:
    """Submit jobs of 5 to 15 seconds on up to four GPUs, some seconds apart; wait for all."""
    rng = Random(3)
    for _ in range(JOBS):
        steps, gpus = rng.randrange(100, 300), rng.choice((1, 1, 2, 2, 4))
        await site.submit(training(steps, gpus, SuspendMode.cooperative), NOBODY)
        await anyio.sleep(rng.uniform(0.5, 2.5))
    return await events_until(site, lambda seen: len(of(seen, JobFinished)) == JOBS)


def assert_close(log: Path, events: list[Event], leaves: type[Event]) -> None:
    """Hold that the mean JCT is within 5 % from any moment, of jobs that made each other wait."""
    assert len(of(events, leaves)) > JOBS // 2, "they were not in each other's way"
    found = {}
    for share in MOMENTS:
        at = f"e{max(2, int(share * len(events)))}"
        accuracy = what_if(str(log), at, Wishes())["accuracy"]
        assert accuracy is not None
        assert accuracy["jobs"] > JOBS // 3
        found[at] = accuracy["mean_jct_error"]
    print(found)
    assert max(map(abs, found.values())) < WITHIN, found
