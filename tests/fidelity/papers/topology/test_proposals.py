"""Job schedulers that propose: how often they collide, and how many gangs are approved."""

import asyncio
from dataclasses import replace

import orjson
import pytest

from shunter_papers.topology.approvals import measure
from shunter_papers.topology.comparison import Asked, Reproduction, reproduce
from shunter_papers.topology.staleness import DURATIONS_S, STALENESS_S, StalenessRow, verdicts

pytestmark = pytest.mark.fidelity

PARTS = ("staleness", "approvals")


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce(Asked(jobs=80, parts=PARTS, servers=40, approvals=50), workers=1)


def test_every_age_of_views_has_a_row_at_every_rate(small: Reproduction) -> None:
    assert [row.staleness_s for row in small.staleness] == [*STALENESS_S] * len(DURATIONS_S)
    assert len({row.starts_per_s for row in small.staleness}) == len(DURATIONS_S)


def test_fresh_views_never_collide_and_stale_ones_do(small: Reproduction) -> None:
    fresh = [row for row in small.staleness if not row.staleness_s]
    assert all(row.conflict_rate == row.approval_p95_s == row.lock_mean_s == 0 for row in fresh)
    assert any(row.conflict_rate > 0 for row in small.staleness)


def test_a_lock_that_is_wanted_all_the_time_falls_behind(small: Reproduction) -> None:
    for row in small.staleness:
        assert (row.lock_mean_s is None) is (row.starts_per_s * row.staleness_s / 2 >= 1)


def test_document_is_one_of_json_and_equal_runs_give_it_again(small: Reproduction) -> None:
    document = orjson.loads(orjson.dumps(small.document))
    assert document["approvals"]["servers"] == 40
    again = reproduce(Asked(jobs=80, parts=("staleness",)), workers=1).document
    assert again["staleness"] == document["staleness"]
    assert "approvals" not in again


ROW = StalenessRow(1.0, 0.0, 10, 10, 0, 0.0, 0.5, 0.5, 0.0, 0.0, 1.0)


def test_sentences_name_where_the_lock_is_worse() -> None:
    behind = replace(ROW, staleness_s=5.0, lock_mean_s=None, conflict_rate=0.25)
    slower = replace(ROW, staleness_s=2.0, lock_mean_s=0.7)
    quicker = replace(ROW, staleness_s=1.0, lock_mean_s=0.1)
    rates, lock = verdicts([ROW, quicker, slower, behind])
    assert rates.endswith("0.0% (0 s), 0.0% (1 s), 0.0% (2 s), 25.0% (5 s)")
    assert "falls ever further behind in 1 of 3 comparisons and is slower in 1 more" in lock


def test_a_full_and_fragmented_cluster_grants_and_rejects() -> None:
    rates = asyncio.run(measure("memory:", 40, 200, 1))
    assert rates.approvals_per_s > 0
    assert 0 < rates.conflict_rate < 1
    assert rates.proposals_per_s > rates.approvals_per_s
