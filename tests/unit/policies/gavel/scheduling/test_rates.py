"""How fast jobs are: by the table, by what was measured of them, or unknown."""

import pytest

from shunter.core import Job
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Measured, Rates
from tests.factories import job_spec

K80, V100 = GpuType("k80"), GpuType("v100")
ROOM = {K80: 4, V100: 4}
TABLE = ThroughputTable({V100: {JobKind("m", 1): 8.0}, K80: {JobKind("m", 1): 2.0}})


def job(gpus: int = 1, **fields: object) -> Job:
    spec = job_spec(gpus, **fields)
    return Job(JobId("j0"), 0, spec, spec.demand(), 0)


def rates(table: ThroughputTable | None = None, measured: Measured | None = None) -> Rates:
    return Rates(measured or Measured(), table, ROOM)


def measured(*samples: tuple[GpuType, float]) -> Measured:
    found = Measured()
    for gpu_type, batch_s in samples:
        found.sample(JobId("j0"), gpu_type, batch_s)
    return found


def test_table_says_how_fast_a_kind_is() -> None:
    assert rates(TABLE).of(job(model="m")) == {K80: 2.0, V100: 8.0}


def test_job_nobody_knows_is_equally_fast_everywhere() -> None:
    assert rates().of(job()) == {K80: 1.0, V100: 1.0}


def test_job_of_an_unknown_model_is_too() -> None:
    assert rates(TABLE).of(job(model="new")) == {K80: 1.0, V100: 1.0}


def test_gang_that_is_larger_than_a_type_cannot_run_there() -> None:
    assert Rates(Measured(), None, {K80: 2, V100: 8}).of(job(4)) == {K80: 0.0, V100: 1.0}


def test_job_runs_on_types_it_accepts_only() -> None:
    assert rates().of(job(gpu_types=["k80"])) == {K80: 1.0, V100: 0.0}


def test_measured_job_has_no_preference_for_what_it_never_tried() -> None:
    assert rates(None, measured((K80, 0.5))).of(job()) == {K80: 2.0, V100: 2.0}


def test_measured_rates_go_before_the_table() -> None:
    both = measured((K80, 0.25), (V100, 0.125))

    assert rates(TABLE, both).of(job(model="m")) == {K80: 4.0, V100: 8.0}


def test_table_carries_a_measured_rate_over_to_other_types() -> None:
    assert rates(TABLE, measured((K80, 0.25))).of(job(model="m")) == {K80: 4.0, V100: 16.0}


def test_first_sample_is_notable_and_one_like_it_is_not() -> None:
    found = Measured()

    assert found.sample(JobId("j0"), K80, 1.0)
    assert not found.sample(JobId("j0"), K80, 1.1)


def test_samples_are_averaged_until_they_are_notable() -> None:
    found = measured((K80, 1.0), (K80, 0.5))

    assert found.rates[JobId("j0")][K80] == pytest.approx(1.25)
    assert found.used[JobId("j0")][K80] == pytest.approx(1.25)
