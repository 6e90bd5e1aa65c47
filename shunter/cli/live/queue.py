"""`shunter queue`: what waits and runs, and why; one request, whatever the length."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.forking.forecasts import of_log, print_forecast
from shunter.cli.live.connecting import Url, check_source, connect
from shunter.cli.live.reasons import clause
from shunter.cli.live.tables import (
    TURNS,
    age,
    beside,
    insert_columns,
    print_rows,
    printable,
    rows_shown,
    turn_cells,
)
from shunter.cli.options import Json
from shunter.counting import counted
from shunter.errors import UsageError

if TYPE_CHECKING:
    from shunter.client.requests import Answer

EVERY_S = 1.0
IDS_NAMED = 8
LAUNCH_WAIT = "launch_wait"
"""Stands for a reason where a launch waits for somebody else; `--explain` says for what."""
CLEAR = "\x1b[H\x1b[2J"
COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "USER", output.Column("GPUS", is_number=True)),
    *("STATE", "RUN/WAIT", "WHERE", "WHY"),
)
WITH = COLUMNS.index("WHERE") + 1
"""Where columns are that not every list has: what CPUs and memory jobs have, if not what they
asked for, and the turns of those that take any."""


@dataclass(frozen=True)
class QueueOptions:
    """Which jobs, and what is told of them."""

    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Print it again every second, until Ctrl-C.")
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why jobs wait, those alike in one sentence.")
    ] = False
    all_users: Annotated[
        bool, typer.Option("-a", "--all-users", help="Everybody's jobs, not only yours.")
    ] = False
    state: Annotated[
        str | None, typer.Option("--state", help="Only jobs in this state, as waiting or running.")
    ] = None
    name: Annotated[
        str | None, typer.Option("-q", "--queue", metavar="QUEUE", help="Only jobs of this queue.")
    ] = None
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only jobs of this multi-job.")
    ] = None
    eta: Annotated[
        bool,
        typer.Option(
            "--eta", help="When they start and end, predicted by simulations from now on."
        ),
    ] = False
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="LOG",
            help="With --eta: the jobs at the end of a log, instead of the daemon's.",
        ),
    ] = None
    as_json: Json = False
    url: Url = None


def queue(options: QueueOptions) -> None:
    """List the jobs that have not ended.

    On a terminal the first 200, and how many there are. With --eta, instead, when your jobs start
    and end: of 100 such jobs 50 by the P50 and 90 by the P90, if the past is a guide, and how many
    of past ones did.
    """
    if options.eta:
        print_forecast(_forecast(options), as_json=options.as_json)
        return
    if options.log is not None:
        raise UsageError("--log goes with --eta; `shunter why JOB --log LOG` tells of one job")
    limit = None if options.as_json else rows_shown()
    with connect(options.url) as client:
        while True:
            found = client.queue(
                user=None if options.all_users else "me",
                state=options.state,
                queue=options.name,
                group=options.group,
                limit=limit,
            )
            if options.watch and sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            if options.as_json:
                output.print_json_line(found) if options.watch else output.print_json(found)
            else:
                _print(found, explain=options.explain)
            if not options.watch:
                return
            sys.stdout.flush()
            time.sleep(EVERY_S)


def _forecast(options: QueueOptions) -> "Answer":
    """Return when jobs start and end.

    Raises:
        UsageError: something is asked that a forecast does not tell.
    """
    others = (options.watch, options.explain, options.state, options.name, options.group)
    if any(others):
        raise UsageError("--eta goes with --all-users, --log and --json only")
    check_source(options.log, options.url)
    if options.log is not None:
        return of_log(options.log)
    with connect(options.url) as client:
        return client.forecast(user=None if options.all_users else "me")


def _print(found: "Answer", *, explain: bool) -> None:
    jobs = found["jobs"]
    now = datetime.fromisoformat(found["now"])
    columns, rows = list(COLUMNS), [list(_row(job, now)) for job in jobs]
    if any(_is_sized(job) for job in jobs):
        has = [[beside(job["cpus_held"], job["memory_mb_held"])] for job in jobs]
        insert_columns(columns, rows, WITH, ["WITH"], has)
    insert_columns(columns, rows, WITH, TURNS, [turn_cells(job["turns"]) for job in jobs])
    print_rows(columns, rows)
    if explain:
        for line in explained(jobs):
            output.print_line(line)
    hidden = found["total"] - len(jobs)
    counts = ", ".join(f"{count:,} {state}" for state, count in found["states"].items())
    more = f"; {hidden:,} more are not shown" if hidden else ""
    output.note(f"{counted(found['total'], 'job')}{': ' + counts if counts else ''}{more}")
    if not found["total"]:
        output.note("`shunter history` lists jobs that have ended")
    if others := found.get("of_others"):
        output.note(f"these are yours only: `shunter queue -a` lists {others:,} of others as well")


def _is_sized(job: "Answer") -> bool:
    """Say whether a job has other CPUs or memory than it asked for."""
    has = job["cpus_held"], job["memory_mb_held"]
    return any(has) and has != (job["cpus"], job["memory_mb"])


def explained(jobs: "Sequence[Answer]") -> list[str]:
    """Return why jobs wait, in a line for all that wait for the same.

    What others wrote in it moves no cursor.
    """
    groups: dict[str, list[Answer]] = {}
    for job in jobs:
        said = job["launch_wait"] if job["reason"] is None else clause(job["reason"])
        if said:
            why = " ".join(printable(word) for word in said.split())
            groups.setdefault(why, []).append(job)
    return [f"{_named(group)}: {_ranks(group)}{why}" for why, group in groups.items()]


def _named(group: "Sequence[Answer]") -> str:
    """Return the ids of some jobs, the first few by name."""
    names = ", ".join(job["id"] for job in group[:IDS_NAMED])
    hidden = len(group) - IDS_NAMED
    return f"{names} and {hidden:,} more" if hidden > 0 else names


def _ranks(group: "Sequence[Answer]") -> str:
    """Return where some jobs stand, from the first to the last."""
    ranks = sorted(job["rank"] for job in group if job["rank"] is not None)
    if not ranks:
        return ""
    return f"rank {ranks[0]}; " if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}; "


def _row(job: "Answer", now: datetime) -> tuple[str, ...]:
    reason = job["reason"]
    return (
        job["id"],
        job["name"],
        job["user"],
        str(job["gpus"]),
        job["state"],
        age(job["since_at"], now),
        job["where"],
        LAUNCH_WAIT * bool(job["launch_wait"]) if reason is None else reason["name"],
    )
