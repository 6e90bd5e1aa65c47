"""How jobs of Slurm are stopped where they are: by signals, unless the config says otherwise."""

from shunter.config import SlurmSection

ASKED = {"root": "/shared", "partition": "gpu"}


def test_jobs_are_not_suspended_in_slurm_unless_it_is_said() -> None:
    assert SlurmSection.model_validate({**ASKED, "mode": "per-job"}).stops_by == "signals"


def test_attempts_that_are_jobs_of_slurm_may_be_suspended_there() -> None:
    told = {**ASKED, "mode": "per-job", "stops_by": "scontrol"}
    assert SlurmSection.model_validate(told).stops_by == "scontrol"
