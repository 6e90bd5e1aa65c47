"""The queue: what squeue is asked for, and how its answer is read.

Names and comments of jobs are whatever their users wrote, line breaks included, and a line that
looks like a job of ours must not pass for one. So every value is followed by its field's name and
a word that is made up anew for each question: value=Field<word>. That word goes to squeue in the
environment, which other users cannot read. No name of a column is relied on, nor any width.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from shunter.backends.slurm.hostlists import expanded
from shunter.backends.slurm.quantities import (
    gpus_in_gres,
    gpus_in_tres,
    instant_s,
    limit_s,
    total_gpus,
    whole,
)
from shunter.backends.slurm.records import QueuedJob
from shunter.errors import SlurmUnknownError

FIELDS: Final = (
    *("JobID", "ArrayJobID", "ArrayTaskID", "Name", "UserName", "Account", "Partition", "QOS"),
    *("State", "Reason", "NodeList", "NumNodes", "NumCPUs", "NumTasks", "SubmitTime", "StartTime"),
    *("EndTime", "TimeLimit", "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task"),
    *("tres-per-socket", "RestartCnt", "exit_code", "Reservation", "Comment"),
)
"""The first is where a record begins."""


def queue_format(word: str) -> str:
    """Return what squeue is asked for; the word begins with no digit."""
    assert not word[0].isdigit(), "a digit would be read as a width"
    return ",".join(f"{field}:={field}{word}" for field in FIELDS)


def queued_jobs(text: str, word: str) -> tuple[QueuedJob, ...]:
    """Return the jobs in an answer of squeue.

    Raises:
        SlurmUnknownError: it is cut off, or is no such answer.
    """
    try:
        return tuple(_job(record) for record in _records(text, word))
    except ValueError as error:
        raise SlurmUnknownError(
            f"squeue tells of a job what cannot be read: {error}", "run squeue by hand and compare"
        ) from error


def _records(text: str, word: str) -> Iterator[Mapping[str, str]]:
    *cells, rest = text.split(word)
    if rest.strip():
        raise SlurmUnknownError(
            f"the answer of squeue ends with {rest[-60:]!r}", "expected whole records; ask again"
        )
    record: dict[str, str] = {}
    for cell in cells:
        value, _, field = cell.rpartition("=")
        if field == FIELDS[0]:
            if record:
                yield _whole_record(record)
            record, value = {}, value.lstrip()
        record[field] = value.strip()
    if record:
        yield _whole_record(record)


def _whole_record(record: Mapping[str, str]) -> Mapping[str, str]:
    missing = [field for field in FIELDS if field not in record]
    if missing:
        raise SlurmUnknownError(
            f"squeue tells no {missing[0]} of job {record.get(FIELDS[0])}", "ask again"
        )
    return record


def _job(told: Mapping[str, str]) -> QueuedJob:
    number = int(told["JobID"])
    by_type = _gpus(told)
    return QueuedJob(
        id=number,
        array_id=whole(told["ArrayJobID"]) or number,
        array_task="" if told["ArrayTaskID"] in {"N/A", ""} else told["ArrayTaskID"],
        name=told["Name"],
        user=told["UserName"],
        account=_set(told["Account"]),
        partition=told["Partition"],
        qos=_set(told["QOS"]),
        state=told["State"],
        reason=_set(told["Reason"]),
        nodes=expanded(told["NodeList"]),
        nodes_count=whole(told["NumNodes"]),
        cpus=whole(told["NumCPUs"]),
        gpus=None if by_type is None else total_gpus(by_type),
        gpus_by_type=by_type or {},
        submit_s=instant_s(told["SubmitTime"]),
        start_s=instant_s(told["StartTime"]),
        end_s=instant_s(told["EndTime"]),
        time_limit_s=limit_s(told["TimeLimit"]),
        restarts=whole(told["RestartCnt"]),
        exit_code=told["exit_code"],
        comment=_set(told["Comment"]),
        reservation=_set(told["Reservation"]),
    )


def _gpus(told: Mapping[str, str]) -> dict[str, int] | None:
    """Return the GPUs of a job by type; None where only other counts are told.

    TRES name GPUs only where the site counts them (AccountingStorageTRES), and then in total.
    """
    asked = {
        "tres-per-job": 1,
        "tres-per-node": whole(told["NumNodes"]),
        "tres-per-task": whole(told["NumTasks"]),
        "tres-per-socket": 0,  # how many sockets it has is told nowhere
    }
    is_asked = False
    for field, times in asked.items():
        found = gpus_in_gres(told[field])
        if found and times:
            return {name: count * times for name, count in found.items()}
        is_asked = is_asked or bool(found)
    counted = gpus_in_tres(told["tres-alloc"])
    return None if is_asked and not counted else counted


def _set(text: str) -> str:
    return "" if text in {"(null)", "N/A", "None"} else text
