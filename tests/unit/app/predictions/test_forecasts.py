"""Forecasts of small logs: from what was known alone, and exact where nothing is open."""

import asyncio
import csv
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from shunter.api import ForecastDocument
from shunter.ask import fold_events
from shunter.ask.forks import (
    Forecasting,
    ForkPoint,
    Held,
    History,
    Kept,
    Quantiles,
    Question,
    answer,
    end_of_instant,
    fork_point,
    held_at,
    kept_of,
    past_moments,
    read_history,
)
from shunter.core import State
from shunter.events import JobId, JobSubmitted, encode_payload
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild, recorded_parts
from tests.factories import job_spec
from tests.unit.app.forking.worlds import COSTS, simulated, tree

T = TypeVar("T")
MINUTE_US = 60_000_000


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a run in which starts take time and jobs vary."""
    simulation = {"simulation": {"costs": COSTS}}
    return simulated(tmp_path_factory.mktemp("busy"), tree("las", **simulation))


@pytest.fixture(scope="module")
def regular(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a run in which every job needs ten minutes, and one GPU waits for them."""
    folder = tmp_path_factory.mktemp("regular")
    with (folder / "trace.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("job_id", "submit_s", "gpus", "duration_s", "user"))
        rows.writerows((f"t{number}", 540 * number, 1, 600, "ana") for number in range(40))
    cluster = {"nodes": [{"name": "n0", "gpus": 1}]}
    workload = {"trace": str(folder / "trace.csv")}
    return simulated(folder, tree("fifo", cluster=cluster, workload=workload))


def read(url: str, work: Callable[[LogReader], Awaitable[T]]) -> T:
    """Return what some work finds in a log."""

    async def found() -> T:
        async with read_log(url) as reader:
            return await work(reader)

    return asyncio.run(found())


async def point_at(reader: LogReader, seq: int) -> ForkPoint:
    return await fork_point(reader, await end_of_instant(reader, seq), rebuild)


def test_only_what_was_known_at_a_moment_is_known_for_it(busy: str) -> None:
    """Method: the log is folded to the moment and no further, and says the same."""

    async def compared(reader: LogReader) -> None:
        whole = await read_history(reader)
        events = [event async for event in reader.events()]
        for seq in range(30, len(events), 37):
            end = await end_of_instant(reader, seq)
            part = History(State())
            for event in events[:end]:
                result = fold_events(part.state, (event,))
                part.take(event, part.state, result)
            state = part.state
            now_us = state.now_us
            assert whole.submitted_before(now_us) == part.submitted_before(now_us)
            worked = part.worked_before(state, now_us, 0)
            assert whole.worked_before(state, now_us, 0) == worked
            assert {each.user for each in worked} <= {
                each.spec.user for each in part.submitted_before(now_us)
            }

    read(busy, compared)


def test_start_is_foreseen_exactly_where_all_jobs_need_the_same(regular: str) -> None:
    async def compared(reader: LogReader) -> list[Held]:
        history = await read_history(reader)
        point = await point_at(reader, history.submissions[JobId("t35")][0])
        forecasting = Forecasting(history, recorded_parts(point.started.config))
        asked = [job.job_id for job in point.state().jobs.values()]
        told = await forecasting.forecast(point, asked)
        assert set(told.ends) == set(asked)
        assert len(told.starts) >= 2
        for job_id, band in told.starts.items():
            (start_us,) = history.launches[job_id]
            assert band.p50_us == start_us
        for job_id, band in told.ends.items():
            assert band.p50_us is not None
            assert band.p50_us == history.launches[job_id][0] + 10 * MINUTE_US

        async def at(seq: int) -> ForkPoint:
            return await point_at(reader, seq)

        return await held_at(forecasting, past_moments(history, 4), at)

    held = read(regular, compared)
    for kept in ([each.starts for each in held], [each.ends for each in held]):
        jobs = [job_id for each in kept for job_id in each.jobs]
        assert len(jobs) == len({*jobs}) > 3
        assert sum(each.by_p90 for each in kept) == len(jobs) - sum(each.open for each in kept) > 3


def test_what_a_run_time_decides_is_foretold_once_five_jobs_have_ended(
    regular: str,
) -> None:
    """Before, the first to end were taken for all, and those that run for about half done."""

    async def found(reader: LogReader) -> list[tuple[Quantiles, Quantiles]]:
        history = await read_history(reader)
        forecasts = []
        for job_id in (JobId("t2"), JobId("t5"), JobId("t6")):
            point = await point_at(reader, history.submissions[job_id][0])
            forecasting = Forecasting(history, recorded_parts(point.started.config))
            told = await forecasting.forecast(point, [job_id])
            forecasts.append((told.starts[job_id], told.ends[job_id]))
        return forecasts

    first, young, enough = read(regular, found)
    unknown = Quantiles(None, None)
    assert first == young == (unknown, unknown)
    assert enough[0].p50_us == 60 * MINUTE_US


def test_young_cluster_says_what_it_does_not_know(tmp_path: Path) -> None:
    with (tmp_path / "trace.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("job_id", "submit_s", "gpus", "duration_s", "user"))
        rows.writerows((f"t{number}", 10 * number, 1, 600, "ana") for number in range(3))
    cluster = {"nodes": [{"name": "n0", "gpus": 1}]}
    workload = {"trace": str(tmp_path / "trace.csv")}
    url = simulated(tmp_path, tree("fifo", cluster=cluster, workload=workload))
    submitted = JobSubmitted(0, JobId("dry-run"), job_spec(1, user="ana", time_limit_us=MINUTE_US))
    question = Question(url, submitted=encode_payload([submitted]), samples=9)

    document = asyncio.run(answer(question)).document

    (row,) = document["jobs"]
    assert row["start"]["p50_us"] == row["start"]["p90_us"], "a GPU is free"
    assert row["end"]["p50_us"] is None
    assert row["end"]["p90_us"] == row["start"]["p90_us"] + MINUTE_US, "its time limit ends it"
    assert document["accuracy"]["moments"] == document["accuracy"]["ends"]["jobs"] == 0
    assert document["assumptions"] == [
        (
            "run times that no job declared are not known before 5 jobs have ended (3 so far): "
            "what depends on them has no P50, and a P90 only where a time limit or the policy "
            "bounds it"
        ),
        (
            "no other jobs are submitted, as too few have been so far to predict them; servers "
            "stay as they are"
        ),
    ]


def test_document_is_what_the_api_says_and_the_same_again(busy: str, tmp_path: Path) -> None:
    question = Question(busy, moments=2, samples=3)

    found = asyncio.run(answer(question))

    ForecastDocument.model_validate_json(_json(found.document))
    assert found == asyncio.run(answer(question))
    assert len(found.held) == 2
    # What came of the past is not found out again, and does not change.
    known = tuple(
        Held(each.seq, replace(each.starts, open=0), replace(each.ends, open=0))
        for each in found.held
    )
    further = asyncio.run(answer(Question(busy, known=known, moments=1, samples=3)))
    assert further.held[:2] == known
    assert len({each.seq for each in further.held}) == 3


def test_what_was_open_is_found_out_again_in_turns(busy: str) -> None:
    closed = asyncio.run(answer(Question(busy, moments=1, samples=3))).held
    first, second = (Held(seq, Kept((), open=1), Kept()) for seq in (30, 60))

    known = (first, *closed, second)
    found = asyncio.run(answer(Question(busy, known=known, moments=2, samples=3)))

    again = {each.seq: each for each in found.held}
    assert [*again][:2] == [closed[0].seq, second.seq]
    assert again[30].starts.jobs or again[30].ends.jobs
    assert len(again) == 4


def test_forecast_counts_when_its_p90_has_come_and_not_before() -> None:
    """Those that were early would count at once, and all that are late would not yet."""
    came = {JobId("early"): 10, JobId("late"): None, JobId("soon"): 20, JobId("never"): None}
    told = {
        JobId("early"): Quantiles(15, 200),
        JobId("late"): Quantiles(40, 90),
        JobId("soon"): Quantiles(15, 100),
        JobId("never"): Quantiles(50, None),
    }

    assert kept_of(came, told, 100) == Kept((*came,), by_p50=0, by_p90=1, open=2)


def test_accuracy_counts_ends(regular: str) -> None:
    accuracy = asyncio.run(answer(Question(regular, moments=4, samples=9))).document["accuracy"]

    assert accuracy["ends"]["jobs"] > accuracy["jobs"] > 0
    assert accuracy["ends"]["share_by_p90"] == 1.0
    assert accuracy["ends"]["ended"] > 0


def test_imagined_job_alone_is_foreseen(busy: str) -> None:
    submitted = JobSubmitted(0, JobId("dry-run"), job_spec(2, user="ana"))
    question = Question(busy, submitted=encode_payload([submitted]), moments=0, samples=9)

    (row,) = asyncio.run(answer(question)).document["jobs"]

    assert (row["id"], row["state"], row["gpus"]) == ("dry-run", "imagined", 2)
    assert row["start"]["p50_us"] <= row["start"]["p90_us"] < row["end"]["p90_us"]


def _json(document: object) -> bytes:
    import orjson

    return orjson.dumps(document)
