"""Turns on a local backend: what its scheduler is told of them, also of those it was away for."""

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from shunter.backends.live import LocalBackend, LocalNode, LocalSettings, TurnSettings
from shunter.core import Input, Launch
from shunter.events import (
    Allocation,
    AttemptStarted,
    JobId,
    JobSpec,
    LaunchFailed,
    NodeName,
    Share,
    Sharing,
    TurnEnded,
    TurnStarted,
)
from tests.contracts.local_backends import empty

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

QUANTUM_US = 200_000
NODE = NodeName("n0")
JOBS = [JobId(f"j{number}") for number in range(3)]
SECOND_US = 1_000_000


def settings_of(root: Path, term: int, slicing: TurnSettings | None) -> LocalSettings:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    nodes = (LocalNode(NODE, ("0", "1"), cpus),)
    return LocalSettings(str(root), nodes, term, grace_s=0.3, cgroup="", slicing=slicing)


def launch(job: JobId, mask: int) -> Launch:
    where = Allocation((Share(NODE, mask),), Sharing.sliced)
    return Launch(job, 1, where, JobSpec(1, command=("/bin/sleep", "600")))


async def observed(
    backend: LocalBackend, span_us: int, *, until: type | None = None
) -> list[Input]:
    """Return what is observed for a while; with `until`, no longer than up to one of a kind."""
    seen: list[Input] = []
    end_us = backend.now_us() + span_us
    while backend.now_us() < end_us:
        _, came = await backend.observe(end_us)
        seen += came
        if until is not None and any(isinstance(each, until) for each in came):
            break
    return seen


def turns_of(seen: Sequence[Input], job: JobId) -> list[tuple[int, int]]:
    """Return the turns of a job that were told to their ends; each begins behind the last."""
    told = [each for each in seen if isinstance(each, TurnStarted | TurnEnded)]
    spans: list[tuple[int, int]] = []
    began_us: int | None = None
    for each in [one for one in told if one.job_id == job]:
        if isinstance(each, TurnStarted):
            assert began_us is None, "two turns at once"
            assert each.began_us is not None
            began_us = each.began_us
            assert not spans or spans[-1][1] <= began_us
        else:
            assert began_us is not None, "the end of no turn"
            assert each.ended_us is not None
            spans.append((began_us, each.ended_us))
            began_us = None
    return spans


async def test_turns_go_on_while_the_scheduler_is_away_and_each_is_told_once(
    tmp_path: Path,
) -> None:
    """Three jobs on two GPUs; the instants are those of the turns, not of their telling."""
    slicing = TurnSettings(quantum_us=QUANTUM_US)
    try:
        async with LocalBackend(settings_of(tmp_path, 1, slicing)) as backend:
            now_us = backend.now_us()
            await backend.perform(
                [launch(job, 1 << number % 2) for number, job in enumerate(JOBS)], now_us
            )
            seen = await observed(backend, 3 * SECOND_US)
        assert sum(isinstance(each, AttemptStarted) for each in seen) == 3
        counts = {
            job: sum(
                isinstance(each, TurnStarted | TurnEnded) and each.job_id == job for each in seen
            )
            for job in JOBS
        }
        assert all(counts.values())
        await anyio.sleep(1.5)  # nobody is there
        async with LocalBackend(settings_of(tmp_path, 2, slicing), 100 * SECOND_US) as backend:
            await backend.inventory()
            for number, job in enumerate(JOBS):
                on = launch(job, 1 << number % 2).allocation
                backend.adopt(job, 1, started=True, noted={NodeName("n0"): counts[job]}, on=on)
            await backend.perform([], backend.now_us())
            later = await observed(backend, 3 * SECOND_US)
        for job in JOBS:
            mine = [
                each
                for each in [*seen, *later]
                if isinstance(each, TurnStarted | TurnEnded) and each.job_id == job
            ]
            kinds = [type(each) for each in mine]
            assert kinds == [TurnStarted, TurnEnded] * (len(kinds) // 2) + (
                [TurnStarted] if len(kinds) % 2 else []
            ), "each once, in order"
        away = [
            each
            for each in later
            if isinstance(each, TurnStarted) and (each.began_us or 0) < 100 * SECOND_US
        ]
        assert len(away) >= 3, "those from before its start, at the instants they had"
        spans = turns_of(seen, JOBS[0])
        assert spans, "no whole turn was told"
        assert all(end - began >= QUANTUM_US * 0.9 for began, end in spans)
    finally:
        empty(str(tmp_path))


async def test_nothing_is_started_to_take_turns_where_none_are_taken(tmp_path: Path) -> None:
    async with LocalBackend(settings_of(tmp_path, 1, None)) as backend:
        await backend.perform([launch(JOBS[0], 1)], backend.now_us())
        seen = await observed(backend, 20 * SECOND_US, until=LaunchFailed)
    (failed,) = [each for each in seen if isinstance(each, LaunchFailed)]
    assert "in turns, which none do here" in failed.cause
