"""`shunter trace`: what a trace is like, made-up traces, and traces in canonical form.

Faults of a file go to stderr, statistics to stdout; with a trace on stdout comes nothing else.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.options import CommandGroup, Json
from shunter.cli.units import duration, number, percent
from shunter.counting import counted
from shunter.errors import TraceError, UsageError
from shunter.output_files import check_target, replacing, write_text

if TYPE_CHECKING:
    from shunter.ask import Observed
    from shunter.workloads import Trace, TraceDescription


KEY_BYTES_MOST = 1 << 16

trace_commands = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Describe, make up and convert traces."
)

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Its format; guessed if left out.")
]
Rows = Annotated[
    str | None, typer.Option(metavar="FIRST:END", help="Half-open selection after sorting.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A choice of the format: attempts=last."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="THEIRS=OURS,…",
        help="What columns of the file mean here: Submit=submit_s,NGPU=gpus; may be repeated.",
    ),
]
Throughputs = Annotated[
    str | None,
    typer.Option(
        metavar="TABLE", help="Rates for a trace that gives steps: builtin:gavel or a JSON file."
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write here, not to stdout.")
]
To = Annotated[
    str, typer.Option("--to", metavar="FORMAT", help="canonical-csv or canonical-jsonl.")
]
Gpus = Annotated[
    int | None, typer.Option(min=1, help="GPUs of the cluster that the load refers to.")
]


@trace_commands.command()
def describe(
    trace: TraceFile,
    format_name: Format = None,
    rows: Rows = None,
    options: Options = None,
    columns: Columns = None,
    throughputs: Throughputs = None,
    gpus: Gpus = None,
    as_json: Json = False,
) -> None:
    """Say what is in a trace, and what was wrong with it."""
    loaded = _read(trace, format_name, rows, options, throughputs, columns)
    _report(loaded)
    _describe(loaded, gpus, as_json)


@trace_commands.command()
def generate(
    kind: Annotated[
        str, typer.Option(help="philly-like, tiresias-like, gavel-like or synergy-like.")
    ] = "philly-like",
    jobs: Annotated[int, typer.Option(min=1, help="How many.")] = 2000,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs the load refers to.")] = 64,
    load: Annotated[float, typer.Option(help="Offered over available GPU time.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Names the jobs.")] = 0,
    arrivals: Annotated[str, typer.Option(help="poisson or diurnal.")] = "poisson",
    to: To = "canonical-csv",
    out: Out = None,
) -> None:
    """Make a trace up after the statistics of a public one."""
    from shunter.workloads import generate_trace

    check_target(out)
    made = generate_trace(
        kind,
        jobs=jobs,
        load=load,
        cluster_gpus=gpus,
        seed=seed,
        arrivals=arrivals,  # type: ignore[arg-type]  # the generator names what it knows
    )
    _write(made, to, out, gpus)


@trace_commands.command()
def convert(
    trace: TraceFile,
    format_name: Format = None,
    rows: Rows = None,
    options: Options = None,
    columns: Columns = None,
    throughputs: Throughputs = None,
    to: To = "canonical-csv",
    out: Out = None,
) -> None:
    """Write a trace in canonical form."""
    check_target(out, inputs=[trace, *([] if throughputs is None else [throughputs])])
    loaded = _read(trace, format_name, rows, options, throughputs, columns)
    _report(loaded)
    _write(loaded, to, out, None)


@trace_commands.command("import")
def import_history(
    sacct: Annotated[
        Path, typer.Option("--slurm-sacct", metavar="FILE", help="What `sacct -P` has printed.")
    ],
    queue: Annotated[
        str, typer.Option(help="What becomes the queue: partition or account.")
    ] = "partition",
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--anonymise-key-file",
            metavar="FILE",
            help="Hash names of users, jobs and accounts by the key in this file.",
        ),
    ] = None,
    to: To = "canonical-csv",
    out: Out = None,
) -> None:
    """Make a trace of a site's own history, for `simulate` and `compare`.

    Jobs with GPUs that have ended are kept; what is left out is counted and said. The file is made
    by the command that docs/reference/traces.md names.
    """
    from shunter.workloads import load_trace
    from shunter.workloads.formats import anonymised

    check_target(out, inputs=[sacct, *([] if key_file is None else [key_file])])
    loaded = load_trace(sacct, "slurm-sacct", options={"queue": queue})
    _report(loaded)
    if key_file is not None:
        loaded = anonymised(loaded, _key(key_file), with_queues=queue == "account")
    _write(loaded, to, out, None)


@trace_commands.command()
def fit(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The log of a live cluster: its path or address.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write mini-batches per second here, by model and GPUs."),
    ] = None,
    trace: Annotated[
        str, typer.Option(metavar="TRACE", help="The trace that the config names.")
    ] = "jobs.csv",
    as_json: Json = False,
) -> None:
    """Measure what starts and suspensions cost in a log, as a config that predicts."""
    import asyncio

    from shunter.ask import (
        config_text,
        fit_costs,
        fit_document,
        left_out,
        rates_document,
        uneven_starts,
        without_rates,
    )

    check_target(out, log)
    check_target(rates, log, [] if out is None else [out])
    observed = asyncio.run(_observed(log))
    fitted = fit_costs(observed)
    if not any(fitted.launches.values()):
        raise TraceError(f"no attempt in {log} was seen to start: there is nothing to measure")
    if rates is not None:
        table = rates_document(fitted)
        write_text(rates, json.dumps(table, indent=1) + "\n")
        output.note(f"wrote rates of {len(table['kinds']):,} kinds of jobs to {rates}")
    if as_json:
        output.print_json(fit_document(observed, fitted))
        return
    named = None if rates is None else str(rates)
    if named is not None and out is not None:  # paths in a config are relative to it
        named = os.path.relpath(named, out.parent)
    text = config_text(observed, fitted, trace, named)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        attempts = sum(fitted.launches.values())
        output.note(
            f"wrote costs measured on {counted(attempts, 'attempt')} of "
            f"{counted(len(observed.jobs), 'job')} to {out}"
        )
    for sentence in (*left_out(fitted), *uneven_starts(observed, fitted)):
        output.note(sentence)
    if rates is not None:
        for sentence in without_rates(observed, fitted):
            output.note(sentence)


async def _observed(log: str) -> "Observed":
    from shunter.ask import observe_log
    from shunter.events.log import read_log

    async with read_log(log) as reader:
        with output.progress("measuring") as advance:
            return await observe_log(reader, advance)


def _key(path: Path) -> bytes:
    from shunter.workloads import read_file

    try:
        return read_file(path, KEY_BYTES_MOST)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--anonymise-key-file {path} cannot be read: {why}; "
            f"make one: (umask 077; head -c 32 /dev/urandom > {path})"
        ) from error


def _read(
    path: Path,
    format_name: str | None,
    rows: str | None,
    options: list[str] | None,
    throughputs: str | None,
    columns: list[str] | None,
) -> "Trace":
    from shunter.workloads import load_trace
    from shunter.workloads.formats import COLUMNS

    chosen: dict[str, str] = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text}: expected NAME=VALUE, such as attempts=last")
        chosen[name] = value
    table = None
    if throughputs is not None:
        from shunter.config import read_throughputs

        table = read_throughputs(throughputs).table
    named: dict[str, str] = {}
    for text in (part for each in columns or () for part in each.split(",")):
        theirs, _, ours = text.partition("=")
        if not theirs or ours not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise UsageError(f"--columns {text}: expected THEIRS=OURS, where ours is of {known}")
        named[theirs] = ours
    return load_trace(
        path, format_name, _range(rows), options=chosen, throughputs=table, columns=named
    )


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, end = text.partition(":")
    if not colon or not first.isdigit() or not end.isdigit():
        raise UsageError(f"--rows {text}: expected FIRST:END, such as 40000:41000")
    return int(first), int(end)


def _report(trace: "Trace") -> None:
    report = trace.report
    output.note(
        f"{trace.source}: {trace.format}, {counted(report.rows_read, 'row')} read, "
        f"{report.rows_dropped:,} dropped, {counted(report.rows_selected, 'job')}"
    )
    for sentence in report.sentences():
        output.note(f"{trace.source}: {sentence}")


def _write(trace: "Trace", to: str, out: Path | None, gpus: int | None) -> None:
    from shunter.workloads.formats import write_trace

    if out is None:
        write_trace(trace, sys.stdout, to)
    else:
        with replacing(out) as file:
            write_trace(trace, file, to)
        _describe(trace, gpus, as_json=False)


def _describe(trace: "Trace", gpus: int | None, as_json: bool) -> None:
    from shunter.workloads import describe_trace

    described = describe_trace(trace, gpus)
    if as_json:
        report = trace.report
        output.print_json(
            {
                "schema": 1,
                "source": trace.source,
                "format": trace.format,
                "digest": trace.digest,
                "origin": trace.origin,
                "quality": {**asdict(report), "rows_dropped": report.rows_dropped},
                **asdict(described),
            }
        )
        return
    _print(trace, described)


def _print(trace: "Trace", described: "TraceDescription") -> None:
    spans = described.duration_s
    pairs = [
        ("trace", f"{trace.source} ({trace.format})  {trace.digest[:12]}"),
        ("jobs", number(described.jobs)),
        ("submitted over", duration(described.span_s)),
        ("GPU-hours", f"{described.gpu_h:,.0f}"),
        ("duration", ", ".join(f"{name} {duration(value)}" for name, value in spans.items())),
        ("ends", ", ".join(f"{number(count)} {name}" for name, count in described.ends.items())),
    ]
    if described.gpus_mean is not None:
        pairs.append(("GPUs needed on average", f"{described.gpus_mean:,.1f}"))
    if described.load is not None:
        pairs.append(("load", percent(described.load)))
    output.print_pairs(pairs)
    output.print_line()
    titles = ["GPUs", "jobs", "share", "GPU-hours", "share"]
    output.print_table(
        [output.Column(title, is_number=True) for title in titles],
        [
            [
                number(size.gpus),
                number(size.jobs),
                percent(size.jobs_share),
                f"{size.gpu_h:,.0f}",
                percent(size.gpu_h_share),
            ]
            for size in described.sizes
        ],
    )
