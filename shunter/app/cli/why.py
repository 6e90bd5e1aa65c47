"""`shunter why`: why a job waits, runs, was preempted or ended, now or at a past moment."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.app.cli import output
from shunter.app.cli.live.connecting import Url, connect
from shunter.app.cli.options import Json

if TYPE_CHECKING:
    from shunter.app.replaying.why.explanation import Explanation

BAR = 24
SERVERS_NAMED = 4
FIRST_ROWS, LAST_ROWS = 4, 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(why)


def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG", help="A log: its path or address. Left out: the running daemon."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ|TIME", help="An event (e20871), T+03:12:40, 11560s, or a date with offset."
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Explain where a job is and why: reason, evidence, and decision."""
    found = _by_daemon(job, at, url) if log is None else _by_log(job, log, at)
    if as_json:
        output.print_json(found)
    else:
        _print(found)


def _by_daemon(job: str, at: str | None, url: str | None) -> dict[str, Any]:
    with connect(url) as client:
        return client.why(job, at)


def _by_log(job: str, log: str, at: str | None) -> dict[str, Any]:
    import asyncio

    from shunter.app.replaying.why.document import document

    return document(asyncio.run(_explain(job, log, at)))


async def _explain(job: str, address: str, at: str | None) -> "Explanation":
    from shunter.app.replaying.lookup import first_start, place_of
    from shunter.app.replaying.terms import origin_of
    from shunter.app.replaying.why.explanation import explain
    from shunter.app.runs.setup import rebuild
    from shunter.events.log import read_log
    from shunter.events.values.ids import JobId

    async with read_log(address) as reader:
        origin = origin_of(await first_start(reader))
        seq, at_us = await place_of(reader, at, origin)
        return await explain(reader, JobId(job), seq, at_us, rebuild)


def _print(document: dict[str, Any]) -> None:
    output.print_line(f"{document['headline']}   (at {document['at']['time']})")
    for line in document["details"]:
        output.print_line(f"  {line}")
    _print_rows(_rows(document))
    if document["reasons_over_time"] and document["totals"]["wait_s"]:
        output.print_line("reasons over time")
        for part in document["reasons_over_time"]:
            output.print_line(f"  {_bar(part)}")
    _print_life(document)


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    from shunter.app.cli.units import duration

    rows: list[tuple[str, str]] = []
    reason, evidence, decision = document["reason"], document["evidence"], document["decision"]
    if reason is not None:
        rows.append(("since", f"{reason['since']}, for {duration(reason['for_s'])}"))
    if evidence is not None:
        rows.extend(("blocker", _blocker(blocker)) for blocker in evidence["blockers"])
    if decision is not None:
        rule = f", rule {decision['rule']}" if "rule" in decision else ""
        number = f"round {decision['round']} " if "round" in decision else ""
        rows.append(
            (
                "decision",
                (
                    f"e{decision['seq']}, {number}at {decision['time']}, "
                    f"policy {document['policy']}{rule}"
                ),
            )
        )
    rows += [("starts if", line) for line in document["would_start_if"]]
    again = document["planned_again"]
    if again["checked"]:
        says = "the same reason" if again["agrees"] else f"{again['reason']}: it differs!"
        rows.append(("checked", f"planned again after e{again['after_seq']}: {says}"))
    elif again["problem"]:
        rows.append(("not checked", again["problem"]))
    return rows


def _blocker(blocker: dict[str, Any]) -> str:
    from shunter.app.replaying.instants import clock
    from shunter.app.replaying.wording import gpus_in_words

    if blocker.get("where", "nothing") == "nothing":
        return f"{blocker['id']}: {blocker['phase']}"
    since = blocker.get("since") or clock(blocker["since_us"])
    gpus = gpus_in_words(blocker["gpus"])
    return f"{blocker['id']}: {blocker['phase']} on {gpus}, {_where(blocker)}, since {since}"


def _where(part: dict[str, Any]) -> str:
    """Return where something runs, with as many servers as a line can bear."""
    names: list[str] = part["where"].split(" ")
    hidden = len(names) - SERVERS_NAMED
    return " ".join(names[:SERVERS_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")


def _print_rows(rows: list[tuple[str, str]]) -> None:
    for name, text in rows:
        output.print_line(f"  {name:<11} {text}")


def _bar(part: dict[str, Any]) -> str:
    from shunter.app.cli.units import duration, percent

    filled = "#" * max(1, round(BAR * (part["share"] or 0)))
    return f"{part['reason']:<24} {filled:<{BAR}} {percent(part['share'])}  {duration(part['s'])}"


def _print_life(document: dict[str, Any]) -> None:
    """Print the waits and runs, if there is more than one."""
    from shunter.app.replaying.instants import clock, span

    parts = document["timeline"]
    if len(parts) < 2:
        return
    rows: list[list[str]] = []
    hidden = max(0, len(parts) - FIRST_ROWS - LAST_ROWS)
    for part in [*parts[:FIRST_ROWS], *parts[FIRST_ROWS + hidden :]]:
        to_us = document["at"]["us"] if part["to_us"] is None else part["to_us"]
        if part["what"] == "run":
            where = f"attempt {part['attempt']} on {_where(part)}"
            text = f"{where}: {part['ended_by']}" if part["ended_by"] else where
        else:
            text = ", ".join(dict.fromkeys(each["reason"] for each in part["reasons"]))
        if hidden and len(rows) == FIRST_ROWS:
            rows.append(["…", "", "", f"{hidden} more"])
        began = part.get("from") or clock(part["from_us"])
        rows.append([began, part["what"], span(to_us - part["from_us"]), text])
    output.print_table(["from", "", output.Column("for", is_number=True), ""], rows)
