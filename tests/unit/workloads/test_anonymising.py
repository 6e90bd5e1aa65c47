"""Names as keyed hashes."""

from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import Trace, load_trace
from shunter.workloads.formats import anonymised

KEY = b"sixteen bytes..."


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submit_s,duration_s,gpus,user,queue,name,command\n"
        "1,0,5,1,ana,lab,ana,python|train.py\n2,1,5,2,bo,lab,eval,\n3,2,5,1,ana,,,\n"
    )
    return load_trace(path)


def test_same_name_is_the_same_hash_under_one_key_only(trace: Trace) -> None:
    first, second, third = anonymised(trace, KEY, with_queues=False).jobs
    assert first.spec.user == third.spec.user
    assert first.spec.user != second.spec.user
    other = anonymised(trace, KEY + b"!", with_queues=False).jobs[0]
    assert other.spec.user != first.spec.user


def test_no_name_is_left(trace: Trace) -> None:
    first, *_ = anonymised(trace, KEY, with_queues=True).jobs
    assert {"ana", "lab"}.isdisjoint({first.spec.user, first.spec.queue, first.spec.name})
    assert first.spec.command == ()
    assert first.spec.user.removeprefix("user-") != first.spec.name.removeprefix("job-")


def test_sizes_times_and_partitions_stay(trace: Trace) -> None:
    made = anonymised(trace, KEY, with_queues=False)
    for before, after in zip(trace.jobs, made.jobs, strict=True):
        assert (after.job_id, after.submit_us, after.duration_us) == (
            before.job_id,
            before.submit_us,
            before.duration_us,
        )
        assert (after.spec.gpus, after.spec.queue) == (before.spec.gpus, before.spec.queue)
    assert made.jobs[2].spec.name == ""


def test_key_that_is_too_short_is_refused(trace: Trace) -> None:
    with pytest.raises(TraceError, match="the key has 3 bytes: expected 16 or more"):
        anonymised(trace, b"abc", with_queues=False)
