"""How jobs of Slurm are stopped where they are: by signals, unless the config says otherwise."""

import pytest
from pydantic import ValidationError

from shunter.config import SlurmSection

ASKED = {"root": "/shared", "partition": "gpu"}


def test_jobs_are_not_suspended_in_slurm_unless_it_is_said() -> None:
    assert SlurmSection.model_validate({**ASKED, "mode": "per-job"}).stops_by == "signals"


def test_attempts_that_are_jobs_of_slurm_may_be_suspended_there() -> None:
    told = {**ASKED, "mode": "per-job", "stops_by": "scontrol"}
    assert SlurmSection.model_validate(told).stops_by == "scontrol"


def test_what_runs_in_a_pilot_is_no_job_of_slurm_to_suspend() -> None:
    with pytest.raises(ValidationError, match="stops_by: 'scontrol' needs mode = 'per-job'"):
        SlurmSection.model_validate({**ASKED, "stops_by": "scontrol"})
