"""What sbatch says, whether the job is known not to be there, and Slurm's words for limits."""

import pickle

import pytest

from shunter.backends.slurm import CommandAnswer, reason_in_words, submit_limit_in
from shunter.backends.slurm.commands import _refusal
from shunter.errors import SlurmRefusedError, SlurmUnknownError

FAILED = "sbatch: error: Batch job submission failed: "


def made_of(err: str) -> SlurmRefusedError | SlurmUnknownError:
    return _refusal(CommandAnswer("sbatch", 1, "", err))


@pytest.mark.parametrize(
    "err",
    [
        f"{FAILED}Invalid account or account/partition combination specified",
        f"{FAILED}Requested node configuration is not available",
        f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size)",
        f"sbatch: error: invalid partition specified: x\n{FAILED}Invalid partition name specified",
        f"{FAILED}User's group not permitted to use this partition",
        "sbatch: unrecognized option '--no-such-option'\nTry \"sbatch --help\"",
    ],
)
def test_what_the_controller_has_decided_is_a_refusal(err: str) -> None:
    assert isinstance(made_of(err), SlurmRefusedError)


@pytest.mark.parametrize(
    "err",
    [
        f"{FAILED}Unable to contact slurm controller (connect failure)",
        f"{FAILED}Socket timed out on send/recv operation",
        f"{FAILED}Zero Bytes were transmitted or received",
        f"sbatch: error: Invalid cache\n{FAILED}Socket timed out on send/recv operation",
        f"{FAILED}Something that a later version says",
        "sbatch: error: Unable to allocate resources: Unable to contact slurm controller",
        "",
    ],
)
def test_anything_else_is_unknown_for_the_job_may_be_there(err: str) -> None:
    assert isinstance(made_of(err), SlurmUnknownError)


VIOLATES = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (
            "QOSMaxSubmitJobPerUserLimit",
            "QOSMaxSubmitJobPerUserLimit: a limit of the QOS on jobs submitted, for each user",
        ),
        (
            "AssocMaxSubmitJobLimit",
            "AssocMaxSubmitJobLimit: a limit of the account on jobs submitted, for each user",
        ),
        (
            "QOSMaxWallDurationPerJobLimit",
            "QOSMaxWallDurationPerJobLimit: a limit of the QOS on run time, for one job",
        ),
    ],
)
def test_limit_that_refuses_a_job_is_told_in_words(word: str, told: str) -> None:
    error = made_of(f"sbatch: error: {word}\n{FAILED}{VIOLATES}")
    assert isinstance(error, SlurmRefusedError)
    assert str(error) == f"Slurm refuses the job: {told}"
    assert submit_limit_in(str(error)) == (word if "Submit" in word else "")


def test_unknown_error_survives_pickling_with_its_halves() -> None:
    kept = pickle.dumps(SlurmUnknownError("no answer", "ask again"))
    error = pickle.loads(kept)  # noqa: S301  our own bytes
    assert (str(error), error.cause, error.hint, error.retryable) == (
        *("no answer; ask again", "no answer", "ask again"),
        True,
    )


ALL = "for all its jobs together"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("QOSMaxJobsPerUserLimit", "a limit of the QOS on jobs that run, for each user"),
        ("QOSMaxGRESPerUser", "a limit of the QOS on GPUs (GRES), for each user"),
        ("QOSMaxMemoryPerNode", "a limit of the QOS on memory, for one job on each node"),
        ("QOSGrpCpuLimit", "a limit of the QOS on CPUs, for all its jobs together"),
        ("AssocGrpGRES", "a limit of the account on GPUs (GRES), for all its jobs together"),
        (
            "AssocGrpGRESRunMinutes",
            f"a limit of the account on GPUs (GRES) x minutes of running jobs, {ALL}",
        ),
        (
            "AssocGrpCPUMinutesLimit",
            "a limit of the account on CPUs x minutes, for all its jobs together",
        ),
        ("AssocMaxJobsLimit", "a limit of the account on jobs that run, for each user"),
        ("MaxGRESPerAccount", "a limit of the QOS on GPUs (GRES), for each account"),
        ("QOSMinGRES", "a limit of the QOS on GPUs (GRES), for one job"),
        ("PartitionTimeLimit", "a limit of the partition on run time"),
        ("QOSNotAllowed", "the partition does not take this QOS"),
    ],
)
def test_limit_says_whose_it_is_over_what_and_for_whom(reason: str, told: str) -> None:
    assert reason_in_words(reason) == f"{reason}: {told}"


@pytest.mark.parametrize(
    "reason",
    ["Resources", "Priority", "MaxMemPerLimit", "QOSGrpUnknown", "ReqNodeNotAvail, May be", ""],
)
def test_what_is_no_limit_or_an_unknown_one_stays_as_slurm_says_it(reason: str) -> None:
    assert reason_in_words(reason) == reason
    assert submit_limit_in(reason) == ""
