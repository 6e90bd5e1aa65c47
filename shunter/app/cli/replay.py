"""`shunter replay`: fold a log, and with `--verify` decide it once more."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.app.cli import output
from shunter.app.cli.options import Json, reading
from shunter.app.counting import counted, jobs_waiting
from shunter.errors import UsageError

if TYPE_CHECKING:
    from shunter.app.replaying.verification import Verdict
    from shunter.core.state import State

LogAddress = Annotated[str, typer.Argument(metavar="LOG", help="A log: its path or address.")]


_OLDER = "of an older Shunter, whose time limits, back-off, turns and ends were taken as recorded"


def replay(
    log: LogAddress,
    to: Annotated[
        str | None, typer.Option(metavar="SEQ", help="Stop after the event of that number.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decide again, and compare every decision.")
    ] = False,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="With --verify: solve for shares and sizes again too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read a log back and say what is true at its end; 6 if decisions differ."""
    import asyncio

    if resolve and not verify:
        raise UsageError("--resolve goes with --verify")
    document, verdict = asyncio.run(_replay(log, to, verify=verify, resolve=resolve))
    if as_json:
        output.print_json(document)
    else:
        _print(document)
    if verdict is not None and verdict.divergence is not None:
        raise verdict.divergence.error()


async def _replay(
    address: str, upto: str | None, *, verify: bool, resolve: bool
) -> tuple[dict[str, Any], "Verdict | None"]:
    from shunter.app.replaying.consolidated_gangs import classes_at
    from shunter.app.replaying.folding import fold_log
    from shunter.app.replaying.lookup import seq_of
    from shunter.app.replaying.state_document import standing
    from shunter.app.replaying.verification import verify_log
    from shunter.app.runs.setup import rebuild

    async with reading(address) as reader:
        head = await reader.head()
        to = None if upto is None else seq_of(upto, head.seq)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        verdict = None
        with output.progress("deciding again" if verify else "replaying") as advance:
            if verify:
                verdict = await verify_log(reader, rebuild, to, resolve=resolve, advance=advance)
                state, snapshots = verdict.state, verdict.snapshots
            else:
                folded = await fold_log(reader, to, advance)
                state, snapshots = folded.state, folded.snapshots
        elapsed = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
        log = {"url": reader.url, "events": head.seq, "digest": head.chain.hex()}
        rebuilt = await classes_at(reader, state, rebuild)
    document = {**standing(state, rebuilt), "log": log, "snapshots_checked": snapshots}
    document["verification"] = None if verdict is None else _verification(verdict, resolve=resolve)
    document["elapsed"] = {**elapsed, "events_per_s": _rate(state, elapsed["cpu_s"])}
    return document, verdict


def _verification(verdict: "Verdict", *, resolve: bool) -> dict[str, object]:
    found = verdict.divergence
    return {
        "identical": found is None,
        "decisions": verdict.decisions,
        "terms": verdict.terms,
        "lenient_terms": verdict.lenient,
        "resolved": resolve,
        "divergence": None if found is None else found.document(),
    }


def _rate(state: "State", seconds: float) -> int:
    return round(state.seq / seconds) if seconds > 0 else 0


def _print(document: dict[str, Any]) -> None:
    from shunter.app.cli.units import duration, number

    jobs, cluster, queue = document["jobs"], document["cluster"], document["queue"]
    log, verified = document["log"], document["verification"]
    rows = [
        ("log", f"{log['url']}  {number(log['events'])} events, digest {log['digest'][:12]}"),
        ("at", f"e{document['seq']}  {document['time']}"),
        ("term", f"{document['term']}, policy {document['policy'] or 'none'}"),
        ("jobs", ", ".join(f"{number(count)} {name}" for name, count in jobs.items() if count)),
        ("queue", f"{jobs_waiting(queue['jobs'])} for {counted(queue['gpus'], 'GPU')}"),
        ("cluster", _cluster(cluster)),
        ("rounds", f"{number(document['rounds']['planned'])} planned"),
        ("snapshots", f"{document['snapshots_checked']} agree"),
        ("state", document["state_digest"]),
    ]
    if queue["jobs"]:
        reasons = (f"{number(count)} {name}" for name, count in queue["reasons"].items())
        longest = duration(queue["longest_wait_s"])
        rows.insert(5, ("", f"{', '.join(reasons)}; the longest for {longest}"))
    if verified is not None:
        rows.append(("decisions", _verified(verified)))
    output.print_pairs(rows)


def _cluster(cluster: dict[str, int]) -> str:
    gpus = "GPUs and units" if cluster.get("units") else "GPUs"
    return (
        f"{cluster['gpus_held']} of {cluster['gpus_up']} {gpus} held, {cluster['gpus_free']} free, "
        f"on {cluster['nodes_up']} of {cluster['nodes']} servers"
    )


def _verified(verified: dict[str, Any]) -> str:
    from shunter.app.cli.units import number

    found = verified["divergence"]
    if found is None:
        lenient = verified["lenient_terms"]
        older = f"; {number(lenient)} terms {_OLDER}" if lenient else ""
        return f"{number(verified['decisions'])} decided again, all identical{older}"
    return f"DIVERGED at decision {number(found['decision'])}, e{found['seq']}"
