"""`shunter replay`: fold a log, up to what is looked for; or decide it once more."""

import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import Json, LogAddress, reading
from shunter.cli.units import duration, number
from shunter.counting import counted, jobs_waiting
from shunter.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from shunter.ask import Verdict
    from shunter.core import State
    from shunter.events import Event
    from shunter.events.log import LogReader


_OLDER = "of an older Shunter, whose time limits, back-off, turns and ends were taken as recorded"


def replay(
    log: LogAddress,
    to: Annotated[
        str | None, typer.Option(metavar="SEQ|TIME", help="Stop after that event or instant.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--from", metavar="SEQ|TIME", help="With --speed or --break-on: begin there."),
    ] = None,
    speed: Annotated[
        str | None,
        typer.Option(metavar="100x", help="Tell each event as it comes, so many times faster."),
    ] = None,
    break_on: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR", help="Stop at the first such event: 'preempt job=j42', 'waiting>100'."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decide again, and compare every decision.")
    ] = False,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="With --verify: solve for shares and sizes again too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what is true at a log's end; --verify exits with 6 if decisions differ."""
    import asyncio

    if resolve and not verify:
        raise UsageError("--resolve goes with --verify")
    if verify and (after or speed or break_on):
        raise UsageError("--verify goes through a whole log: leave --from, --speed, --break-on out")
    if after and not (speed or break_on):
        raise UsageError("--from goes with --speed or --break-on")
    if speed and as_json:
        raise UsageError(
            "--speed tells events in words, line by line: leave --json out (`shunter log export` "
            "prints them as JSON)"
        )
    asked = _Replay(to, after, speed, break_on, verify, resolve)
    document, verdict = asyncio.run(_replay(log, asked))
    if as_json:
        output.print_json(document)
    else:
        _print(document)
    if verdict is not None and verdict.divergence is not None:
        raise verdict.divergence.error()


@dataclass(frozen=True)
class _Replay:
    """What is asked of a replay, as it was written."""

    to: str | None
    after: str | None
    speed: str | None
    break_on: str | None
    verify: bool
    resolve: bool

    @property
    def doing(self) -> str:
        """What is done, for who watches it."""
        return "deciding again" if self.verify else "replaying"


async def _replay(address: str, asked: _Replay) -> tuple[dict[str, Any], "Verdict | None"]:
    from shunter.ask import classes_at, fold_log, state_document, verify_log
    from shunter.run import rebuild

    async with reading(address) as reader:
        head = await reader.head()
        to = await _place(reader, asked.to)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        verdict, stopped = None, None
        snapshots: int | None = None
        shown = nullcontext() if asked.speed else output.progress(asked.doing)
        with shown as advance:
            if asked.verify:
                verdict = await verify_log(
                    reader, rebuild, to, resolve=asked.resolve, advance=advance
                )
                state, snapshots = verdict.state, verdict.snapshots
            elif asked.speed is not None or asked.break_on is not None:
                state, stopped = await _play(reader, asked, head.seq if to is None else to)
            else:
                folded = await fold_log(reader, to, advance)
                state, snapshots = folded.state, folded.snapshots
        elapsed = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
        log = {"url": reader.url, "events": head.seq, "digest": head.chain.hex()}
        rebuilt = await classes_at(reader, state, rebuild)
    document = {**state_document(state, rebuilt), "log": log, "snapshots_checked": snapshots}
    document["verification"] = (
        None if verdict is None else _verification(verdict, resolve=asked.resolve)
    )
    document["stopped"] = stopped
    document["elapsed"] = {**elapsed, "events_per_s": _rate(state, elapsed["cpu_s"])}
    return document, verdict


async def _place(reader: "LogReader", text: str | None) -> int | None:
    """Return the event that a person means; None: he named none."""
    from shunter.ask import first_start, origin_of, place_of

    if text is None:
        return None
    seq, _ = await place_of(reader, text, origin_of(await first_start(reader)))
    return seq


async def _play(
    reader: "LogReader", asked: _Replay, to: int
) -> tuple[Any, dict[str, object] | None]:
    """Return the state where the replay ends, and why; NotFoundError: not found."""
    from shunter.ask import clock, event_in_words, measures_in, parse, play, speed_of
    from shunter.events import to_object
    from shunter.run import rebuild

    measures = await measures_in(reader, to, rebuild)
    expression = None if asked.break_on is None else parse(asked.break_on)
    speed = None if asked.speed is None else speed_of(asked.speed)

    def show(seq: int, event: "Event", state: "State") -> None:
        output.print_line(f"{clock(event.at_us)}  e{seq}  {event_in_words(event, state, measures)}")
        sys.stdout.flush()

    after = await _place(reader, asked.after) or 0
    played = await play(
        reader,
        after,
        to,
        expression=expression,
        speed=speed,
        show=show if speed is not None else None,
    )
    if expression is None:
        return played.state, None
    found, state = played.found, played.state
    if found is None:
        raise NotFoundError(
            f"nothing between e{after + 1} and e{to} is {asked.break_on!r}; look elsewhere with "
            "--from and --to"
        )
    return state, {
        "seq": state.seq,
        "at_us": found.at_us,
        "time": clock(found.at_us),
        "on": expression.text,
        "event": to_object(found),
        "words": event_in_words(found, state, measures),
    }


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
    jobs, cluster, queue = document["jobs"], document["cluster"], document["queue"]
    log, verified = document["log"], document["verification"]
    checked = document["snapshots_checked"]
    rows = [
        ("log", f"{log['url']}  {number(log['events'])} events, digest {log['digest'][:12]}"),
        ("at", f"e{document['seq']}  {document['time']}"),
        ("term", f"{document['term']}, policy {document['policy'] or 'none'}"),
        ("jobs", ", ".join(f"{number(count)} {name}" for name, count in jobs.items() if count)),
        ("queue", f"{jobs_waiting(queue['jobs'])} for {counted(queue['gpus'], 'GPU')}"),
        ("cluster", _cluster(cluster)),
        ("rounds", f"{number(document['rounds']['planned'])} planned"),
        *([] if checked is None else [("snapshots", f"{checked} agree")]),
        ("state", document["state_digest"]),
    ]
    if queue["jobs"]:
        reasons = (f"{number(count)} {name}" for name, count in queue["reasons"].items())
        longest = duration(queue["longest_wait_s"])
        rows.insert(5, ("", f"{', '.join(reasons)}; the longest for {longest}"))
    stopped = document["stopped"]
    if stopped is not None:
        rows.insert(1, ("stopped", f"{stopped['words']} (e{stopped['seq']})"))
    if verified is not None:
        rows.append(("decisions", _verified(verified)))
    output.print_pairs(rows)


def _cluster(cluster: dict[str, int]) -> str:
    up = cluster["gpus_up"]
    gpus = f"{up} GPUs and units" if cluster.get("units") else counted(up, "GPU")
    return (
        f"{cluster['gpus_held']} of {gpus} held, {cluster['gpus_free']} free, "
        f"on {cluster['nodes_up']} of {counted(cluster['nodes'], 'server')}"
    )


def _verified(verified: dict[str, Any]) -> str:
    found = verified["divergence"]
    if found is None:
        lenient = verified["lenient_terms"]
        older = f"; {number(lenient)} terms {_OLDER}" if lenient else ""
        return f"{number(verified['decisions'])} decided again, all identical{older}"
    return f"DIVERGED at decision {number(found['decision'])}, e{found['seq']}"
