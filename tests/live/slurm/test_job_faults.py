"""What Slurm does to attempts that are its own jobs, as a whole daemon and its log have it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from shunter.backends.node import get
from shunter.daemon import Submission
from shunter.events import AttemptLost, AttemptStarted, JobSpec, JobSuspended, Outcome
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, of
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import LIVING
from tests.live.slurm.site import assert_all_well, served, until, worker

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm-jobs"),
]
ENDS_WITHIN_S = 240  # Slurm looks at time limits every half minute
IGNORES = "trap '' TERM USR1; while true; do sleep 1; done"


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[JobBench]:
    """A cluster, and a folder that is empty."""
    found = JobBench(slurm, tmp_path)
    yield found
    found.clean()
    slurm.wait_for(lambda: not found.pilots(*LIVING), "the end of all Slurm jobs")


@pytest.mark.rotating(among="the end of a time limit in Slurm")
async def test_job_at_slurms_time_limit_saves_and_goes_on_or_is_lost_by_name(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are asked to save before the minute is over that Slurm gives; one takes no notice.

    What that one did is lost with its attempt, and log and `why` say that Slurm's limit ended it.
    """
    limits = {"mode": "per-job", "time_limit": 60.0, "cooperative": 600.0}
    async with served(bench, monkeypatch, "n1", "n2", **limits) as site:
        saves = await site.submit(worker(bench, "saves", 0.1, code=-1), NOBODY)
        spec = JobSpec(command=("/bin/bash", "-c", IGNORES))
        ignores = await site.submit(Submission(spec, key="ignores"), NOBODY)
        with anyio.fail_after(ENDS_WITHIN_S):
            async for _, event in site.follow(0):
                if isinstance(event, AttemptLost):
                    break
        claim = get(f"{bench.root}/jobs/{ignores}/1/claim") or {}
        assert bench.slurm.state_of(int(str(claim["slurm_job"]))) == "TIMEOUT"
        await until(site, lambda: saves not in site.state.jobs, "the end of the one that saved")
        await site.tell(site.commands.cancel(ignores, NOBODY))
        await until(site, lambda: not site.state.jobs, "the end of the other")
    log = str(bench.folder / "log.db")
    async with read_log(log) as reader:
        events = [event async for event in reader.events()]
    (lost,), (suspended,) = of(events, AttemptLost), of(events, JobSuspended)
    by_limit = "Slurm's time limit of 1 min ended it"
    assert (lost.job_id, lost.attempt, lost.cause) == (ignores, 1, by_limit)
    assert (suspended.job_id, suspended.attempt, suspended.cause) == (saves, 1, by_limit)
    assert [each.attempt for each in of(events, AttemptStarted) if each.job_id == saves] == [1, 2]
    why = ("-m", "shunter", "why", ignores, "--log", log, "--history")
    told = (await anyio.run_process([sys.executable, *why])).stdout.decode()
    print(told)
    assert f"lost: {by_limit}" in told
    why = ("-m", "shunter", "why", saves, "--log", log, "--history")
    told = (await anyio.run_process([sys.executable, *why])).stdout.decode()
    print(told)
    assert f"suspended: {by_limit}" in told
    await assert_all_well(bench, Outcome.finished, Outcome.cancelled)
