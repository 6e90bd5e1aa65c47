"""docs/explanation/job-life.md and `TRANSITIONS`, held against every event of the kept runs."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs.job_life_page import page
from shunter.ask import fold_events
from shunter.core import TRANSITIONS, Job, JobPhase, State
from shunter.core.fold import attempts
from shunter.errors import IllegalEventError
from shunter.events import Event
from shunter.events.log import import_jsonl, open_log, read_log
from tests.replay.golden_runs import FOLDER, RUNS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "job-life.md"


def table() -> dict[str, dict[str, str]]:
    """Return what the page says of each phase: field -> set, none or any."""
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ")
    ]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]}


def is_set(job: Job, field: str) -> bool:
    value = getattr(job, field)
    return bool(value.shares) if field in ("allocation", "held") else value is not None


def events_of(name: str) -> Sequence[Event]:
    async def read() -> list[Event]:
        lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        async with open_log("memory:") as log:
            await import_jsonl(lines, log)
        async with read_log(log) as reader:
            return [event async for event in reader.events()]

    return asyncio.run(read())


def test_the_table_names_every_phase() -> None:
    assert sorted(table()) == sorted(JobPhase)


@pytest.mark.parametrize("name", RUNS)
def test_jobs_have_set_what_their_phase_says(name: str) -> None:
    said, state = table(), State()
    for event in events_of(name):
        fold_events(state, [event])
        wrong = [
            (state.seq, job.job_id, str(job.phase), field)
            for job in state.jobs.values()
            for field, how in said[job.phase].items()
            if how != "any" and is_set(job, field) != (how == "set")
        ]
        assert not wrong


def test_the_page_draws_the_transitions() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.job_life_page"


@pytest.mark.parametrize("name", RUNS)
def test_jobs_take_no_other_step(name: str) -> None:
    state, known = (
        State(),
        {(step.before, step.after, k) for step in TRANSITIONS for k in step.kinds},
    )
    for event in events_of(name):
        before = {job_id: job.phase for job_id, job in state.jobs.items()}
        fold_events(state, [event])
        after = {job_id: job.phase for job_id, job in state.jobs.items()}
        steps = {
            (before.get(job_id), after.get(job_id))
            for job_id in {**before, **after}
            if before.get(job_id) is not after.get(job_id)
        }
        assert {(*step, type(event)) for step in steps} <= known


@pytest.mark.parametrize(("before", "after"), list(product(JobPhase, JobPhase)))
def test_fold_refuses_every_other_step(before: JobPhase, after: JobPhase) -> None:
    job: Any = SimpleNamespace(job_id="j1", phase=before)
    is_known = before is after or (before, after) in {step[:2] for step in TRANSITIONS}
    with nullcontext() if is_known else pytest.raises(IllegalEventError, match=f"it is {before}"):
        attempts.enter(job, after)
    assert job.phase is (after if is_known else before)


def test_the_kept_runs_go_through_every_phase() -> None:
    seen: Counter[str] = Counter()
    for name in RUNS:
        state = State()
        for event in events_of(name):
            fold_events(state, [event])
            seen.update(str(job.phase) for job in state.jobs.values())
    assert set(seen) == set(JobPhase)
