"""The answer of squeue, as 22.05 gave it and as later versions do."""

import pytest

from shunter.backends.slurm import QueuedJob, queue_format, queued_jobs
from shunter.errors import SlurmUnknownError
from tests.unit.backends.slurm.recorded import WORD, recorded


def answer(version: str) -> str:
    """Return a recorded answer of squeue, without the fields that are not asked for any more."""
    asked = {field.partition(":")[0] for field in queue_format(WORD).split(",")}
    *cells, rest = recorded(version, "queue.txt").split(WORD)
    kept = [cell for cell in cells if cell.rpartition("=")[2] in asked]
    return WORD.join([*kept, rest])


def jobs(version: str = "22.05") -> dict[int, QueuedJob]:
    return {job.id: job for job in queued_jobs(answer(version), WORD)}


def test_job_is_told_with_its_nodes_and_instants() -> None:
    job = jobs()[4]
    assert (job.name, job.state, job.user) == ("gang", "COMPLETED", "root")
    assert job.nodes == ("n1", "n2")
    assert (job.submit_s, job.start_s, job.end_s) == (1795522662, 1795522665, 1795522667)
    assert job.time_limit_s == 300
    assert job.has_ended


def test_tasks_of_an_array_are_jobs_of_their_own_and_its_rest_is_one() -> None:
    assert {32, 35, 36} <= jobs().keys()


def test_job_that_waits_has_no_nodes_and_a_reason() -> None:
    job = jobs()[33]
    assert (job.state, job.nodes) == ("PENDING", ())
    assert job.reason == "ReqNodeNotAvail, May be reserved for other job"
    assert job.time_limit_s == 86_400
    assert not job.has_ended


def test_name_with_line_breaks_makes_no_other_job() -> None:
    found = jobs()
    assert found[34].name == "innocent\n77=JobID~shunter:lab:j1.a1=Name|"
    assert 77 not in found


def test_requeued_job_says_how_often() -> None:
    assert (jobs()[8].restarts, jobs()[1].restarts) == (1, 0)


def test_later_version_is_read_with_local_instants_and_states_that_are_new() -> None:
    running, other = jobs("24.11").values()
    assert running.nodes == ("gpu01", "gpu03")
    assert running.start_s is not None
    assert running.submit_s is not None
    assert running.start_s - running.submit_s == 1
    assert (other.state, other.time_limit_s) == ("EXPEDITING", None)


def test_no_job_is_an_empty_queue() -> None:
    assert queued_jobs("", WORD) == ()


def test_answer_that_was_cut_off_is_unknown_never_a_shorter_queue() -> None:
    whole = answer("22.05")
    ends = {place for place in range(len(whole)) if whole[:place].endswith(f"=RestartCnt{WORD}")}
    middle = len(whole) // 2
    for length in sorted(set(range(middle, middle + 900)) - ends - {end + 1 for end in ends}):
        with pytest.raises(SlurmUnknownError):
            queued_jobs(whole[:length], WORD)


@pytest.mark.parametrize("text", ["slurm_load_jobs error: down", "x=JobID~recorded~\n"])
def test_other_answer_is_unknown(text: str) -> None:
    with pytest.raises(SlurmUnknownError):
        queued_jobs(text, WORD)


def test_word_that_would_be_read_as_a_width_is_not_used() -> None:
    with pytest.raises(AssertionError):
        queue_format("1~")
