"""Scratch folders that are purged under running attempts: nothing runs twice, no GPU is given."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from shunter.events import (
    AttemptLost,
    AttemptStarted,
    Event,
    JobFinished,
    JobId,
    NodeUnreachable,
    Outcome,
)
from tests.live.site.sites import NOBODY, events_until, of
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import worker
from tests.live.ssh.test_site import all_end, working

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

STRANGER = 1


def folder_of(bench: Bench, job_id: JobId) -> Path:
    (folder,) = sorted(bench.folder.glob(f"*/clusters/*/jobs/{job_id}/1"))
    return folder


async def test_purge_under_a_running_attempt_gives_its_gpu_to_nobody(bench: Bench) -> None:
    """Method: jobs for all GPUs wait behind it, and take the first that is free."""
    async with working(bench) as site:
        names = [await site.submit(worker(bench.folder, f"{n}", 600), NOBODY) for n in range(3)]
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) >= 3)
        names += [await site.submit(worker(bench.folder, f"w{n}", 0.1), NOBODY) for n in range(3)]
        for name in names[:3]:
            shutil.rmtree(folder_of(bench, name))
        await anyio.sleep(1.5)  # some looks find no folders
        (bench.folder / "enough").touch()
        assert await all_end(site, names) == [Outcome.finished] * 6
        seen = await events_until(site, lambda seen: len(seen) >= site.committed)
    assert of(seen, AttemptLost) == []
    first_end = min(index for index, event in enumerate(seen) if isinstance(event, JobFinished))
    assert len(of(seen[:first_end], AttemptStarted)) == 3
    bench.assert_nothing_twice()


async def test_purge_and_death_of_the_supervisor_start_nothing_beside_what_is_left(
    bench: Bench,
) -> None:
    async with working(bench) as site:
        job_id = await site.submit(worker(bench.folder, "one", 2.0), NOBODY)
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) >= 1)
        folder = folder_of(bench, job_id)
        supervisor = supervisor_of(folder)
        os.kill(supervisor, signal.SIGSTOP)
        shutil.rmtree(folder)
        await anyio.sleep(1.5)  # some looks find no folder, and a supervisor that does nothing

        def is_lost(seen: list[Event]) -> bool:
            return bool(of(seen, AttemptLost))

        assert not of(
            await events_until(site, lambda seen: len(seen) >= site.committed), AttemptLost
        )
        os.kill(supervisor, signal.SIGKILL)
        await events_until(site, is_lost)
        assert await all_end(site, [job_id]) == [Outcome.finished]
    bench.assert_nothing_twice()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")
async def test_forged_mark_keeps_no_host_from_being_reached(bench: Bench) -> None:
    async with working(bench) as site:
        job_id = await site.submit(worker(bench.folder, "one", 0.1), NOBODY)
        await all_end(site, [job_id])
        root = folder_of(bench, job_id).parents[2]
    with forging(f"{root}/jobs/j9/1") as stranger:
        async with working(bench) as site:
            names = [await site.submit(worker(bench.folder, f"{n}", 0.1), NOBODY) for n in range(3)]
            assert await all_end(site, names) == [Outcome.finished] * 3
            seen = await events_until(site, lambda seen: len(seen) >= site.committed)
            assert of(seen, NodeUnreachable) == []
        assert stranger.poll() is None


@contextmanager
def forging(folder: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a stranger's process that says it belongs to an attempt."""
    forged = {"SHUNTER_FOLDER": folder}
    with subprocess.Popen(["/bin/sleep", "60"], env=forged, user=STRANGER) as stranger:
        yield stranger
        stranger.kill()


def supervisor_of(folder: Path) -> int:
    return int(json.loads((folder / "started").read_text())["pid"])
