"""The scenes of the Tiresias comparison, and the baseline's gangs."""

from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter_papers.tiresias import (
    CONTENDERS,
    LOADS,
    PHILLY_LOADS,
    STAND_IN,
    Asked,
    reproduce,
    scenes,
)

pytestmark = pytest.mark.fidelity

TRACE = "job_id,submit_s,gpus,duration_s\n" + "".join(
    f"{number},{number * 60},{gpus},600\n" for number, gpus in enumerate((1, 2, 8, 4, 1, 16, 1, 2))
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def test_without_a_trace_made_up_jobs_stand_in_and_say_so() -> None:
    asked, report = scenes(Asked(jobs=20))

    assert [(scene.trace, scene.load) for scene in asked] == [
        *(("tiresias-like", load) for load in LOADS),
        *(("philly-like", load) for load in PHILLY_LOADS),
    ]
    assert [scene.notes for scene in asked[3:]] == [(STAND_IN,)] * len(PHILLY_LOADS)
    assert report is None


def test_a_trace_meets_its_loads_by_the_size_of_the_cluster(trace: Path) -> None:
    asked, report = scenes(Asked(jobs=7, trace=trace))

    found = asked[len(LOADS) :]
    # 33 x 600 GPU-seconds within six minutes are 55 GPUs.
    assert [scene.config.config.cluster.gpus for scene in found] == [112, 80, 60]
    assert [scene.load_offered for scene in found] == pytest.approx([55 / 112, 55 / 80, 55 / 60])
    assert report is not None
    assert all(not scene.notes for scene in found)


def test_the_cluster_holds_the_widest_gang(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,30,10\nb,0,1,10\n")

    asked, _ = scenes(Asked(trace=path))

    assert asked[-1].config.config.cluster.gpus == 32
    assert asked[-1].load_offered is None


def test_a_missing_trace_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read trace"):
        scenes(Asked(trace=tmp_path / "none.csv"))


def test_the_baseline_waits_for_the_fewest_servers_and_the_others_need_not() -> None:
    (scene, *_), _ = scenes(Asked(jobs=5))
    placements = [
        scene.config.replaced(
            {"policy.name": contender.policy, **contender.settings}, "test"
        ).config.policy.skew
        for contender in CONTENDERS
    ]

    assert [(skew.threshold, skew.unknown) for skew in placements] == [
        (0.0, "consolidate"),
        (0.375, "spread"),
        (0.375, "spread"),
        (0.375, "spread"),
    ]


def test_the_document_is_one_and_the_same_for_equal_seeds() -> None:
    asked, _ = scenes(Asked(seed=3, jobs=30))

    first, second = (reproduce(asked, 3).document for _ in range(2))

    assert first == second
    assert (first["schema"], first["seed"], first["baseline"]) == (1, 3, "YARN-CS")
    assert len(first["tables"]) == len(LOADS) + len(PHILLY_LOADS)
    assert [run["oracle"] for run in first["tables"][0]["runs"]] == [False, True, False, False] * 2
