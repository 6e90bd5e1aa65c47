"""`shunter reproduce tiresias`: its tables in words."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import NOTHING, Json, duration, number, output
from shunter_papers.commands.options import Seed, Workers

if TYPE_CHECKING:
    from shunter_papers.claims import Claim
    from shunter_papers.tables import Row, Table
    from shunter_papers.tiresias import Reproduction


def tiresias(
    seed: Seed = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Jobs of each trace; left out: 3,000 generated ones, 15,000 of a file."
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Draw the JCT distributions (needs 'shunter-papers[plots]')."
        ),
    ] = None,
    as_json: Json = False,
    workers: Workers = 0,
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
    from shunter_papers.plots import check_plots, draw_plots
    from shunter_papers.tiresias import CLAIM, Asked, reproduce, scenes

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
    from shunter_papers.claims import is_reached
    from shunter_papers.tables import RATIOS

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
