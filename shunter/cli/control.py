"""What is done to jobs: `shunter cancel`, `suspend`, `resume` and so on, and `shunter group`.

Their owner or an admin does it. A group is the jobs of one search.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.answers import (
    TURNS,
    JobArgument,
    Url,
    connect,
    insert_columns,
    job_ids,
    print_rows,
    turn_cells,
)
from shunter.cli.options import CommandGroup, Json
from shunter.counting import counted
from shunter.errors import ShunterError

if TYPE_CHECKING:
    from shunter.client import Answer, Client


Jobs = Annotated[
    list[str], typer.Argument(metavar="JOB…", help="Ids of jobs.", autocompletion=job_ids)
]


def cancel(jobs: Jobs, as_json: Json = False, url: Url = None) -> None:
    """End jobs, or keep them from starting."""
    _together(jobs, url, "asked to end", lambda client: client.cancel_jobs(jobs), as_json=as_json)


def suspend(jobs: Jobs, as_json: Json = False, url: Url = None) -> None:
    """Save jobs, take them off their GPUs, and hold them until they are resumed."""
    told = "asked to suspend"
    _together(jobs, url, told, lambda client: client.suspend_jobs(jobs), as_json=as_json)


def resume(jobs: Jobs, as_json: Json = False, url: Url = None) -> None:
    """Let held jobs start again."""
    _each(jobs, url, "may start again", lambda client, job: client.resume(job), as_json=as_json)


def discard_checkpoint(jobs: Jobs, as_json: Json = False, url: Url = None) -> None:
    """Let jobs go on without what they saved on servers that do not answer.

    They wait for these servers until they answer or are lost. What is given up is given up for
    good, even where the server comes back: jobs go on from an older checkpoint, or begin again.
    """
    told = "goes on without the checkpoint"
    _each(jobs, url, told, lambda client, job: client.discard_checkpoint(job), as_json=as_json)


def set_aside(jobs: Jobs, as_json: Json = False, url: Url = None) -> None:
    """End the attempts of jobs, believe nothing that these tell, and hold the jobs.

    For an attempt whose records or processes trouble the scheduler; `resume` lets its job go on.
    """
    _each(jobs, url, "is set aside", lambda client, job: client.set_aside(job), as_json=as_json)


def priority(
    job: JobArgument,
    value: Annotated[int, typer.Argument(metavar="N", help="The higher goes first.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Give a job another priority, which may be negative."""

    def change(client: "Client", job_id: str) -> "Answer":
        return client.set_priority(job_id, value)

    _each([job], url, f"has priority {value}", change, as_json=as_json)


def resize(
    job: JobArgument,
    gpus: Annotated[int, typer.Argument(metavar="GPUS", min=1, help="How many it is to have.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Give an elastic job another number of GPUs.

    If it runs, it saves at a mini-batch boundary, leaves, and goes on with as many once it gets
    them, as any job that waits. It must have been submitted with --gpus-min or --gpus-max.
    """

    def change(client: "Client", job_id: str) -> "Answer":
        return client.resize(job_id, gpus)

    _each([job], url, f"is to have {counted(gpus, 'GPU')}", change, as_json=as_json)


def _together(
    jobs: list[str],
    url: str | None,
    told: str,
    do: Callable[["Client"], "Answer"],
    *,
    as_json: bool,
) -> None:
    """Do something to all jobs in one step, so that none gets another's GPUs."""
    from shunter.client import problem_error

    with connect(url) as client:
        answer = do(client)
    refused = {one["job"]: problem_error(one["problem"]) for one in answer["refused"]}

    def result(job: str) -> "Answer":
        if job in refused:
            raise refused[job]
        return {"schema_version": 1, "subject": job, "seq": answer["seq"]}

    _print_each(jobs, told, result, as_json=as_json)


def _each(
    jobs: list[str],
    url: str | None,
    told: str,
    do: Callable[["Client", str], "Answer"],
    *,
    as_json: bool,
) -> None:
    """Do something to every job, one after another."""
    with connect(url) as client:
        _print_each(jobs, told, lambda job: do(client, job), as_json=as_json)


def _print_each(
    jobs: list[str], told: str, do: Callable[[str], "Answer"], *, as_json: bool
) -> None:
    """Print what came of it for every job; the first refusal decides the code."""
    first: ShunterError | None = None
    for job in jobs:
        try:
            answer = do(job)
        except ShunterError as error:
            if first is not None or len(jobs) > 1:
                output.print_error(error)
            first = first or error
            continue
        output.print_json_line(answer) if as_json else output.print_line(f"{job} {told}")
    if first is not None:
        if len(jobs) == 1:
            raise first
        raise typer.Exit(first.exit_code)


# `shunter group`.

Group = Annotated[str, typer.Argument(metavar="GROUP", help="What its jobs were submitted with.")]
User = Annotated[
    str | None, typer.Option("--user", metavar="USER", help="Whose it is; left out: yours.")
]
MEMBER_COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "STATE", output.Column("PRIORITY", is_number=True), "WHERE"),
    *(output.Column("GPU-S", is_number=True), output.Column("SHARE", is_number=True)),
    *(output.Column("STEP", is_number=True), output.Column("OF", is_number=True)),
)
MEMBER_TURNS_AT = MEMBER_COLUMNS.index("WHERE") + 1
"""Where the columns are of turns, if a member takes any."""

group_commands = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show, prioritise or end the jobs of one search together.",
)


@group_commands.command("list")
def list_groups(as_json: Json = False, user: User = None, url: Url = None) -> None:
    """List the groups that have jobs which have not ended."""
    with connect(url) as client:
        found = client.groups(user=user)
    if as_json:
        output.print_json(found)
        return
    columns = ("GROUP", output.Column("JOBS", is_number=True), "STATES")
    print_rows(
        columns, [(one["group"], str(one["total"]), _states(one)) for one in found["groups"]]
    )


@group_commands.command("show")
def show_group(group: Group, as_json: Json = False, user: User = None, url: Url = None) -> None:
    """List all jobs of a group with their part of its GPU time.

    Those that have ended too.
    """
    with connect(url) as client:
        found = client.groups(group, user=user)
    if as_json:
        output.print_json(found)
        return
    (one,) = found["groups"]
    members = one["members"]
    columns, rows = list(MEMBER_COLUMNS), [list(_member_row(member)) for member in members]
    turns = [turn_cells(member["turns"]) for member in members]
    insert_columns(columns, rows, MEMBER_TURNS_AT, TURNS, turns)
    print_rows(columns, rows)
    output.note(
        f"{counted(one['total'], 'job')}: {_states(one)}; {one['service_gpu_s']:,.1f} GPU-seconds"
    )


@group_commands.command("cancel")
def cancel_group(group: Group, as_json: Json = False, user: User = None, url: Url = None) -> None:
    """End all jobs of a group; those that have ended stay as they are."""
    with connect(url) as client:
        answer = client.cancel_group(group, user=user)
    _print_group_change(answer, "asked to end", as_json=as_json)


@group_commands.command("priority", context_settings={"ignore_unknown_options": True})  # -5
def set_group_priority(
    group: Group,
    value: Annotated[int, typer.Argument(metavar="N", help="The higher goes first.")],
    as_json: Json = False,
    user: User = None,
    url: Url = None,
) -> None:
    """Give all jobs of a group another priority, which may be negative."""
    with connect(url) as client:
        answer = client.set_group_priority(group, value, user=user)
    have = "has" if len(answer["jobs"]) == 1 else "have"
    _print_group_change(answer, f"{have} priority {value}", as_json=as_json)


def _print_group_change(answer: "Answer", what: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
        return
    count, ended = len(answer["jobs"]), answer["ended"]
    have = "has" if ended == 1 else "have"
    jobs = counted(count, "job")
    output.print_line(f"{answer['group']}: {jobs} {what}; {ended:,} {have} ended before")


def _states(group: "Answer") -> str:
    return ", ".join(f"{count:,} {state}" for state, count in group["states"].items())


def _member_row(member: "Answer") -> tuple[str, ...]:
    step, total = member["step"], member["total_steps"]
    return (
        *(member["id"], member["name"], member["state"], str(member["priority"])),
        *(member["where"], f"{member['service_gpu_s']:.1f}", f"{100 * member['share']:.0f} %"),
        *("" if step is None else str(step), "" if total is None else str(total)),
    )
