"""`shunter reproduce gavel`: its tables in words."""

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shunter.cli import NOTHING, Json, number, output
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
    from shunter_papers.gavel import Reproduction
    from shunter_papers.gavel_contenders import Average, Makespan


def gavel(
    seed: Seed = 0,
    jobs: Annotated[
        int | None,
        typer.Option(min=3, help="Jobs at each rate; left out: 2,667, and 8,000 with --full."),
    ] = None,
    rates: Rates = None,
    gang_rates: GangRates = None,
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
    workers: Workers = 0,
) -> None:
    """Compare Gavel's policies that know GPU types with their agnostic forms.

    The paper is Narayanan et al., OSDI 2020.

    Average completion time against the rate of arrivals, of jobs of one GPU and with gangs: in the
    rounds of the public simulator and, at the highest rate of the quick form, by our own policies.
    The makespan of jobs that are all there from the beginning, and the time that solving takes. The
    quick form is a third of the paper's cluster and rates; --full is 36 V100, 36 P100 and 36 K80,
    at the highest rate alone unless others are named.
    """
    from shunter_papers.gavel import Asked, reproduce

    asked = Asked(seed, jobs, rates, gang_rates, full, solver)
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers or os.cpu_count() or 1, report=report)
    if as_json:
        output.print_json(found.document)
    else:
        _print(found)


def _print(found: "Reproduction") -> None:
    from shunter_papers.gavel_arrivals import FULL
    from shunter_papers.gavel_figures import SOLVE_S

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
        in_times(found.times) + mark,
        in_hours(found.published),
        in_full_part(found.measured.full_part, is_never=found.is_never_full),
        number(found.document["preemptions"]),
    ]


def _makespan_row(found: "Makespan") -> list[str]:
    return [
        found.contender.label,
        f"{found.jobs:,}",
        f"{found.hours:.1f} h",
        in_times(found.times),
        in_hours(found.published),
        number(found.document["preemptions"]),
    ]


def _milliseconds(wall_s: float | None) -> str:
    return NOTHING if wall_s is None else f"{wall_s * 1e3:,.0f}"
