"""`shunter admin profile`: measure how sensitive a job is to CPUs and memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.options import Json
from shunter.cli.units import number
from shunter.counting import counted
from shunter.errors import LogExistsError, ShunterError, UsageError
from shunter.output_files import check_target, write_text

if TYPE_CHECKING:
    from shunter.events.log import WriterLock
    from shunter.ops import Cell, JobFile, Machine, Profiled


def profile(
    job: Annotated[
        Path, typer.Argument(metavar="JOB", help="A TOML file that says what it reads.")
    ],
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Measure on the simulated backend, not on this machine."),
    ] = False,
    on: Annotated[
        Path | None,
        typer.Option(
            "--on",
            metavar="CONFIG",
            help="Measure on a server of this cluster, over SSH, not on this machine.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --on: which server; the first if left out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the table of sensitivity here."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Write the measurements into a new log, as facts."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how fast a job is by CPUs and memory, and make a table of it.

    Epochs are measured at a few numbers of CPUs, all else is modelled (optimistic profiling,
    Synergy, OSDI 2022). Modelled cells are then measured as well, as far as can be, and printed
    beside their measurements with the error.
    """
    from shunter.ops import profiled, read_job_file

    file = read_job_file(job)
    named = (file.job.simulated.table, *file.job.measuring.dataset)
    read = [job, *(file.folder / each for each in named), *([] if on is None else [on])]
    check_target(out, log or "", read)
    machine = _machine(file, simulated, on, node)
    with _claimed(log) as claim:
        with output.ended_like_an_interrupt():
            found = profiled(file, machine, lambda what: output.note(f"measuring {what}"))
        unwritten = _write(found, out, log, claim)
    if as_json or unwritten:
        output.print_json(found.document())
    else:
        _print(found)
    if unwritten:
        causes = "\n".join(map(str, unwritten))
        raise ShunterError(f"{causes}\nwhat was measured is printed on stdout, as by --json")


def _machine(file: "JobFile", is_simulated: bool, on: Path | None, node: str | None) -> "Machine":
    """Return what a job is measured on; UsageError: options do not go together."""
    if is_simulated and on is not None:
        raise UsageError("--simulated measures on no server: leave --on out")
    if node is not None and on is None:
        raise UsageError("--node names a server of a cluster: name its config with --on")
    if is_simulated:
        from shunter.ops import SimulatedMachine

        return SimulatedMachine(file)
    from shunter.ops import LiveMachine, remove_abandoned, ssh_server, this_server

    for sentence in remove_abandoned():
        output.note(sentence)
    if on is None:
        return LiveMachine(file, this_server(file))
    from shunter.config import load_config

    return LiveMachine(file, ssh_server(file, load_config(on), node))


@contextmanager
def _claimed(url: str | None) -> Iterator["WriterLock | None"]:
    """Hold the place of the log from before anything is measured.

    Raises:
        LogExistsError: there is one.
        LogError: none can be written there, or another process is about to.
    """
    import asyncio

    from shunter.events.log import claim_log

    try:
        claim = None if url is None else asyncio.run(claim_log(url))
    except LogExistsError as error:
        raise LogExistsError(
            f"there is a log {url} already; measurements make one of their own: name another"
        ) from error
    with claim or nullcontext():
        yield claim


def _write(
    found: "Profiled", out: Path | None, log: str | None, claim: "WriterLock | None"
) -> list[ShunterError]:
    """Write the table and the log, each for itself; return what went wrong."""
    unwritten: list[ShunterError] = []
    if out is not None:
        try:
            write_text(out, json.dumps(found.table(), indent=1) + "\n")
            output.note(f"wrote the table of {found.file.job.model} to {out}")
        except ShunterError as error:
            unwritten.append(error)
    if log is not None:
        try:
            _append(log, found, claim)
            output.note(f"wrote {len(found.measured):,} measurements into {log}")
        except ShunterError as error:
            unwritten.append(error)
    return unwritten


def _append(url: str, found: "Profiled", claim: "WriterLock | None") -> None:
    import asyncio

    from shunter.events.log import open_log

    async def append() -> None:
        async with open_log(url, claim=claim) as log:
            log.append(found.measured)

    asyncio.run(append())


def _print(found: "Profiled") -> None:
    from shunter.ops import CLAIM

    job, demand, worst = found.file.job, found.profile.demand, found.worst
    cpus, memory_gb = counted(demand.cpus_milli / 1000, "CPU"), demand.memory_mb / 1000
    needs = f"{cpus} and {memory_gb:g} GB for each GPU"
    epochs = sorted(found.profile.full_s.items(), reverse=True)
    output.print_pairs(
        [
            ("model", f"{job.model}, GPUs: {number(job.gpus)} ({found.evidence})"),
            ("epochs by CPUs", ", ".join(f"{cpus}: {seconds:.4g} s" for cpus, seconds in epochs)),
            ("demand", f"{needs}: the least of maximal speed"),
        ]
    )
    output.print_line()
    titles = ("CPUs", "memory", "measured", "modelled", "error")
    output.print_table(
        [output.Column(title, is_number=True) for title in titles], list(map(_row, found.cells))
    )
    output.print_line()
    if worst is None:
        output.print_line("no modelled cell was measured")
    else:
        output.print_line(
            f"worst modelled cell: {worst.error:+.1%} with {counted(worst.point.cpus, 'CPU')} and "
            f"{worst.point.memory_mb / 1000:g} GB"
        )
        for is_between, what in ((False, "that was measured"), (True, "between those")):
            near, of = found.within_claim(is_between=is_between)
            if of:
                output.print_line(
                    f"within {CLAIM:.0%}, as is claimed: {near} of {of} modelled cells with a "
                    f"number of CPUs {what}"
                )
    for sentence in found.notes:
        output.print_line(sentence)


def _row(cell: "Cell") -> list[str]:
    point = cell.point
    return [
        str(point.cpus),
        f"{point.memory_mb / 1000:g} GB" if point.memory_mb else "all",
        f"{cell.measured_s:.4g} s",
        f"{cell.modelled_s:.4g} s",
        "measured" if cell.is_input else f"{cell.error:+.1%}",
    ]
