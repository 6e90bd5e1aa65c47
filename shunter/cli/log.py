"""`shunter log`: what is in a log, whether it is sound, and its events as lines of JSON."""

import re
import sys
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from typer.exceptions import TyperException

from shunter.cli import output
from shunter.cli.options import CommandGroup, Json, LogAddress, note_new_name, reading
from shunter.cli.units import number
from shunter.counting import counted
from shunter.errors import UsageError, extra_hint
from shunter.output_files import check_target, made_folder, refuse_same, replacing, replacing_bytes

if TYPE_CHECKING:
    from shunter.ask import LogStatistics
    from shunter.events.log import Answered, LogReader


_JOB = re.compile(r"j[0-9]+(\.[0-9]+)?")


class LogCommands(CommandGroup):
    """The commands of `shunter log`, which is not `shunter logs`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; propose `logs` for a job, and new names for old ones."""
        if args[0] == "reindex" and not ctx.resilient_parsing:
            note_new_name("log reindex", "reindex")
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            if _JOB.fullmatch(args[0]):
                error.message = (
                    f"No such command {args[0]!r}: `shunter logs {args[0]}` prints what that job "
                    "printed; `shunter log` looks into event logs."
                )
            raise


log_commands = typer.Typer(cls=LogCommands, no_args_is_help=True, help="Look into event logs.")


@log_commands.command()
def stats(log: LogAddress, as_json: Json = False) -> None:
    """Count events by kind, with terms, frames, bytes, snapshots and segments."""
    import asyncio

    from shunter.ask import LogStatistics, log_statistics

    async def counted() -> LogStatistics:
        async with reading(log) as reader:
            with output.progress("counting") as advance:
                return await log_statistics(reader, advance)

    document = asyncio.run(counted())
    if as_json:
        output.print_json(document)
    else:
        _print_stats(document)


@log_commands.command()
def export(
    log: LogAddress,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Instead of stdout.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="SEQ", help="Stop after the event of that number.")
    ] = None,
    as_trace: Annotated[
        bool,
        typer.Option("--as-trace", help="The jobs as a canonical trace, with the work they did."),
    ] = False,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A trace for the Perfetto viewer instead: GPUs as tracks."
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Tables for pandas and polars instead, a file each in a folder."
        ),
    ] = None,
) -> None:
    """Write the events as lines of JSON, one event a line."""
    import asyncio

    async def written() -> None:
        async with reading(log) as reader:
            if parquet is not None:
                await _export_parquet(reader, to, parquet)
            elif perfetto is not None:
                await _export_perfetto(reader, to, perfetto)
            elif as_trace:
                await _export_trace(reader, target)
            elif target is None:
                await _export_lines(reader, to, sys.stdout.buffer)
            else:
                with replacing_bytes(target) as file:
                    count = await _export_lines(reader, to, file)
                output.note(f"wrote {counted(count, 'event')}, one a line, to {target}")

    if as_trace and to is not None:
        raise UsageError("--to cuts events, not jobs: leave it out with --as-trace")
    if perfetto is not None and (as_trace or target is not None):
        raise UsageError("--perfetto names its own file: leave -o and --as-trace out")
    if parquet is not None and (as_trace or target is not None or perfetto is not None):
        raise UsageError("--parquet names its own folder: leave -o, --as-trace and --perfetto out")
    check_target(target, log)
    check_target(perfetto, log)
    if parquet is not None:
        _refuse_log_among_tables(parquet, log)
    asyncio.run(written())


@log_commands.command()
def verify(
    log: LogAddress,
    schema: Annotated[
        bool, typer.Option("--schema", help="Hold every event to the published schema too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prove that a log is whole: every table, the view, and its end by its anchor."""
    import asyncio
    from dataclasses import asdict

    from shunter.events.log import VerifyReport
    from shunter.gc_control import collector_off

    async def verified() -> VerifyReport:
        async with reading(log) as reader:
            return await reader.verify(schema)

    with collector_off():
        report = asyncio.run(verified())
    if as_json:
        output.print_json({"schema": 1, "sound": True, "held_to_schema": schema, **asdict(report)})
    else:
        output.print_line(
            f"sound: {number(report.events)} events in {number(report.frames)} frames, "
            f"{report.snapshots} snapshots, {report.segments} segments, term {report.term}"
        )
        output.print_line(f"digest {report.digest}")
        if report.anchor_seq is not None:
            output.print_line(f"anchor at sequence number {number(report.anchor_seq)}")


@log_commands.command()
def sql(
    log: LogAddress,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="One SELECT.")],
    as_json: Json = False,
) -> None:
    """Answer in SQL over `events`: seq, at_us, kind, job_id, payload (JSON)."""
    import asyncio

    from shunter.events.log import query_log

    async def opened() -> None:
        async with reading(log) as reader:
            await reader.head()

    asyncio.run(opened())
    with query_log(log, question) as answered:
        if as_json:
            rows = [[_shown(value) for value in row] for row in answered.rows]
            output.print_json({"schema": 1, "columns": answered.columns, "rows": rows})
        else:
            _print_answer(answered)


ROWS_DRAWN = 500
"""So many rows are drawn as a table; of more, columns are as wide as in these, and none folds."""


def _print_answer(answered: "Answered") -> None:
    """Print the rows of an answer; as they come, if they are many.

    They may have no end, and drawing a table is slow.
    """
    first = list(islice(answered.rows, ROWS_DRAWN + 1))
    columns = [
        output.Column(title, all(isinstance(row[place], int | float) for row in first))
        for place, title in enumerate(answered.columns)
    ]
    rows = [_cells(row) for row in first]
    if len(first) <= ROWS_DRAWN:
        output.print_table(columns, rows)
        return
    widths = [max(map(len, cells)) for cells in zip(answered.columns, *rows, strict=True)]
    if not columns[-1].is_number:  # nothing follows it
        widths[-1] = len(columns[-1].title)
    form = output.BETWEEN.join(
        f"{{:{'>' if column.is_number else '<'}{width}}}"
        for column, width in zip(columns, widths, strict=True)
    )
    output.print_line(form.format(*answered.columns).rstrip())
    output.print_line("─" * (sum(widths) + len(output.BETWEEN) * (len(widths) - 1)))
    for cells in chain(rows, map(_cells, answered.rows)):
        output.print_line(form.format(*cells).rstrip())


def _cells(row: Sequence[object]) -> list[str]:
    return ["" if value is None else str(_shown(value)) for value in row]


def _shown(value: object) -> object:
    """Return a value as JSON has it: bytes as hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value


@log_commands.command(hidden=True)  # it is `shunter admin reindex`
def reindex(log: LogAddress) -> None:
    """Rebuild what is derived from the events of a log; no event is changed."""
    import asyncio

    from shunter.events.log import reindex_log

    asyncio.run(reindex_log(log))
    output.note(f"made the tables of past jobs and the index of {log} anew")


@log_commands.command("schema")
def print_event_schema(
    log: Annotated[
        str | None, typer.Argument(metavar="[LOG]", help="Refuse if this log is of another one.")
    ] = None,
) -> None:
    """Print the JSON Schema of an event, as `log export` writes it."""
    import asyncio

    from shunter.events import json_schema

    async def opened() -> None:
        async with reading(str(log)) as reader:
            await reader.head()

    if log is not None:
        asyncio.run(opened())
    output.print_json(json_schema())


async def _export_lines(reader: "LogReader", to: str | None, file: BinaryIO) -> int:
    """Write the events up to one of them, and return how many they are."""
    from shunter.ask import seq_of
    from shunter.events.log import export_jsonl

    head = await reader.head()
    last = head.seq if to is None else seq_of(to, head.seq)
    with output.progress("exporting") as advance:
        for after in range(0, last, 20_000):
            upto = min(last, after + 20_000)
            await export_jsonl(reader, file, after, upto)
            if advance is not None:
                advance(upto, last)
    file.flush()
    return last


async def _export_trace(reader: "LogReader", target: Path | None) -> None:
    from shunter.ask import observed_trace
    from shunter.workloads.formats import write_trace

    with output.progress("collecting jobs") as advance:
        trace, others = await observed_trace(reader, advance)
    is_jsonl = target is not None and target.suffix == ".jsonl"
    name = "canonical-jsonl" if is_jsonl else "canonical-csv"
    if target is None:
        write_trace(trace, sys.stdout, name)
    else:
        with replacing(target) as file:
            write_trace(trace, file, name)
        output.note(f"wrote {counted(len(trace.jobs), 'job')} to {target}")
    if others:
        output.note(f"left out: {counted(others, 'job')} that never ran, or has not ended")


def _need(option: str, package: str, extra: str) -> None:
    """Refuse an option whose package is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise UsageError(f"{option} needs {package}, which is not installed; {extra_hint(extra)}")


def _refuse_log_among_tables(folder: Path, log: str) -> None:
    """Refuse a folder in which a table would take the place of the log."""
    _need("--parquet", "pyarrow", "parquet")
    from shunter.ask import TABLES

    for name in TABLES:
        refuse_same(folder / f"{name}.parquet", log)


async def _export_parquet(reader: "LogReader", to: str | None, folder: Path) -> None:
    from shunter.ask import seq_of, write_tables

    made_folder(folder)
    head = await reader.head()
    last = head.seq if to is None else seq_of(to, head.seq)
    with output.progress("writing tables") as advance:
        rows = await write_tables(reader, folder, last, advance)
    written = ", ".join(f"{name} {count:,}" for name, count in rows.items())
    output.note(f"wrote tables to {folder}, rows of each: {written}")


async def _export_perfetto(reader: "LogReader", to: str | None, target: Path) -> None:
    from shunter.ask import seq_of

    _need("--perfetto", "perfetto", "perfetto")
    from shunter.ask import write_perfetto

    head = await reader.head()
    last = head.seq if to is None else seq_of(to, head.seq)
    with replacing_bytes(target) as file, output.progress("drawing") as advance:
        packets = await write_perfetto(reader, file, last, advance)
    output.note(f"wrote {packets:,} packets to {target}; open it in the Perfetto viewer")


def _print_stats(document: "LogStatistics") -> None:
    span, size, terms = document["span"], document["bytes"], document["terms"]
    output.print_pairs(
        [
            ("log", f"{document['url']}  digest {document['digest'][:12]}"),
            ("events", number(document["events"])),
            ("span", f"{span['first']} to {span['last']}"),
            (
                "terms",
                ", ".join(f"{term}: {number(count)} events" for term, count in terms.items()),
            ),
            ("frames", number(document["frames"])),
            ("bytes", f"{number(size['payload'])} of events, {size['per_event']} an event"),
            ("snapshots", _snapshots(document["snapshots"])),
            ("segments", str(len(document["segments"])) if document["segments"] else "none"),
        ],
    )
    output.print_line()
    output.print_table(
        ["kind", output.Column("events", is_number=True)],
        [[kind, number(count)] for kind, count in document["kinds"].items()],
    )


def _snapshots(seqs: list[int]) -> str:
    return f"{len(seqs)}, the last at e{seqs[-1]}" if seqs else "none"
