from shunter.run import POLICIES, SCHEMA, Comparison, sentences


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
