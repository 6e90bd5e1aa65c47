"""Slurm's accounting: what sacct is asked for, and how its answer is read.

Columns are told apart by a word made up for the question, and the last one is a plain number, so
that a name with a line break or a bar in it makes no rows.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from shunter.backends.slurm.hostlists import expanded
from shunter.backends.slurm.quantities import instant_s
from shunter.backends.slurm.records import PastJob
from shunter.errors import SlurmUnknownError

ACCOUNTING_FIELDS: Final = "JobIDRaw,JobName,User,State,ExitCode,NodeList,Submit,Start,End,NNodes"


def past_jobs(text: str, word: str) -> tuple[PastJob, ...]:
    """Return the jobs in an answer of sacct.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    try:
        return tuple(_job(row) for row in _rows(text, word))
    except (KeyError, ValueError) as error:
        raise SlurmUnknownError(
            f"sacct tells of a job what cannot be read: {error}", "run sacct by hand and compare"
        ) from error


def _rows(text: str, word: str) -> Iterator[Mapping[str, str]]:
    first, _, rest = text.partition("\n")
    header = first.split(word)
    if header[-1] != "NNodes":
        raise SlurmUnknownError(f"sacct answers {first[:60]!r}", "expected a header of its columns")
    cells: list[str] = []
    for cell in rest.split(word):
        if len(cells) == len(header) - 1:
            last, line_break, following = cell.partition("\n")
            if not line_break:
                raise ValueError("the answer is cut off")
            yield dict(zip(header, [*cells, last], strict=True))
            cells = [following]
        else:
            cells.append(cell)
    if cells != [""]:
        raise ValueError("the answer is cut off")


def _job(row: Mapping[str, str]) -> PastJob:
    return PastJob(
        id=int(row["JobIDRaw"]),
        name=row["JobName"],
        user=row["User"],
        state=row["State"].partition(" ")[0],  # "CANCELLED by 1000"
        exit_code=row["ExitCode"],
        nodes=expanded(row["NodeList"]),
        submit_s=instant_s(row["Submit"]),
        start_s=instant_s(row["Start"]),
        end_s=instant_s(row["End"]),
    )
