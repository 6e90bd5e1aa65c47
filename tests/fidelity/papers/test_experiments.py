"""Running scenes: who is compared with whom, and on which jobs."""

from collections.abc import Callable

import pytest

from shunter.config import LoadedConfig
from shunter.core import JobResult
from shunter.events import JobId
from shunter.run import simulate
from shunter_papers.experiments import Contender, Scene, Variant, growth, run_scenes

pytestmark = pytest.mark.fidelity

Generated = Callable[..., LoadedConfig]
CONTENDERS = (Contender("First", "fifo"), Contender("Least", "las"))
VARIANTS = (
    Variant("free", "free"),
    Variant("costs", "60 s", {"simulation.costs.resume": "60s", "simulation.costs.suspend": "60s"}),
)


def _result(ordinal: int, jct_us: int, status: str = "finished") -> JobResult:
    return JobResult(
        *(JobId(str(ordinal)), "", 1, 0, 0, jct_us, jct_us, jct_us, 0, 0, status, ordinal)
    )


def test_each_scene_becomes_a_table_with_a_row_for_everybody_in_every_variant(
    generated: Generated,
) -> None:
    scenes = [
        Scene("made", load, load, generated(workload__generate__load=load)) for load in (0.8, 1.5)
    ]

    tables = run_scenes(scenes, VARIANTS, CONTENDERS)

    assert [table.place for table in tables] == ["made at load 0.8", "made at load 1.5"]
    assert [(row.label, row.policy, row.variant) for row in tables[1].rows] == [
        ("First", "fifo", "free"),
        ("Least", "las", "free"),
        ("First", "fifo", "costs"),
        ("Least", "las", "costs"),
    ]


def test_rows_are_what_simulate_gives(generated: Generated) -> None:
    """The jobs are loaded once for several runs, which must not show."""
    config = generated(simulation__costs__resume="60s", simulation__costs__suspend="60s")

    (table,) = run_scenes([Scene("made", 1.5, 1.5, generated())], VARIANTS, CONTENDERS)

    alone = [simulate(config.replaced({"policy.name": name}, "test")) for name in ("fifo", "las")]
    assert [row.document["log"]["digest"] for row in table.rows[2:]] == [
        result.document["log"]["digest"] for result in alone
    ]
    assert len(table.rows[3].jct_s) == alone[1].document["jobs"]["finished"]
    assert list(table.rows[3].jct_s) == sorted(table.rows[3].jct_s)


def test_the_number_of_processes_changes_nothing(generated: Generated) -> None:
    scenes = [Scene("made", 1.5, 1.5, generated())]

    assert run_scenes(scenes, VARIANTS, CONTENDERS, workers=2) == run_scenes(
        scenes, VARIANTS, CONTENDERS
    )


def test_growth_compares_the_last_quarter_of_submissions_with_the_first() -> None:
    results = [_result(ordinal, 10 * (ordinal + 1)) for ordinal in reversed(range(8))]

    assert growth(results) == pytest.approx((70 + 80) / (10 + 20))


def test_growth_is_over_finished_jobs_and_needs_four() -> None:
    results = [_result(0, 10), _result(1, 10), _result(2, 10), _result(3, 10, "failed")]

    assert growth(results) is None
