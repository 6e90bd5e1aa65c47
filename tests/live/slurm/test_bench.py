"""What the other tests of this folder stand on: the bench itself is a Slurm cluster."""

import pytest

from tests.live.slurm.bench import SlurmBench

pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def test_job_sees_the_gpus_it_was_given(slurm: SlurmBench) -> None:
    out = slurm.folder / "out" / "gpus"
    job = slurm.submit(
        f'echo "$CUDA_VISIBLE_DEVICES" > {out}', "--gres=gpu:v100:2", "--nodelist=n1"
    )
    slurm.wait_for(lambda: slurm.state_of(job) == "COMPLETED", "the end of the job")
    assert out.read_text() == "0,1\n"


def test_controller_that_was_killed_knows_its_jobs_when_it_is_back(slurm: SlurmBench) -> None:
    job = slurm.submit("exec sleep 300", "--gres=gpu:p100:1")
    slurm.wait_for(lambda: slurm.state_of(job) == "RUNNING", "a running job")
    slurm.wait_until_saved(job)
    slurm.kill_slurmctld()
    assert not slurm.answers()
    slurm.start_slurmctld()
    assert slurm.state_of(job) == "RUNNING"


def test_node_whose_daemon_comes_back_is_in_service(slurm: SlurmBench) -> None:
    slurm.kill_slurmd("n4")
    slurm.start_slurmd("n4")
    assert slurm.states()["n4"] == "idle"


def test_drained_node_takes_no_job_until_it_is_resumed(slurm: SlurmBench) -> None:
    slurm.drain("n4", "a fan is broken")
    assert slurm.states()["n4"] == "drained"
    job = slurm.submit("exit 0", "--gres=gpu:k80:1")
    assert slurm.state_of(job) == "PENDING"
    slurm.resume("n4")
    slurm.wait_for(lambda: slurm.state_of(job) == "COMPLETED", "the end of the job")
