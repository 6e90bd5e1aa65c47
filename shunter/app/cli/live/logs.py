"""`shunter logs`: what a job printed, byte for byte, or as it comes."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from shunter.app.cli.live.connecting import JobArgument, Url, connect
from shunter.app.cli.live.submitting.quantities import since_s


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(logs)


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on, over attempts, until the job has ended.")
    ] = False,
    rank: Annotated[int, typer.Option(min=0, help="The process on which server.")] = 0,
    attempt: Annotated[int | None, typer.Option(min=1, help="Left out: the last one.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|TIME", help="Nothing of attempts that ended before, as 10m or a date."
        ),
    ] = None,
    stderr: Annotated[
        bool, typer.Option("--stderr", help="What it printed as errors instead.")
    ] = False,
    url: Url = None,
) -> None:
    """Print what a job printed; yours, or anybody's if you are an admin."""
    ago_s = None if since is None else since_s(since)
    if ago_s is not None:
        since = (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat()
    with connect(url) as client:
        pieces = client.logs(
            job,
            rank=rank,
            attempt=attempt,
            stream="stderr" if stderr else "stdout",
            since=since,
            follow=follow,
        )
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
