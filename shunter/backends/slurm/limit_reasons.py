"""Limits of a QOS, an account or a partition, in words: Slurm tells of them by one word each.

Slurm has about 150 such words, made of few parts: whose limit, over what, and for whom; so the
parts are read, and a word with a part that is unknown stays as it is. Source: the page "Job Reason
Codes" of Slurm's documentation.
"""

import re
from typing import Final

_WORD: Final = re.compile(
    r"(QOS|Assoc)?(Grp|Max|Min)([A-Za-z]+?)(RunMinutes|Minutes)?"
    r"(?:Per(User|Account|Job|Node))?(?:Limit)?"
)
_OVER: Final = {
    "gres": "GPUs (GRES)",
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "jobs": "jobs that run",
    "submitjob": "jobs submitted",
    "submitjobs": "jobs submitted",
    "wall": "run time",
    "wallduration": "run time",
    "billing": "billing units",
    "license": "licences",
    "energy": "energy",
    "bb": "burst buffers",
}
_FOR: Final = {
    "Grp": "all its jobs together",
    "Min": "one job",
    "User": "each user",
    "Account": "each account",
    "Job": "one job",
    "Node": "one job on each node",
}
_OTHERS: Final = {
    "QOSJobLimit": "a limit of the QOS on jobs",
    "QOSResourceLimit": "a limit of the QOS on resources",
    "QOSTimeLimit": "a limit of the QOS on run time",
    "QOSUsageThreshold": "the QOS wants less use of the cluster before",
    "QOSNotAllowed": "the partition does not take this QOS",
    "InvalidQOS": "there is no such QOS for this account",
    "InvalidAccount": "there is no such account for this user",
    "AccountNotAllowed": "the partition does not take this account",
    "AssociationJobLimit": "a limit of the account on jobs",
    "AssociationResourceLimit": "a limit of the account on resources",
    "AssociationTimeLimit": "a limit of the account on run time",
    "PartitionTimeLimit": "a limit of the partition on run time",
    "PartitionNodeLimit": "a limit of the partition on nodes, or they are down",
}
_SUBMITS: Final = re.compile(r"\b((?:QOS|Assoc)?(?:Grp|Max)SubmitJobs?(?:Per\w+?)?(?:Limit)?)\b")


def reason_in_words(reason: str) -> str:
    """Return why a job waits, in Slurm's word, and what that means if it is a limit."""
    said = _OTHERS.get(reason) or _limit(reason)
    return f"{reason}: {said}" if said else reason


def submit_limit_in(said: str) -> str:
    """Return the word for a limit on jobs submitted; nothing if none is told.

    What is refused for that is taken later, when other jobs have ended.
    """
    found = _SUBMITS.search(said)
    return found[1] if found else ""


def _limit(reason: str) -> str:
    """Return what limit a word means; nothing if it means none, or an unknown one."""
    read = _WORD.fullmatch(reason)
    if read is None:
        return ""
    whose, scope, over, minutes, per = read.groups()
    what = _OVER.get(over.lower())
    if what is None or not (whose or per):
        return ""
    what += {"Minutes": " x minutes", "RunMinutes": " x minutes of running jobs"}.get(minutes, "")
    of = "the account" if whose == "Assoc" else "the QOS"
    for_whom = _FOR.get(per or scope, "each user")
    return f"a limit of {of} on {what}, for {for_whom}"
