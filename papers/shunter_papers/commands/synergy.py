"""`shunter reproduce synergy`: its tables in words."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shunter.cli import Json, number, output
from shunter_papers.commands.options import (
    GangRates,
    Rates,
    Seed,
    Workers,
    in_full_part,
    in_hours,
    in_times,
)

if TYPE_CHECKING:
    from shunter_papers.synergy.comparison import Reproduction
    from shunter_papers.synergy.rows import ArrivalRow, SlideRow


@dataclass(frozen=True, kw_only=True)
class SynergyOptions:
    """What `shunter reproduce synergy` is told."""

    seed: Seed = 0
    static: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The public code's static trace; left out: made-up jobs like it.",
        ),
    ] = None
    dynamic: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Its dynamic trace, the same."
        ),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(min=3, help="Jobs at each rate; left out: 2,000, and 8,000 with --full."),
    ] = None
    rates: Rates = None
    gang_rates: GangRates = None
    full: Annotated[bool, typer.Option("--full", help="The paper's size, not a quarter of it.")] = (
        False
    )
    solver: Annotated[
        Literal["highs", "exact"],
        typer.Option(
            help="Who solves opt: highs, of the extra solvers; exact, our own, for the peer alone."
        ),
    ] = "exact"
    as_json: Json = False
    workers: Workers = 0


def synergy(options: SynergyOptions) -> None:
    """Compare Synergy's mechanisms with GPU-proportional CPUs and memory.

    The paper is Mohan et al., OSDI 2022.

    The table of its slides: the makespan of 100 jobs under FIFO, and the completion times of 100
    that arrive under SRTF, on 32 GPUs, as the public simulator plays them and by our own policies.
    Average completion time against the load, and against the part of the jobs that want CPUs. The
    quick form is a quarter of the paper's 128 GPUs.
    """
    from shunter_papers.synergy.comparison import Asked, reproduce

    asked = Asked(
        options.seed,
        options.static,
        options.dynamic,
        options.jobs,
        options.rates,
        options.gang_rates,
        options.full,
        options.solver,
    )
    workers = options.workers or os.cpu_count() or 1
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers, report=report)
    if options.as_json:
        output.print_json(found.document)
    else:
        _print(found)


def _print(found: "Reproduction") -> None:
    from shunter_papers.synergy.scenes import SLIDES_SERVERS

    output.print_line(f"the table of the slides, {SLIDES_SERVERS} servers of 8 GPUs and 24 CPUs")
    columns = ("deployed", "simulated", "public code", "peer", "×", "corrected", "×")
    output.print_table(
        ["jobs", "measure", "mechanism", *_numbers(columns)],
        [_slide_row(row) for row in found.slides],
    )
    for gangs, title in ((False, "jobs of one GPU that keep arriving"), (True, "with gangs")):
        rows = [row for row in found.loads if row.scene.gangs is gangs]
        if rows:
            _print_arrivals(title, rows)
    _print_arrivals("jobs of one GPU, by the mix of models", found.mixes)
    output.print_line()
    for line in found.document["notes"]:
        output.print_line(line)
    output.print_line()
    for sentence in found.document["sentences"]:
        output.print_line(f"- {sentence}.")


def _print_arrivals(title: str, rows: Sequence["ArrivalRow"]) -> None:
    output.print_line()
    output.print_line(f"{title}, {rows[0].scene.form.gpus} GPUs")
    columns = ("jobs an hour", "load", "mean JCT", "×", "full", "preemptions")
    output.print_table(
        ["mix", "policy", "mechanism", *_numbers(columns)], [_arrival_row(row) for row in rows]
    )


def _numbers(titles: Sequence[str]) -> list[output.Column]:
    return [output.Column(title, is_number=True) for title in titles]


def _slide_row(row: "SlideRow") -> list[str]:
    published = row.published
    return [
        row.slide.name if row.is_public else f"like {row.slide.name}",
        f"{row.slide.order.upper()} {row.measure}",
        row.mechanism,
        in_hours(published.deployed),
        in_hours(published.simulated),
        in_hours(published.public_code),
        in_hours(row.hours.get("peer")),
        in_times(row.times.get("peer")),
        in_hours(row.hours.get("corrected")),
        in_times(row.times.get("corrected")),
    ]


def _arrival_row(row: "ArrivalRow") -> list[str]:
    scene = row.scene
    return [
        "/".join(f"{part:g}" for part in scene.split),
        row.order.upper(),
        row.mechanism,
        f"{scene.rate:g}",
        f"{scene.load:.2f}",
        in_hours(row.measured.hours),
        in_times(row.times),
        in_full_part(row.measured.full_part, is_never=row.is_never_full),
        number(row.run["preemptions"]),
    ]
