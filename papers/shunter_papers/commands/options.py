"""What the commands of several papers share: options, and how numbers are told."""

from typing import Annotated

import typer

from shunter.cli import NOTHING

Seed = Annotated[int, typer.Option(min=0, help="Names the generated jobs.")]
Rates = Annotated[
    list[float] | None,
    typer.Option(
        "--rate",
        min=0.01,
        help="Jobs of one GPU an hour, on the paper's cluster; may be given several times.",
    ),
]
GangRates = Annotated[
    list[float] | None,
    typer.Option("--gang-rate", min=0.01, help="The same where some jobs are gangs."),
]
Workers = Annotated[int, typer.Option("-j", "--workers", min=0, help="Processes; 0 is one a core.")]


def in_times(times: float | None) -> str:
    """Return how many times as long something takes."""
    return NOTHING if times is None else f"{times:.2f}"


def in_hours(hours: float | None) -> str:
    """Return hours."""
    return NOTHING if hours is None else f"{hours:.2f} h"


def in_full_part(part: float, *, is_never: bool) -> str:
    """Return for what part of the time a cluster was full; 100% is all of it."""
    if is_never:
        return "never"
    return f"{part if part >= 1 else min(part, 0.99):.0%}"
