"""Several policies on the same jobs, and what is said of them."""

import pytest

from shunter.errors import ConfigError
from shunter.run import POLICIES, SCHEMA, Comparison, compare, sentences
from tests.unit.app.conftest import Generated


def _without_elapsed(document: Comparison) -> Comparison:
    for run in document["runs"]:
        del run["elapsed"]
    return document


def test_policies_stand_in_the_order_in_which_they_were_named(generated: Generated) -> None:
    document = compare(generated(), ["srtf", "fifo"])

    assert [summed["policy"] for summed in document["policies"]] == ["srtf", "fifo"]
    assert [summed["oracle"] for summed in document["policies"]] == [True, False]


def test_all_policies_see_the_same_jobs_of_each_seed(generated: Generated) -> None:
    document = compare(generated(seed=5), ["fifo", "las"], seeds=2)

    digests = [run["trace"]["digest"] for run in document["runs"]]
    assert document["seeds"] == [5, 6]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]


def test_the_number_of_processes_changes_nothing(generated: Generated) -> None:
    alone = compare(generated(), ["fifo", "las"], seeds=2, workers=1)
    together = compare(generated(), ["fifo", "las"], seeds=2, workers=2)

    assert _without_elapsed(alone) == _without_elapsed(together)


def test_intervals_need_more_than_one_seed(generated: Generated) -> None:
    measure = compare(generated(), ["fifo"])["policies"][0]["measures"]["jct_s.mean"]

    assert measure["ci95"] is None


def test_intervals_are_students(generated: Generated) -> None:
    document = compare(generated(), ["fifo"], seeds=2)

    first, second = (run["jct_s"]["mean"] for run in document["runs"])
    measure = document["policies"][0]["measures"]["jct_s.mean"]
    assert first is not None
    assert second is not None
    assert measure["mean"] == pytest.approx((first + second) / 2)
    # Two values: the half width is t(0.975, 1) x |difference| / 2.
    assert measure["ci95"] == pytest.approx(12.706 * abs(first - second) / 2)


def test_differences_are_paired_with_the_first_policy(generated: Generated) -> None:
    fifo, las = compare(generated(), ["fifo", "las"], seeds=3)["policies"]

    difference = las["differences"]["jct_s.mean"]["mean"]
    of_las, of_fifo = (runs["measures"]["jct_s.mean"]["mean"] for runs in (las, fifo))
    assert of_las is not None
    assert of_fifo is not None
    assert difference == pytest.approx(of_las - of_fifo)
    assert fifo["differences"]["jct_s.mean"] == {"mean": 0.0, "ci95": 0.0}


def test_an_unknown_policy_is_refused_before_any_run(generated: Generated) -> None:
    with pytest.raises(ConfigError, match="no policy 'nope'"):
        compare(generated(), ["fifo", "nope"])


def test_an_error_in_another_process_comes_back_as_itself(generated: Generated) -> None:
    broken = generated(workload__trace="/no/such/trace.csv")

    from shunter.errors import TraceError

    with pytest.raises(TraceError, match="there is no file"):
        compare(broken, ["fifo", "las"], workers=2)


def test_a_comparison_writes_no_log(generated: Generated) -> None:
    document = compare(generated(log__url="/no/such/folder/run.db"), ["fifo"])

    assert document["runs"][0]["log"]["url"] == "none:"


def _document(*runs: tuple[float, float, float]) -> Comparison:
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "seeds": [7],
        "cluster": {"gpus": 64, "nodes": 8},
        "runs": [],
        "policies": [
            {
                "policy": policy,
                "oracle": policy == "srtf",
                "jobs": {},
                "differences": {},
                "log_digests": [],
                "measures": {
                    "jct_s.mean": {"mean": mean_h * 3600},
                    "jct_s.p99": {"mean": p99_h * 3600},
                    "preemptions": {"mean": preemptions},
                },
            }
            for policy, (mean_h, p99_h, preemptions) in zip(POLICIES, runs, strict=True)
        ],
    }


def test_sentences_say_what_the_numbers_say() -> None:
    said = sentences(_document((40.0, 90.0, 0), (10.0, 100.0, 1200), (8.0, 80.0, 500)))

    assert "40.0 hours" in said[0]
    assert "10.0 hours, 75 % less" in said[0]
    assert "las stopped running jobs 1,200 times, and fifo never did" in said[1]
    assert "100.0 hours or more with las, and 90.0 hours or more with fifo" in said[1]
    assert "las takes 1.2 times as long" in said[2]
    assert "fifo 5.0 times" in said[2]


def test_sentences_stay_true_where_the_numbers_turn() -> None:
    said = sentences(_document((10.0, 90.0, 3), (12.0, 95.0, 0), (12.0, 80.0, 0)))

    assert "12.0 hours, 20 % more" in said[0]
    assert "las never stopped a running job" in said[1]
