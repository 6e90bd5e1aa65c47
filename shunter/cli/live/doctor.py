"""`shunter doctor`: what this machine lacks for a live cluster, and how to mend it."""

from pathlib import Path
from typing import Annotated

import typer

from shunter.cli import output
from shunter.cli.options import Json, Settings, load

MARKS = {"good": "ok", "poor": "poor", "bad": "BAD"}


def doctor(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="The config it is to run.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Check this machine; exit 1 if something keeps a cluster from running."""
    from shunter.ops.doctor import examined
    from shunter.ops.machine_checks import Looked

    found = examined(Looked(None if config is None else load(config, settings), output.note))
    if as_json:
        rows = [
            {"subject": one.subject, "state": one.state, "what": one.what, "mend": one.mend}
            for one in found
        ]
        output.print_json({"schema_version": 1, "findings": rows})
    else:
        for one in found:
            output.print_line(f"{MARKS[one.state]:4}  {one.subject:8}  {one.what}")
            if one.mend:
                output.print_line(f"{'':4}  {'':8}  -> {one.mend}")
    if any(one.state == "bad" for one in found):
        raise typer.Exit(1)
