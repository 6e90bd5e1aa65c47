"""Jobs that end near a threshold are named, with it and how near they are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shunter.run import simulate
from tests.unit.app.traces import config_of

Remarks = Callable[..., Sequence[str]]
COSTS = {"start": 1.0}


@pytest.fixture
def remarks(tmp_path: Path) -> Remarks:
    """Return what is said of a run of jobs on four GPUs, each with its GPUs and its duration."""

    def remarks(
        policy: str, params: dict[str, Any], *jobs: tuple[int, float], costs: object = COSTS
    ) -> Sequence[str]:
        rows = [f"j{n},{n * 1000},{gpus},{took_s}" for n, (gpus, took_s) in enumerate(jobs)]
        tables = {
            "simulation": {"costs": costs},
            "policy": {"name": policy, "trigger": "event", "params": {policy: params}},
            "log": {"url": "none:"},
        }
        head = "job_id,submit_s,gpus,duration_s"
        return simulate(config_of(tmp_path, head, *rows, **tables)).remarks

    return remarks


def test_jobs_near_a_threshold_are_named_the_nearest_first(remarks: Remarks) -> None:
    jobs = [(2, 8.4), (1, 30.0), (4, 4.2), (1, 84.0)]
    (said,) = remarks("las", {"queues_gpu_s": [20, 90]}, *jobs)
    # With one second of start: 18.8, 31, 20.8 and 85 GPU-seconds.
    assert said.startswith("las: these jobs end with about as many GPU-seconds as a threshold")
    assert said.endswith("far off: j2, 4.0 % above 20; j3, 5.6 % below 90; j0, 6.0 % below 20")


def test_a_policy_of_one_dimension_counts_seconds(remarks: Remarks) -> None:
    params = {"queues_gpu_s": [20], "attained": "time"}
    (said,) = remarks("tiresias", params, (4, 4.2), (4, 18.5))
    assert "as many seconds as a threshold" in said
    assert said.endswith("far off: j1, 2.5 % below 20")


def test_many_are_counted(remarks: Remarks) -> None:
    jobs = [(1, 18.5 + number / 10) for number in range(8)]
    (said,) = remarks("gittins", {"queues_gpu_s": [20], "history": "log"}, *jobs)
    assert said.count("20") == 5
    assert said.endswith("; and 3 more")


@pytest.mark.parametrize(
    ("policy", "params", "costs"),
    [
        ("fifo", {}, COSTS),
        ("las", {"queues_gpu_s": [500]}, COSTS),
        ("las", {"queues_gpu_s": [20]}, {}),
    ],
)
def test_nothing_is_said_without_thresholds_costs_or_jobs_near(
    remarks: Remarks, policy: str, params: dict[str, Any], costs: object
) -> None:
    assert not remarks(policy, params, (1, 19.5), costs=costs)
