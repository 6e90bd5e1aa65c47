"""`shunter reproduce topology`: its tables in words."""

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import Json, output
from shunter.errors import UsageError
from shunter_papers.commands.options import Seed, Workers, in_hours, in_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shunter_papers.topology.comparison import Reproduction
    from shunter_papers.topology.rows import Row


class Experiment(StrEnum):
    """An experiment of the comparison."""

    interference = "interference"
    locality = "locality"
    tension = "tension"
    staleness = "staleness"
    approvals = "approvals"


TITLES = {
    "interference": "jobs of one GPU that slow each other down",
    "locality": "gangs of four that suffer from distance, among jobs of three that do not",
    "tension": "four jobs of one GPU to one gang of 2, 4 or 8",
}


def topology(
    *,
    seed: Seed = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=20, help="Jobs of each run; left out: 250, and 1,000 where schedulers propose."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Twenty seeds, not three.")] = False,
    parts: Annotated[
        list[Experiment] | None,
        typer.Option("--part", help="Only this experiment; several times. Left out: all."),
    ] = None,
    nvlink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPU,GPU…",
            help="GPUs of each server that are joined, such as 0,4; several times.",
        ),
    ] = None,
    as_json: Json = False,
    workers: Workers = 0,
) -> None:
    """Compare placements by topology, and job schedulers that propose.

    The text is Xiao, SOSP student research competition 2017.

    The speeds that it publishes, beside those that ours are simulated by. Jobs of one GPU, gangs
    of four, and both together, at several loads: spread, packed and by the load; anywhere, nearest,
    in one server, by one rule on skews, and by a contract for each model, with how many wait
    needlessly; with running jobs moved for gangs. How often
    proposals of job schedulers collide, by the age of the views in which places were found, beside
    what one lock would do; and how many gangs are approved a second on 10,000 servers.
    """
    from shunter_papers.topology.comparison import PARTS, Asked, reproduce

    chosen = tuple(part.value for part in parts or ()) or PARTS
    asked = Asked(seed, jobs, full, chosen, nvlink=[_joined(group) for group in nvlink or ()])
    with output.progress("runs done") as report:
        found = reproduce(asked, workers=workers or os.cpu_count() or 1, report=report)
    if as_json:
        output.print_json(found.document)
    else:
        _print(found)


def _joined(group: str) -> list[int]:
    gpus = group.split(",")
    if len(set(gpus)) < max(2, len(gpus)) or not set(gpus) <= set("01234567"):
        raise UsageError(
            f"--nvlink {group}: expected GPUs of a server of 8, from 0 on, such as 0,4"
        )
    return [int(gpu) for gpu in gpus]


def _print(found: "Reproduction") -> None:
    if found.rows:
        _print_placements(found)
    if found.staleness:
        _print_staleness(found)
    for line in found.notes:
        output.print_line(line)
    output.print_line()
    for sentence in found.sentences:
        output.print_line(f"- {sentence}.")


def _print_placements(found: "Reproduction") -> None:
    output.print_line("speeds that the text publishes, of those near and alone")
    output.print_table(
        ["model", "setting", *(output.Column(one, is_number=True) for one in ("text", "ours"))],
        [
            [one.model, one.setting, f"{one.bound} {one.published:.2f}".strip(), f"{one.ours:.2f}"]
            for one in found.figures
        ],
    )
    output.print_line()
    columns = ("load", "slowdown", "mean JCT", "±", "mean wait", "large JCT", "large p95 wait")
    for experiment in dict.fromkeys(row.experiment for row in found.rows):
        output.print_line(f"{TITLES[experiment]}, {found.document['gpus']} GPUs in servers of 8")
        rows = [row for row in found.rows if row.experiment == experiment]
        more, cells = _further(rows)
        titles = [output.Column(title, is_number=True) for title in (*columns, *more)]
        output.print_table(["placement", *titles], [[*_cells(row), *cells(row)] for row in rows])
        output.print_line()


def _further(rows: "Sequence[Row]") -> "tuple[tuple[str, ...], Callable[[Row], list[str]]]":
    """Return what columns an experiment has of its own, and their cells."""
    if any(row.large_saved_h is not None for row in rows):
        return ("moves an hour", "less p95 wait", "±"), _moves
    if any(row.needless is not None for row in rows):
        return ("wait needlessly", "run too slowly"), _curves
    return (), lambda row: []


def _cells(row: "Row") -> list[str]:
    return [
        row.contender,
        f"{row.load:g}",
        in_times(row.slowdown),
        in_hours(row.jct_h),
        in_hours(row.half_h),
        in_hours(row.wait_h),
        in_hours(row.large_jct_h),
        in_hours(row.large_wait_p95_h),
    ]


def _moves(row: "Row") -> list[str]:
    """Return what moves a row has, and by how much gangs wait less for them."""
    if row.large_saved_h is None:
        return ["", "", ""]
    saved = in_hours(row.large_saved_h), in_hours(row.large_saved_half_h)
    return [f"{row.moves_per_h:.1f}", *saved]


def _curves(row: "Row") -> list[str]:
    """Return how many gangs wait needlessly, and how many are too slow."""
    return [f"{row.needless or 0:.1f}", f"{row.slow or 0:.1f}"]


def _print_staleness(found: "Reproduction") -> None:
    output.print_line("job schedulers on 128 GPUs in servers of 8, at a load of 0.9")
    columns = ("views up to", "collide", "retries a job", "to approval", "p95", "lock", "p95")
    output.print_table(
        ["starts a second", *(output.Column(title, is_number=True) for title in columns)],
        [
            [
                f"{row.starts_per_s:.2g}",
                f"{row.staleness_s:g} s",
                f"{row.conflict_rate:.1%}",
                f"{row.rejected / row.jobs:.2f}",
                _seconds(row.approval_mean_s),
                _seconds(row.approval_p95_s),
                _seconds(row.lock_mean_s),
                _seconds(row.lock_p95_s),
            ]
            for row in found.staleness
        ],
    )
    output.print_line()


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f} s"
