"""What ended jobs leave on servers, removed once it is old: on real hosts, as their users."""

import getpass
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from shunter.daemon import Caller, Site, Submission
from shunter.events import JobId, JobSpec, NodeReachable, NodeUnreachable
from tests.live.site.sites import NOBODY, at_work, events_until, of, outcome, wait_for
from tests.live.ssh.bench import Bench
from tests.live.ssh.namespaces import Namespaces
from tests.live.ssh.site import cluster

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

STRANGER = "shunter-reader"
KEEPS = """
import os
open(os.environ["SHUNTER_CHECKPOINT_DIR"] + "/model", "w").write("weights")
print("done")
"""
SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
KEEP_S = 0.4


def program(text: str) -> Submission:
    return Submission(JobSpec(command=(sys.executable, "-I", "-S", "-c", text)))


@asynccontextmanager
async def keeping(bench: Bench, keep_s: float = KEEP_S) -> AsyncIterator[Site]:
    async with at_work(cluster(bench.farm, bench.folder, keep=keep_s)) as site:
        yield site


def folder_of(bench: Bench, job: str) -> Path:
    """Return a job's folder on whichever host it ran, of the cluster under test."""
    found = sorted(bench.folder.glob(f"n?/clusters/[0-9a-f]*/jobs/{job}"))
    return found[0] if found else bench.folder / "nowhere"


def has(bench: Bench, job: str, path: str) -> bool:
    """Say whether something lies in a job's folder."""
    return (folder_of(bench, job) / path).exists()


async def until(done: Callable[[], bool]) -> None:
    await to_thread.run_sync(wait_for, done)


async def ended(site: Site, *programs: str, by: Caller = NOBODY) -> list[JobId]:
    names = []
    for text in programs:
        names.append(await site.submit(program(text), by))
        await outcome(site, names[-1])
    return names


async def test_output_goes_once_it_is_old_and_checkpoints_stay(bench: Bench) -> None:
    async with keeping(bench) as site:
        running = await site.submit(program(SLEEPS), NOBODY)
        await until(lambda: has(bench, running, "1/stdout.0"))
        stranger = folder_of(bench, running).parent / "somebody/1"
        stranger.mkdir(parents=True)
        numbers = [f"j{number}/1" for number in range(1, 4)]
        others = [folder_of(bench, running).parents[2] / "other/jobs" / name for name in numbers]
        for other in others:  # jobs of another cluster, by the same names
            other.mkdir(parents=True)
        plain, saved = await ended(site, "print('x')", KEEPS)
        await until(lambda: not folder_of(bench, plain).exists())
        await until(lambda: not has(bench, saved, "1"))
        assert (folder_of(bench, saved) / "checkpoints/model").read_text() == "weights"
        assert await site.read_output(plain, 1, "stdout.0", 0, 10) == (b"", None)
        await anyio.sleep(3 * KEEP_S)
        assert (folder_of(bench, running) / "1/stdout.0").read_text() == "up\n"
        assert stranger.is_dir()
        assert all(other.is_dir() for other in others)
        await site.tell(site.commands.cancel(running, NOBODY))
        assert await outcome(site, running) == "cancelled"


async def test_nothing_goes_where_the_config_bounds_nothing(bench: Bench) -> None:
    async with keeping(bench, keep_s=0) as site:
        (name,) = await ended(site, "print('x')")
        await anyio.sleep(3 * KEEP_S)
        assert (folder_of(bench, name) / "1/stdout.0").read_text() == "x\n"


async def test_nothing_goes_while_a_host_does_not_answer(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    async with keeping(bench) as site:
        farm.cut("n2")
        await events_until(site, lambda seen: bool(of(seen, NodeUnreachable)))
        (name,) = await ended(site, "print('x')")
        await anyio.sleep(5 * KEEP_S)
        assert (folder_of(bench, name) / "1/stdout.0").read_text() == "x\n"
        farm.heal("n2")
        await events_until(site, lambda seen: bool(of(seen, NodeReachable)))
        await until(lambda: not folder_of(bench, name).exists())


@pytest.fixture
def stranger() -> Iterator[Caller]:
    """A user of this machine who is nobody else, and may pass through the folders of hosts."""
    if os.geteuid() != 0:
        pytest.skip("needs root to log in as, and a second user")
    made = subprocess.run(["useradd", "-M", "-N", STRANGER], check=False, capture_output=True)
    if made.returncode not in (0, 9):
        pytest.skip("needs useradd")
    said = subprocess.run(["id", "-u", STRANGER], check=True, capture_output=True).stdout
    yield Caller(STRANGER, int(said))
    subprocess.run(["userdel", STRANGER], check=False, capture_output=True)


async def test_attempts_of_another_user_go_with_that_users_rights(
    bench: Bench, stranger: Caller
) -> None:
    """Method: a folder of root's lies in one attempt, which its user can not remove."""
    assert getpass.getuser() == "root"
    bench.folder.chmod(0o711)
    async with keeping(bench, keep_s=2.0) as site:
        plain, other = await ended(site, "print('x')", "print('y')", by=stranger)
        kept = folder_of(bench, other) / "1/ours"
        kept.mkdir(mode=0o700)
        (kept / "file").write_text("root's")
        await until(lambda: not folder_of(bench, plain).exists())
        await until(lambda: has(bench, other, "1.gone"))
        await anyio.sleep(1.0)
        assert (folder_of(bench, other) / "1.gone/ours/file").read_text() == "root's"
