"""`shunter init`: write a config to begin with, for what is found on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from shunter.app.cli import output
from shunter.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    local: Annotated[bool, typer.Option("--local", help="A cluster of this one machine.")] = False,
    gpus: Annotated[
        int | None,
        typer.Option(min=0, max=64, help="How many GPUs it has; left out: as many as NVML sees."),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="Where the config goes.")
    ] = Path("shunter.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a config to begin with, explained line by line."""
    if not local:
        raise UsageError("init: expected --local, a cluster of this one machine")
    if out.exists() and not force:
        raise UsageError(f"{out} is there already; --force replaces it, --out names another one")
    from shunter.app.doctor.writing import local_config

    text, notes = local_config(gpus)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
    for line in notes:
        output.note(line)
    output.print_line(f"wrote {out}; next: shunter doctor {out}, then shunter serve {out}")
