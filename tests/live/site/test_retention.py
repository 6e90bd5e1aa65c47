"""What jobs leave behind, kept as long as the config says, on real processes."""

import os
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from shunter.backends.node.host import by_age, remove_attempts
from shunter.daemon import Site
from shunter.events import JobId
from tests.live.site.sites import NOBODY, machine, outcome, program, wait_for

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

KEEPS = """
import os
open(os.environ["SHUNTER_CHECKPOINT_DIR"] + "/model", "w").write("weights")
print("done")
"""
SLEEPS = "import time; print('up', flush=True); time.sleep(60)"


def jobs_of(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "attempts/jobs").iterdir())


async def one_after_the_other(site: Site, *programs: str) -> list[JobId]:
    ids = []
    for text in programs:
        ids.append(await site.submit(program(text), NOBODY))
        await outcome(site, ids[-1])
    return ids


async def test_output_goes_once_it_is_old_and_checkpoints_stay(tmp_path: Path) -> None:
    local = {"root": str(tmp_path / "attempts"), "patrol": 0.2, "grace": 0.3, "keep": 0.3}
    backend = {"kind": "local", "local": local}
    async with machine(tmp_path, backend=backend) as site:
        running = await site.submit(program(SLEEPS), NOBODY)
        stranger = tmp_path / "attempts/jobs/somebody"
        stranger.mkdir()
        plain, saved = await one_after_the_other(site, "print('x')", KEEPS)
        folder = tmp_path / "attempts/jobs"
        await to_thread.run_sync(
            wait_for, lambda: jobs_of(tmp_path) == [running, saved, "somebody"]
        )
        await to_thread.run_sync(wait_for, lambda: not (folder / saved / "1").exists())
        assert (folder / saved / "checkpoints/model").read_text() == "weights"
        assert await site.read_output(plain, 1, "stdout.0", 0, 10) == (b"", None)
        await anyio.sleep(0.5)
        assert (folder / running / "1/stdout.0").read_text() == "up\n"
        await site.tell(site.commands.cancel(running, NOBODY))
        assert await outcome(site, running) == "cancelled"


async def test_nothing_goes_where_the_config_bounds_nothing(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        ids = await one_after_the_other(site, "pass", "pass")
        assert jobs_of(tmp_path) == ids


async def test_attempt_of_which_something_runs_is_never_removed(tmp_path: Path) -> None:
    """Method: ask for it all the same, however old it looks."""
    root = str(tmp_path / "attempts")
    async with machine(tmp_path) as site:
        running = await site.submit(program(SLEEPS), NOBODY)
        await to_thread.run_sync(wait_for, (tmp_path / f"attempts/jobs/{running}/1/started").exists)
        assert remove_attempts(root, [running]) == {"removed": 0, "error": ""}
        assert (tmp_path / f"attempts/jobs/{running}/1/started").exists()


async def test_job_is_as_old_as_what_changed_last(tmp_path: Path) -> None:
    folder = tmp_path / "jobs/j1/1"
    folder.mkdir(parents=True)
    (folder / "stdout.0").write_text("x")
    for path, at_s in ((folder / "stdout.0", 50), (folder, 10), (folder.parent, 10)):
        os.utime(path, (at_s, at_s))
    assert by_age(str(tmp_path), 40) == {"old": (), "young": ("j1",)}
    assert by_age(str(tmp_path), 60) == {"old": ("j1",), "young": ()}


async def test_what_a_killed_scheduler_began_to_remove_goes_the_next_time(tmp_path: Path) -> None:
    folder = tmp_path / "jobs/j1/1.gone"
    folder.mkdir(parents=True)
    (folder / "stdout.0").write_text("x")
    assert remove_attempts(str(tmp_path), ["j1"]) == {"removed": 0, "error": ""}
    assert not (tmp_path / "jobs/j1").exists()
