"""`shunter reproduce gandiva`: its tables in words."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.app.cli import output
from shunter.app.cli.options import Json
from shunter.app.cli.reproduce.options import Seed, Workers, in_hours, in_times

if TYPE_CHECKING:
    from shunter.app.reproductions.gandiva.comparison import Reproduction
    from shunter.app.reproductions.gandiva.rows import FeedbackRow, ShareRow

Loads = Annotated[
    list[float] | None,
    typer.Option(
        "--load", min=0.01, max=5.0, help="Offered GPU time over the cluster's; several times."
    ),
]


def gandiva(
    *,
    seed: Seed = 0,
    loads: Loads = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=2, help="Jobs at each load; left out: 800, and 3,000 with --full."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The slides' 180 GPUs, not 48 of them.")
    ] = False,
    as_json: Json = False,
    workers: Workers = 0,
) -> None:
    """Compare Gandiva's time-slicing with jobs that run one after the other.

    The paper is Xiao et al., OSDI 2018.

    The time from submission to the first 100 mini-batches against the load, under `fifo` and
    `gandiva`, with completion times and the longest waits beside it; and the shares of six jobs on
    four GPUs.
    """
    from shunter.app.reproductions.gandiva.comparison import Asked, reproduce

    asked = Asked(seed, jobs, tuple(loads) if loads else None, full)
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers or os.cpu_count() or 1, report=report)
    if as_json:
        output.print_json(found.document)
    else:
        _print(found)


def _print(found: "Reproduction") -> None:
    gpus = found.document["gpus"]
    output.print_line(f"the first 100 mini-batches, {gpus} GPUs in servers of 4")
    columns = ("load", "of the jobs", "mean", "p95", "longest", "×", "mean JCT", "longest wait")
    output.print_table(
        ["policy", *(output.Column(title, is_number=True) for title in columns)],
        [_feedback_row(row) for row in found.feedback],
    )
    output.print_line()
    output.print_line("six jobs on four GPUs: two come after 30 minutes, two end after 60")
    parts = ("jobs", "expected", "least", "most", "GPUs at work")
    output.print_table(
        ["minutes", *(output.Column(title, is_number=True) for title in parts)],
        [_share_row(row) for row in found.shares],
    )
    output.print_line()
    for line in found.document["notes"]:
        output.print_line(line)
    output.print_line()
    for sentence in found.document["sentences"]:
        output.print_line(f"- {sentence}.")


def _feedback_row(row: "FeedbackRow") -> list[str]:
    first = row.first_batches_s
    return [
        row.policy,
        f"{row.scene.load:g}",
        f"{row.load_offered:.2f}",
        _in_minutes(first.mean),
        _in_minutes(first.p95),
        _in_minutes(first.max),
        in_times(row.earlier),
        in_hours(row.jct_mean_h),
        in_hours(row.wait_max_h),
    ]


def _share_row(row: "ShareRow") -> list[str]:
    phase, shares = row.phase, row.shares.values()
    return [
        f"{phase.begin_min} to {phase.end_min}",
        str(len(phase.jobs)),
        f"{phase.expected:.3f}",
        f"{min(shares):.3f}",
        f"{max(shares):.3f}",
        f"{row.together:.2f}",
    ]


def _in_minutes(seconds: float | None) -> str:
    return in_hours(None) if seconds is None else f"{seconds / 60:.1f} min"
