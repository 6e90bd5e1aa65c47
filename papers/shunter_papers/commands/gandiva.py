"""`shunter reproduce gandiva`: its tables in words."""

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import NOTHING, Json, output
from shunter_papers.commands.options import Seed, Workers, in_hours, in_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter_papers.gandiva.automl.comparison import AutoMl, Found
    from shunter_papers.gandiva.comparison import Reproduction
    from shunter_papers.gandiva.introspection.comparison import Trials
    from shunter_papers.gandiva.rows import FeedbackRow, ShareRow


class Part(StrEnum):
    """An experiment of the comparison."""

    feedback = "feedback"
    shares = "shares"
    automl = "automl"
    trials = "trials"


Parts = Annotated[
    list[Part] | None,
    typer.Option("--part", help="Only this experiment; several times. Left out: all."),
]
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
        bool,
        typer.Option("--full", help="The slides' 180 GPUs, not 48 of them, and more searches."),
    ] = False,
    searches: Annotated[
        int | None,
        typer.Option(min=1, help="AutoML searches; left out: 20, and 200 with --full."),
    ] = None,
    parts: Parts = None,
    as_json: Json = False,
    workers: Workers = 0,
) -> None:
    """Compare Gandiva's time-slicing with jobs that run one after the other.

    The paper is Xiao et al., OSDI 2018.

    The time from submission to the first 100 mini-batches against the load, under `fifo` and
    `gandiva`, with completion times and the longest waits beside it; the shares of six jobs on
    four GPUs; the time until a search over 100 configurations finds good ones; and what packs and
    moves gain that are tried.
    """
    from shunter_papers.gandiva.comparison import PARTS, Asked, reproduce

    asked = Asked(
        seed, jobs, tuple(loads) if loads else None, full, searches, tuple(parts or PARTS)
    )
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers or os.cpu_count() or 1, report=report)
    if as_json:
        output.print_json(found.document)
    else:
        _print(found)


def _print(found: "Reproduction") -> None:
    if found.feedback:
        _print_feedback(found)
    if found.shares:
        _print_shares(found)
    if found.automl is not None:
        _print_automl(found.automl)
    if found.trials is not None:
        _print_trials(found.trials)
    for line in found.document["notes"]:
        output.print_line(line)
    output.print_line()
    for sentence in found.document["sentences"]:
        output.print_line(f"- {sentence}.")


def _print_feedback(found: "Reproduction") -> None:
    gpus = found.document["gpus"]
    output.print_line(f"the first 100 mini-batches, {gpus} GPUs in servers of 4")
    columns = ("load", "of the jobs", "mean", "p95", "longest", "×", "mean JCT", "longest wait")
    output.print_table(
        ["policy", *(output.Column(title, is_number=True) for title in columns)],
        [_feedback_row(row) for row in found.feedback],
    )
    output.print_line()


def _print_shares(found: "Reproduction") -> None:
    output.print_line("six jobs on four GPUs: two come after 30 minutes, two end after 60")
    parts = ("jobs", "expected", "least", "most", "GPUs at work")
    output.print_table(
        ["minutes", *(output.Column(title, is_number=True) for title in parts)],
        [_share_row(row) for row in found.shares],
    )
    output.print_line()


def _print_trials(found: "Trials") -> None:
    output.print_line("packing: what jobs of one GPU do for each GPU, in turns and packed by trial")
    parts = ("jobs for each GPU", "in turns", "packed", "gain", "tried", "undone", "time lost")
    output.print_table(
        ["GPU type", *(output.Column(title, is_number=True) for title in parts)],
        [
            [
                row.gpu_type,
                f"{row.crowding:g}",
                f"{row.sliced:.3f}",
                f"{row.packed:.3f}",
                f"{row.gain:+.1%}",
                f"{row.tried:,}",
                f"{row.undone:,}",
                f"{row.lost:.2%}",
            ]
            for row in found.packing
        ],
    )
    output.print_line()
    output.print_line("four gangs of two GPUs on 16; a job of eight GPUs ends after 200 s")
    output.print_table(
        ["gang", "first on", "moved to", output.Column("times as fast", is_number=True), "verdict"],
        [
            [
                row.job_id,
                ", ".join(row.first),
                NOTHING if row.moved_s is None else ", ".join(row.last),
                NOTHING if row.measured is None else f"{row.measured:.2f}",
                row.reason or NOTHING,
            ]
            for row in found.gangs
        ],
    )
    output.print_line()


def _print_automl(found: "AutoMl") -> None:
    from shunter_papers.gandiva.automl.comparison import BASELINES
    from shunter_papers.gandiva.automl.figures import (
        PUBLISHED_BASELINE_MIN,
        PUBLISHED_GANDIVA_MIN,
        PUBLISHED_SPEED_UPS,
        THRESHOLDS,
    )

    output.print_line("100 configurations on 16 GPUs: minutes to the first accuracy above")
    parts = [f"{threshold:.0%}" for threshold in THRESHOLDS]
    titles = ("searches", *parts, *(f"× {part}" for part in parts), f"found {parts[-1]}")
    one = ["1.00"] * len(parts)
    rows = [
        ["one after the other, published", "1", *map(_minutes, PUBLISHED_BASELINE_MIN), *one, ""],
        _automl_row("one after the other", BASELINES, found.baseline, one),
        [
            *("gandiva, published", "1", *map(_minutes, PUBLISHED_GANDIVA_MIN)),
            *(in_times(each) for each in PUBLISHED_SPEED_UPS),
            "",
        ],
        *(
            _automl_row(
                f"in turns, {row.variant.name}",
                row.searches,
                row.found,
                [in_times(each) for each in row.speed_ups],
            )
            for row in found.rows
        ),
    ]
    output.print_table(["", *(output.Column(title, is_number=True) for title in titles)], rows)
    output.print_line()


def _automl_row(
    name: str, searches: int, found: "Sequence[Found]", speed_ups: "Sequence[str]"
) -> list[str]:
    minutes = [_minutes(each.median_min) for each in found]
    return [name, str(searches), *minutes, *speed_ups, str(found[-1].searches)]


def _minutes(minutes: float | None) -> str:
    return NOTHING if minutes is None else f"{minutes:,.1f}"


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
