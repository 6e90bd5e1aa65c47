"""The answer of sacct, as 22.05 gave it."""

import pytest

from shunter.backends.slurm import past_jobs
from shunter.errors import SlurmUnknownError
from tests.unit.backends.slurm.recorded import WORD, recorded


def test_requeued_job_stands_there_once_for_each_submission() -> None:
    rows = [job for job in past_jobs(recorded("22.05", "accounting.txt"), WORD) if job.id == 8]
    assert [job.state for job in rows] == ["REQUEUED", "COMPLETED"]


def test_who_cancelled_a_job_is_no_part_of_its_state() -> None:
    found = {job.id: job for job in past_jobs(recorded("22.05", "accounting.txt"), WORD)}
    assert found[9].state == "CANCELLED"
    assert found[14].name == "new\nline|x"


def test_answer_that_was_cut_off_is_unknown() -> None:
    whole = recorded("22.05", "accounting.txt")
    for length in (10, len(whole) // 2, len(whole) - 2):
        with pytest.raises(SlurmUnknownError):
            past_jobs(whole[:length], WORD)
