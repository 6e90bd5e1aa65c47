"""Jobs that take longer to start than they may run: guards and turns count from a mini-batch."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from shunter.daemon import Submission, open_site
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    JobSpec,
    JobSuspended,
    SchedulerStarted,
    TrainingStarted,
)
from tests.contracts.local_backends import empty
from tests.live.site.sites import NOBODY, config, events_until, of, verified

pytestmark = [pytest.mark.live, pytest.mark.asyncio]

START_S, BATCH_S = 2.0, 0.05
PYTHON = (sys.executable, "-I", "-S", "-c")
TRAINS = """
import json, os, sys, time

def tell(what, **said):
    with open(os.environ["SHUNTER_CHANNEL"], "w") as channel:
        channel.write(json.dumps({"what": what, **said}) + "\\n")

time.sleep(float(sys.argv[2]))
steps = 0
while True:
    time.sleep(float(sys.argv[3]))
    steps += 1
    name = "{SHUNTER_JOB}.{SHUNTER_ATTEMPT}".format(**os.environ)
    with open(f"{sys.argv[1]}/{name}", "w") as file:
        file.write(str(steps))
    if steps == 1:
        tell("progress", rank=0, step=1, state="training", batches=1)
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        tell("saved", checkpoint="here", step=steps, bytes=1)
        sys.exit(75)
"""

POLICIES = {
    "las": {
        "name": "las",
        "guards": {"min_runtime": "1s"},
        "params": {"las": {"queues_gpu_s": [float(4 * place) for place in range(1, 60)]}},
    },
    "gavel": {
        "name": "max_min_fairness",
        "trigger": "round",
        "round": "0.5s",
        "params": {"max_min_fairness": {"turn": "1s"}},
    },
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_each_attempt_trains_for_its_guard_or_turn_however_long_it_starts(
    tmp_path: Path, policy: str
) -> None:
    """Goal: nobody leaves before a second of training; before, they left in their start-up."""
    steps, told = tmp_path / "steps", list[str]()
    steps.mkdir()
    job = Submission(
        JobSpec(command=(*PYTHON, TRAINS, str(steps), str(START_S), str(BATCH_S)), gpus=4)
    )
    loaded = config(tmp_path, policy=POLICIES[policy])
    try:
        async with open_site(loaded) as site, anyio.create_task_group() as tasks:
            tasks.start_soon(site.run, told.append)
            for _ in range(2):
                await site.submit(job, NOBODY)
            seen = await events_until(site, lambda seen: len(of(seen, JobSuspended)) == 4)
            for job_id in list(site.state.jobs):
                await site.tell(site.commands.cancel(job_id, NOBODY))
            site.stop()
    finally:
        empty(str(tmp_path / "attempts"))

    for left in of(seen, JobSuspended):
        trained = int((steps / f"{left.job_id}.{left.attempt}").read_text(encoding="utf-8"))
        assert trained >= 0.5 / BATCH_S, f"attempt {left.attempt} of {left.job_id}: {trained} steps"
    assert launched_first(seen)
    assert any("from its launch to its first mini-batch, and a turn is 1 s" in one for one in told)
    [started] = of(seen, SchedulerStarted)
    assert json.loads(started.config)["launches_first"]
    assert (await verified(tmp_path)).divergence is None


def launched_first(seen: list[Event]) -> bool:
    """Say whether everybody who was given GPUs was launched there before losing them."""
    promised: set[str] = set()
    for event in seen:
        if isinstance(event, AllocationChanged) and event.allocation.shares:
            promised.add(event.job_id)
        elif isinstance(event, AttemptStarted):
            promised.discard(event.job_id)
        elif isinstance(event, AllocationChanged) and event.job_id in promised:
            return False
    return bool(of(seen, TrainingStarted))
