"""`queue`, the API's `/jobs`, the metrics and `why` give one reason for a wait, at any moment.

Method: random moments of a small log of each policy, with what lies between two events too. The
gate looks at a tenth of twenty of each, THOROUGH at 500.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shunter.api import Metrics, queue_document
from shunter.ask import fold_events
from shunter.ask.why import document, explain
from shunter.core import State
from shunter.daemon import Site
from shunter.events import Event, JobId
from shunter.events.log import LogReader, read_log
from shunter.run import rebuild
from tests.factories import needs_highs
from tests.replay.truth.brute_force import decision_around
from tests.replay.truth.mixed_runs import RUNS, simulated_once
from tests.slices import THOROUGH, share

MOMENTS = 500 if THOROUGH else 20


def rows_by_id(state: State) -> dict[JobId, dict[str, Any]]:
    """Return the rows of `/jobs`, which `queue` prints, of all that wait."""
    shown = queue_document(state, state.jobs.values(), str, now="", ranks={})
    return {row["id"]: row for row in shown["jobs"] if row["reason"] is not None}


def counted_by_metrics(state: State) -> Counter[str]:
    """Return how many jobs wait for each reason by the page of `/metrics`."""
    site = SimpleNamespace(
        state=state,
        now_us=lambda: state.now_us,
        policy="",
        cluster_id="",
        term=1,
        committed=state.seq,
        slurm_silence=None,
        unheld=(),
        config=SimpleNamespace(queue_names=()),
    )
    page = Metrics(cast("Site", site)).page(0).decode()
    return Counter(
        {
            sample.labels["reason"]: int(sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "shunter_jobs_waiting" and sample.value
        }
    )


def moments(events: list[Event], count: int) -> Iterator[tuple[int, int]]:
    """Yield ends of decisions in order, each with an instant before the next event."""
    rng = Random(17)
    chosen = sorted(
        decision_around(events, rng.randrange(1, len(events) + 1))[1] for _ in range(count)
    )
    for seq in chosen:
        at_us = events[seq - 1].at_us
        next_us = events[seq].at_us if seq < len(events) else at_us + 60_000_000
        yield seq, rng.choice((at_us, max(at_us, next_us - 1)))


async def disagreements(reader: LogReader, count: int) -> list[str]:
    """Return the moments at which one of the four says otherwise."""
    events = [event async for event in reader.events()]
    state, rng, found = State(), Random(19), list[str]()
    for seq, at_us in share(list(moments(events, count))):
        fold_events(state, events[state.seq : seq])
        rows = rows_by_id(state)
        if not rows:
            continue
        in_queue = Counter(row["reason"]["name"] for row in rows.values())
        if counted_by_metrics(state) != in_queue:
            found.append(f"e{seq}: metrics {counted_by_metrics(state)}, queue {in_queue}")
        job_id = rng.choice(list(rows))
        said = document(await explain(reader, job_id, seq, at_us, rebuild))["reason"]["name"]
        shown = rows[job_id]["reason"]["name"]
        if said != shown:
            found.append(f"{job_id} at e{seq}, {at_us} us: queue {shown}, why {said}")
    return found


@needs_highs
@pytest.mark.parametrize("name", RUNS)
def test_queue_and_metrics_and_jobs_and_why_give_one_reason(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)

    async def found() -> list[str]:
        async with read_log(url) as reader:
            return await disagreements(reader, MOMENTS)

    assert asyncio.run(found()) == []
