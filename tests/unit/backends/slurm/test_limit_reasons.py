"""Slurm's words for limits, as they stand in its documentation and in answers of squeue."""

import pytest

from shunter.backends.slurm import reason_in_words, submit_limit_in

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
