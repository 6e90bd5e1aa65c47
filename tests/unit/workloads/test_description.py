"""Statistics of traces."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.workloads import SizeClass, describe_trace, load_trace

Write = Callable[[str, str], Path]


def test_small_trace_is_described(write: Write) -> None:
    text = (
        "submit_s,duration_s,gpus,user,queue,status\n"
        "0,3600,1,ana,a,\n100,7200,4,bo,b,failed\n3600,3600,1,,b,\n"
    )
    told = describe_trace(load_trace(write("t.csv", text)), 5)
    assert (told.jobs, told.span_s, told.gpu_h, told.gpus_mean, told.load) == (3, 3600, 10, 10, 2)
    assert told.duration_s == {"mean": 4800, "p50": 3600, "p90": 6480, "p99": 7128, "max": 7200}
    assert told.sizes == (SizeClass(1, 2, 2.0, 2 / 3, 0.2), SizeClass(4, 1, 8.0, 1 / 3, 0.8))
    assert told.queues == (("b", 2, 9.0), ("a", 1, 1.0))
    assert told.users == (("bo", 1, 8.0), ("ana", 1, 1.0))
    assert told.ends == {"finished": 2, "failed": 1}


def test_jobs_wider_than_the_cluster_are_counted(samples: Path) -> None:
    assert describe_trace(load_trace(samples / "philly.csv"), 4).wider == 1


def test_load_needs_a_cluster_and_a_span(samples: Path) -> None:
    trace = load_trace(samples / "philly.csv")
    assert describe_trace(trace, None).load is None
    assert describe_trace(load_trace(samples / "philly.csv", rows=(0, 1)), 4).gpus_mean is None


def test_public_trace_is_what_its_authors_say(philly: Path) -> None:
    told = describe_trace(load_trace(philly), 400)
    assert told.gpu_h == pytest.approx(978_078, abs=1)
    assert told.gpus_mean == pytest.approx(374, abs=1)
    assert told.sizes[0].jobs_share == pytest.approx(0.932, abs=0.0005)
    assert told.sizes[0].gpu_h_share == pytest.approx(0.18, abs=0.005)
    assert told.duration_s["p50"] == 1_144
