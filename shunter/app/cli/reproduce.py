"""`shunter reproduce`: the comparison of a paper, run here, beside what the paper claims."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shunter.app.cli import output
from shunter.app.cli.options import Json
from shunter.app.cli.units import NOTHING, duration, number

if TYPE_CHECKING:
    from shunter.app.reproductions.claims import Claim
    from shunter.app.reproductions.gavel import Reproduction as GavelReproduction
    from shunter.app.reproductions.gavel_contenders import Average, Makespan
    from shunter.app.reproductions.tables import Row, Table
    from shunter.app.reproductions.tiresias import Reproduction


papers = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run the comparison of a paper."
)


@papers.command()
def tiresias(
    seed: Annotated[int, typer.Option(min=0, help="Names the generated jobs.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Jobs of each trace; left out: 3,000 generated ones, 15,000 of a file."
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draw the JCT distributions (needs the extra plots)."),
    ] = None,
    as_json: Json = False,
    workers: Annotated[
        int, typer.Option("-j", "--workers", min=0, help="Processes; 0 is one a core.")
    ] = 0,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The Philly trace; left out: made-up jobs like it."),
    ] = None,
) -> None:
    """Compare Tiresias with a YARN baseline, as its paper does.

    The paper is Gu et al., NSDI 2019.

    FIFO with consolidated gangs, SRTF, 2D-LAS and 2D-Gittins on a generated trace and on Philly,
    each at several loads, with restarts that are free and restarts that cost a minute.
    """
    from shunter.app.reproductions.plots import check_plots, draw_plots
    from shunter.app.reproductions.tiresias import CLAIM, Asked, reproduce, scenes

    if plots is not None:
        check_plots(plots)
    asked, quality = scenes(Asked(seed, jobs, trace))
    for sentence in quality.sentences() if quality is not None else ():
        output.note(f"{trace}: {sentence}")
    with output.progress("runs done") as report:
        found = reproduce(asked, seed, workers=workers or os.cpu_count() or 1, report=report)
    if plots is not None:
        for path in draw_plots(plots, "tiresias", found.tables):
            output.note(f"drawn: {path}")
    if as_json:
        output.print_json(found.document)
    else:
        _print(found, CLAIM)


@papers.command()
def gavel(
    seed: Annotated[int, typer.Option(min=0, help="Names the generated jobs.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(min=3, help="Jobs at each rate; left out: 2,667, and 8,000 with --full."),
    ] = None,
    rates: Annotated[
        list[float] | None,
        typer.Option(
            "--rate",
            min=0.01,
            help="Jobs of one GPU an hour, on the paper's cluster; may be given several times.",
        ),
    ] = None,
    gang_rates: Annotated[
        list[float] | None,
        typer.Option("--gang-rate", min=0.01, help="The same where some jobs are gangs."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's size, not a third of it.")
    ] = False,
    solver: Annotated[
        Literal["ecos", "centred"],
        typer.Option(
            help="Who computes shares in the public code's rounds: centred, or the extra ecos."
        ),
    ] = "centred",
    as_json: Json = False,
    workers: Annotated[
        int, typer.Option("-j", "--workers", min=0, help="Processes; 0 is one a core.")
    ] = 0,
) -> None:
    """Compare Gavel's policies that know GPU types with their agnostic forms.

    The paper is Narayanan et al., OSDI 2020.

    Average completion time against the rate of arrivals, of jobs of one GPU and with gangs: in the
    rounds of the public simulator and, at the highest rate of the quick form, by our own policies.
    The makespan of jobs that are all there from the beginning, and the time that solving takes. The
    quick form is a third of the paper's cluster and rates; --full is 36 V100, 36 P100 and 36 K80,
    at the highest rate alone unless others are named.
    """
    from shunter.app.reproductions.gavel import Asked, reproduce

    asked = Asked(seed, jobs, rates, gang_rates, full, solver)
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers or os.cpu_count() or 1, report=report)
    if as_json:
        output.print_json(found.document)
    else:
        _print_gavel(found)


def _print_gavel(found: "GavelReproduction") -> None:
    from shunter.app.reproductions.gavel_arrivals import FULL
    from shunter.app.reproductions.gavel_figures import SOLVE_S

    for gangs, title in ((False, "jobs of one GPU that keep arriving"), (True, "with gangs")):
        rows = [each for each in found.averages if each.scene.gangs is gangs]
        output.print_line(f"{title}, {rows[0].scene.form.cluster}")
        columns = ["jobs an hour", "mean JCT", "×", "published", "full", "preemptions"]
        output.print_table(
            ["policy", "setting", *(output.Column(name, is_number=True) for name in columns)],
            [_average_row(each) for each in rows],
        )
        output.print_line()
    output.print_line(f"jobs that are all there from the beginning, {FULL.cluster}")
    columns = ["jobs", "makespan", "×", "published", "preemptions"]
    output.print_table(
        ["policy", *(output.Column(name, is_number=True) for name in columns)],
        [_makespan_row(each) for each in found.makespans],
    )
    output.print_line()
    output.print_line("wall time of one computation of shares (this machine; public code: ours)")
    output.print_table(
        ["policy", *(output.Column(name, is_number=True) for name in ("jobs", "ms", "public ms"))],
        [
            [each.label, f"{each.jobs:,}", f"{each.wall_s * 1e3:.1f}", _milliseconds(public)]
            for each in found.solves
            for public in [SOLVE_S[each.label].get(each.jobs)]
        ],
    )
    output.print_line()
    for line in found.document["notes"]:
        output.print_line(line)
    output.print_line()
    for sentence in found.document["sentences"]:
        output.print_line(f"- {sentence}.")


def _average_row(found: "Average") -> list[str]:
    mark = "*" if found.contender.has_loose_baseline and not found.contender.is_baseline else ""
    return [
        found.contender.label,
        found.contender.setting,
        f"{found.scene.rate:g}",
        f"{found.measured.hours:.2f} h",
        _times(found.times) + mark,
        _hours(found.published),
        "never" if found.is_never_full else f"{found.measured.full_part:.0%}",
        number(found.document["preemptions"]),
    ]


def _makespan_row(found: "Makespan") -> list[str]:
    return [
        found.contender.label,
        f"{found.jobs:,}",
        f"{found.hours:.1f} h",
        _times(found.times),
        _hours(found.published),
        number(found.document["preemptions"]),
    ]


def _times(times: float | None) -> str:
    return NOTHING if times is None else f"{times:.2f}"


def _hours(hours: float | None) -> str:
    return NOTHING if hours is None else f"{hours:.2f} h"


def _milliseconds(wall_s: float | None) -> str:
    return NOTHING if wall_s is None else f"{wall_s * 1e3:,.0f}"


def _print(found: "Reproduction", claim: "Claim") -> None:
    for table in found.tables:
        _print_table(table, claim)
        output.print_line()
    for line in found.document["notes"]:
        output.print_line(line)
    if any(row.oracle for table in found.tables for row in table.rows):
        output.print_line("* oracle: uses true durations, which no scheduler knows")
    output.print_line(
        "×: the baseline's time over the row's, above 1 is sooner; all numbers are simulated"
    )
    output.print_line()
    for sentence in found.document["sentences"]:
        output.print_line(f"- {sentence}.")


def _print_table(table: "Table", claim: "Claim") -> None:
    cluster, trace = table.rows[0].cluster, table.rows[0].trace
    offered = "" if table.load_offered is None else f" (offered {table.load_offered:.2f})"
    decided = "every event" if table.round_s is None else f"rounds of {table.round_s:g} s"
    output.print_line(
        f"{table.place}{offered}: {number(trace['jobs'])} jobs on {number(cluster['gpus'])} GPUs, "
        f"decided at {decided}"
    )
    for note in table.notes:
        output.print_line(note)
    times = ("mean JCT", "×", "p50 JCT", "×", "p95 JCT", "×")
    columns = [*times, "published", "reached", "preemptions"]
    output.print_table(
        ["policy", "restarts", *(output.Column(title, is_number=True) for title in columns)],
        [_row(table, row, claim) for row in table.rows],
    )


def _row(table: "Table", row: "Row", claim: "Claim") -> list[str]:
    from shunter.app.reproductions.claims import is_reached
    from shunter.app.reproductions.tables import RATIOS

    cells = [_label(row), row.variant_title]
    for measure in RATIOS:
        ratio = table.ratio(row, measure)
        cells += [duration(row.of(measure)), NOTHING if ratio is None else f"{ratio:.2f}"]
    reached = is_reached(claim, table, row)
    published = NOTHING if reached is None else f"up to {claim.ratio:g}"
    said = NOTHING if reached is None else ("yes" if reached else "no")
    return [*cells, published, said, number(row.document["preemptions"])]


def _label(row: "Row") -> str:
    return f"{row.label} ({row.policy}{'*' if row.oracle else ''})"
