"""`shunter group`: the jobs of one search together: how far they are, their priority, their end."""

from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.live.connecting import Url, connect
from shunter.cli.live.tables import TURNS, insert_columns, print_rows, turn_cells
from shunter.cli.options import Json
from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.client.requests import Answer

Group = Annotated[str, typer.Argument(metavar="GROUP", help="What its jobs were submitted with.")]
User = Annotated[
    str | None, typer.Option("--user", metavar="USER", help="Whose it is; left out: yours.")
]
COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "STATE", output.Column("PRIORITY", is_number=True), "WHERE"),
    *(output.Column("GPU-S", is_number=True), output.Column("SHARE", is_number=True)),
    *(output.Column("STEP", is_number=True), output.Column("OF", is_number=True)),
)
TURNS_AT = COLUMNS.index("WHERE") + 1
"""Where the columns are of turns, if a member takes any."""

commands = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show, prioritise or end the jobs of one search together.",
)


@commands.command("list")
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


@commands.command()
def show(group: Group, as_json: Json = False, user: User = None, url: Url = None) -> None:
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
    columns, rows = list(COLUMNS), [list(_row(member)) for member in members]
    turns = [turn_cells(member["turns"]) for member in members]
    insert_columns(columns, rows, TURNS_AT, TURNS, turns)
    print_rows(columns, rows)
    output.note(
        f"{counted(one['total'], 'job')}: {_states(one)}; {one['service_gpu_s']:,.1f} GPU-seconds"
    )


@commands.command()
def cancel(group: Group, as_json: Json = False, user: User = None, url: Url = None) -> None:
    """End all jobs of a group; those that have ended stay as they are."""
    with connect(url) as client:
        answer = client.cancel_group(group, user=user)
    _print(answer, "asked to end", as_json=as_json)


@commands.command(context_settings={"ignore_unknown_options": True})  # -5 is a number
def priority(
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
    _print(answer, f"{have} priority {value}", as_json=as_json)


def _print(answer: "Answer", what: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
        return
    count, ended = len(answer["jobs"]), answer["ended"]
    have = "has" if ended == 1 else "have"
    jobs = counted(count, "job")
    output.print_line(f"{answer['group']}: {jobs} {what}; {ended:,} {have} ended before")


def _states(group: "Answer") -> str:
    return ", ".join(f"{count:,} {state}" for state, count in group["states"].items())


def _row(member: "Answer") -> tuple[str, ...]:
    step, total = member["step"], member["total_steps"]
    return (
        *(member["id"], member["name"], member["state"], str(member["priority"])),
        *(member["where"], f"{member['service_gpu_s']:.1f}", f"{100 * member['share']:.0f} %"),
        *("" if step is None else str(step), "" if total is None else str(total)),
    )
