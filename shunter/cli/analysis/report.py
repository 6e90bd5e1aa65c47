"""`shunter report`: one HTML file on one or more runs, which opens from disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import Json, reading
from shunter.output_files import check_target, write_text

Logs = Annotated[list[str], typer.Argument(metavar="LOG…", help="Logs: their paths or addresses.")]


def report(
    logs: Logs,
    target: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file that is written.")
    ] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Write a report on one or more runs: pictures, tables and data in one HTML file.

    With --json the data is printed, and no file is written.
    """
    import asyncio

    if as_json:
        output.print_json(asyncio.run(document_of(logs)))
        return
    from shunter.ask.report import page_of

    for log in logs:
        check_target(target, log)
    page = page_of(asyncio.run(document_of(logs)))
    write_text(target, page)
    output.note(f"wrote {target}, {len(page.encode()) / 1e6:.1f} MB; open it in a browser")


async def document_of(logs: Sequence[str]) -> dict[str, Any]:
    """Return the document of a report on some logs."""
    from shunter.ask.report import report_document, run_document

    runs = []
    for log in logs:
        async with reading(log) as reader:
            with output.progress(f"reading {reader.url}") as advance:
                runs.append(await run_document(reader, len(logs), advance))
    return report_document(runs)
