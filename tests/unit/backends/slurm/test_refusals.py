"""What sbatch says, and whether the job is known not to be there."""

import pickle

import pytest

from shunter.backends.slurm import CommandAnswer, submit_limit_in
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
