"""A cluster on this machine for tests: a folder, a config, and a Site at work."""

import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

from shunter.ask import Verdict, verify_log
from shunter.backends.node import attempts
from shunter.config import LoadedConfig, make_config
from shunter.daemon import Caller, Site, Submission, open_site
from shunter.events import Event, JobId, JobSpec
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.contracts.local_backends import empty

Seen = TypeVar("Seen", bound=Event)

PATIENCE_S = 90.0
NOBODY = Caller("", None)
"""Who submits in tests: jobs without a user run as whoever runs the tests."""


def config(root: Path, **changes: Any) -> LoadedConfig:
    """Return the config of a machine with one node of four GPUs that decides at every event."""
    local = {"root": str(root / "attempts"), "grace": 0.3, "restart": 0.3, "patrol": 0.2}
    tree: dict[str, Any] = {
        "cluster": {"nodes": [{"name": "n0", "gpus": 4}]},
        "policy": {"trigger": "event"},
        "backend": {"kind": "local", "local": local},
        "log": {"url": str(root / "log.db")},
    }
    for key, value in changes.items():
        section = tree.setdefault(key, {})
        tree[key] = {**section, **value} if isinstance(value, Mapping) else value
    return make_config(tree)


def program(
    text: str,
    *arguments: str,
    key: str = "",
    environment: Mapping[str, str] | None = None,
    **fields: Any,
) -> Submission:
    """Return a submission that runs a program in Python, quick to start."""
    spec = JobSpec(command=(sys.executable, "-I", "-S", "-c", text, *arguments), **fields)
    return Submission(spec, environment or {}, key)


@asynccontextmanager
async def at_work(loaded: LoadedConfig, set_aside: Sequence[JobId] = ()) -> AsyncIterator[Site]:
    """Open a site and run it; stop it properly at the end."""
    async with open_site(loaded, set_aside) as site, anyio.create_task_group() as tasks:
        tasks.start_soon(site.run)
        try:
            yield site
        finally:
            site.stop()


@asynccontextmanager
async def machine(root: Path, **changes: Any) -> AsyncIterator[Site]:
    """Run a site in a folder, and leave nothing running below it."""
    try:
        async with at_work(config(root, **changes)) as site:
            yield site
    finally:
        empty(str(root / "attempts"))


async def events_until(
    site: Site, done: Callable[[list[Event]], bool], after: int = 0
) -> list[Event]:
    """Follow a site until what came says that it is done; return all of it."""
    seen: list[Event] = []
    with anyio.move_on_after(PATIENCE_S):
        async for _, event in site.follow(after):
            seen.append(event)
            if done(seen):
                return seen
    raise AssertionError(f"it did not come to that: {seen}")


def wait_for(done: Callable[[], bool]) -> None:
    """Wait until something is so, of which no event tells."""
    until_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < until_s, "it did not come to that"
        time.sleep(0.005)


def remove_ended(folder: Path) -> None:
    """Remove an attempt's folder once it ended and its supervisor, who tidies there, is gone."""
    wait_for((folder / "status").exists)
    wait_for(lambda: not attempts.is_held(f"{folder}/lock"))
    shutil.rmtree(folder)


async def outcome(site: Site, job_id: str) -> str:
    """Wait for the end of a job; return how it ended."""

    def ended(seen: list[Event]) -> bool:
        return site.past.outcome(JobId(job_id)) is not None

    await events_until(site, ended)
    return str(site.past.outcome(JobId(job_id)))


def of(events: Iterable[Event], kind: type[Seen]) -> list[Seen]:
    """Return the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


async def verified(root: Path) -> Verdict:
    """Decide the whole log of a folder once more."""
    async with read_log(str(root / "log.db")) as reader:
        return await verify_log(reader, rebuild)
