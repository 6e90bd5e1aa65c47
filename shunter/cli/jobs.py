"""`shunter queue`, `show`, `history`: what waits and runs and why, one job, jobs that have ended.

Each is one request, whatever the length.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.answers import (
    NOT_LAUNCHED,
    TURNS,
    JobArgument,
    Url,
    age,
    beside,
    check_source,
    clause,
    connect,
    ended_by,
    forecast_of_log,
    insert_columns,
    local_time,
    one_line,
    print_forecast,
    print_rows,
    printable,
    rows_shown,
    turn_cells,
)
from shunter.cli.options import Json
from shunter.cli.units import duration
from shunter.counting import counted
from shunter.errors import ShunterError, UsageError

if TYPE_CHECKING:
    from shunter.client import Answer, Client


EVERY_S = 1.0
IDS_NAMED = 8
LAUNCH_WAIT = "launch_wait"
"""Stands for a reason where a launch waits for somebody else; `--explain` says for what."""
CLEAR = "\x1b[H\x1b[2J"
QUEUE_COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "USER", output.Column("GPUS", is_number=True)),
    *("STATE", "RUN/WAIT", "WHERE", "WHY"),
)
BESIDE_AT = QUEUE_COLUMNS.index("WHERE") + 1
"""Where columns are that not every list has: what CPUs and memory jobs have, if not what they
asked for, and the turns of those that take any."""


@dataclass(frozen=True)
class QueueOptions:
    """Which jobs, and what is told of them."""

    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Print it again every second, until Ctrl-C.")
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why jobs wait, those alike in one sentence.")
    ] = False
    all_users: Annotated[
        bool, typer.Option("-a", "--all-users", help="Everybody's jobs, not only yours.")
    ] = False
    state: Annotated[
        str | None, typer.Option("--state", help="Only jobs in this state, as waiting or running.")
    ] = None
    name: Annotated[
        str | None, typer.Option("-q", "--queue", metavar="QUEUE", help="Only jobs of this queue.")
    ] = None
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only jobs of this multi-job.")
    ] = None
    eta: Annotated[
        bool,
        typer.Option(
            "--eta", help="When they start and end, predicted by simulations from now on."
        ),
    ] = False
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="LOG",
            help="With --eta: the jobs at the end of a log, instead of the daemon's.",
        ),
    ] = None
    as_json: Json = False
    url: Url = None


def queue(options: QueueOptions) -> None:
    """List the jobs that have not ended.

    On a terminal the first 200, and how many there are. With --eta, instead, when your jobs start
    and end: of 100 such jobs 50 by the P50 and 90 by the P90, if the past is a guide, and how many
    of past ones did.
    """
    if options.eta:
        print_forecast(_forecast(options), as_json=options.as_json)
        return
    if options.log is not None:
        raise UsageError("--log goes with --eta; `shunter why JOB --log LOG` tells of one job")
    limit = None if options.as_json else rows_shown()
    with connect(options.url) as client:
        while True:
            found = client.queue(
                user=None if options.all_users else "me",
                state=options.state,
                queue=options.name,
                group=options.group,
                limit=limit,
            )
            if options.watch and sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            if options.as_json:
                output.print_json_line(found) if options.watch else output.print_json(found)
            else:
                _print_queue(found, explain=options.explain)
            if not options.watch:
                return
            sys.stdout.flush()
            time.sleep(EVERY_S)


def _forecast(options: QueueOptions) -> "Answer":
    """Return when jobs start and end, or raise UsageError."""
    others = (options.watch, options.explain, options.state, options.name, options.group)
    if any(others):
        raise UsageError("--eta goes with --all-users, --log and --json only")
    check_source(options.log, options.url)
    if options.log is not None:
        return forecast_of_log(options.log)
    with connect(options.url) as client:
        return client.forecast(user=None if options.all_users else "me")


def _print_queue(found: "Answer", *, explain: bool) -> None:
    jobs = found["jobs"]
    now = datetime.fromisoformat(found["now"])
    columns, rows = list(QUEUE_COLUMNS), [list(_queue_row(job, now)) for job in jobs]
    if any(_is_sized(job) for job in jobs):
        has = [[beside(job["cpus_held"], job["memory_mb_held"])] for job in jobs]
        insert_columns(columns, rows, BESIDE_AT, ["WITH"], has)
    insert_columns(columns, rows, BESIDE_AT, TURNS, [turn_cells(job["turns"]) for job in jobs])
    print_rows(columns, rows)
    if explain:
        for line in explained(jobs):
            output.print_line(line)
    hidden = found["total"] - len(jobs)
    counts = ", ".join(f"{count:,} {state}" for state, count in found["states"].items())
    more = f"; {hidden:,} more are not shown" if hidden else ""
    output.note(f"{counted(found['total'], 'job')}{': ' + counts if counts else ''}{more}")
    if not found["total"]:
        output.note("`shunter history` lists jobs that have ended")
    if others := found.get("of_others"):
        output.note(f"these are yours only: `shunter queue -a` lists {others:,} of others as well")


def _is_sized(job: "Answer") -> bool:
    """Say whether a job has other CPUs or memory than it asked for."""
    has = job["cpus_held"], job["memory_mb_held"]
    return any(has) and has != (job["cpus"], job["memory_mb"])


def explained(jobs: "Sequence[Answer]") -> list[str]:
    """Return why jobs wait, in a line for all that wait for the same.

    What others wrote in it moves no cursor.
    """
    groups: dict[str, list[Answer]] = {}
    for job in jobs:
        said = job["launch_wait"] if job["reason"] is None else clause(job["reason"])
        if said:
            why = " ".join(printable(word) for word in said.split())
            groups.setdefault(why, []).append(job)
    return [f"{_ids_named(group)}: {_ranks(group)}{why}" for why, group in groups.items()]


def _ids_named(group: "Sequence[Answer]") -> str:
    """Return the ids of some jobs, the first few by name."""
    names = ", ".join(job["id"] for job in group[:IDS_NAMED])
    hidden = len(group) - IDS_NAMED
    return f"{names} and {hidden:,} more" if hidden > 0 else names


def _ranks(group: "Sequence[Answer]") -> str:
    """Return where some jobs stand, from the first to the last."""
    ranks = sorted(job["rank"] for job in group if job["rank"] is not None)
    if not ranks:
        return ""
    return f"rank {ranks[0]}; " if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}; "


def _queue_row(job: "Answer", now: datetime) -> tuple[str, ...]:
    reason = job["reason"]
    return (
        job["id"],
        job["name"],
        job["user"],
        str(job["gpus"]),
        job["state"],
        age(job["since_at"], now),
        job["where"],
        LAUNCH_WAIT * bool(job["launch_wait"]) if reason is None else reason["name"],
    )


ATTEMPTS = ("ATTEMPT", "WHERE", "STARTED", "ENDED", "HOW", "CODE", "STEP", "SUSPENDED IN")
ENDED = (
    *("JOB", "NAME", "USER", output.Column("GPUS", is_number=True), "STATE", "CODE"),
    *("STARTED", "ENDED", output.Column("RAN", is_number=True)),
    *(output.Column("ATTEMPTS", is_number=True), "CAUSE"),
)

NAMED_MOST = 8
HISTORY_MOST = 1000
"""Variables that are shown by name; `--json` has them all."""


def show(job: JobArgument, as_json: Json = False, url: Url = None) -> None:
    """Show one job: what it asked for, where it is, and every attempt."""
    with connect(url) as client:
        found = client.job(job)
        last = "" if as_json else _last_line(client, found)
    if as_json:
        output.print_json(found)
        return
    output.print_pairs(_pairs(found, last))
    if found["attempts"]:
        output.print_line()
        print_rows(ATTEMPTS, [_attempt(one) for one in found["attempts"]])
    for one in found["attempts"]:
        if one["discarded_at"] is not None:
            output.print_line(_discarded(one))
    if failed := _failed_launch(found):
        output.print_line(failed)


def history(
    limit: Annotated[
        int,
        typer.Option("-n", "--limit", min=1, max=HISTORY_MOST, help="How many, the last first."),
    ] = 50,
    all_users: Annotated[
        bool, typer.Option("-a", "--all-users", help="Everybody's jobs, not only yours.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List jobs that have ended, the last one first."""
    with connect(url) as client:
        found = client.history(user=None if all_users else "me", limit=limit)
    if as_json:
        output.print_json(found)
        return
    print_rows(ENDED, [_ended(row) for row in found["jobs"]])
    total = counted(found["total"], "job")
    have = "has" if found["total"] == 1 else "have"
    more = "" if len(found["jobs"]) >= min(found["total"], HISTORY_MOST) else "; -n shows more"
    output.note(f"{len(found['jobs']):,} of {total} that {have} ended{more}")


def _last_line(client: "Client", found: "Answer") -> str:
    """Return what an ended job printed last, of its errors if it failed.

    Empty if it printed nothing, or that is not ours to read, not kept, or out of reach.
    """
    if not found["is_over"] or not found["attempts"]:
        return ""
    from shunter.cli.logs import END_BYTES, last_line

    order = ("stdout", "stderr") if found["state"] == "finished" else ("stderr", "stdout")
    for stream in order:
        try:
            end = b"".join(client.logs(found["id"], stream=stream, tail=END_BYTES))
        except ShunterError:
            return ""
        if line := last_line(end):
            return line
    return ""


def _pairs(found: "Answer", last: str = "") -> list[tuple[str, str]]:
    spec, row, now = found["spec"], found["row"], datetime.fromisoformat(found["now"])
    pairs = [
        ("job", found["id"]),
        ("name", spec.get("name", "")),
        ("user", spec.get("user", "")),
        ("queue", spec.get("queue", "default")),
        ("state", found["state"]),
    ]
    if row is not None:
        pairs.append(("since", f"{local_time(row['since_at'])}, {age(row['since_at'], now)}"))
        pairs.append(("where", row["where"]))
        pairs.append(("has there", beside(row["cpus_held"], row["memory_mb_held"])))
        pairs.append(("service", _service(row)))
        pairs.append(("turns", _turns(row["turns"])))
        if found["state"] == "stopped":
            pairs.append(("why", "stopped: `shunter resume` lets it go on"))
        if row["reason"] is not None:
            pairs.append(("why", clause(row["reason"])))
        pairs.append(("launch", row["launch_wait"]))
    else:
        cause = ": ".join(filter(None, (found["cause"], found.get("cause_detail"))))
        said = ended_by(cause, found["exit_code"], found.get("killed_by", ""))
        pairs.append(("ended", " ".join((local_time(found["ended_at"]), ", ".join(said)))))
        pairs.append(("service", _service(found)))
        pairs.append(("last line", last))
    pairs += [
        ("asks for", _demand(spec)),
        ("size now", _size_now(spec, row)),
        ("command", " ".join(spec.get("command", ()))),
        ("directory", spec.get("directory", "")),
        ("suspended", _suspended(spec)),
        ("retries", f"up to {spec['retries']}" if spec.get("retries") else ""),
        ("variables", _variables(found["environment"])),
        ("submitted", local_time(found["submitted_at"])),
        ("started", local_time(found["started_at"])),
    ]
    pairs += [("warning", _warning(one)) for one in found.get("warnings", ())]
    pairs += [("dropped", _dropped(one)) for one in found["attempts"] if one["messages_dropped"]]
    pairs += [
        ("set aside", f"attempt {one['attempt']}, by {one['set_aside_by'] or 'somebody'}")
        for one in found["attempts"]
        if one["set_aside_by"]
    ]
    sample = found["profile"]
    if sample is not None:
        pairs.append(("profile", _sample(sample, found["profile_at"], now)))
    # A command may be long, and is shown whole; what would move the cursor is not.
    return [(name, one_line(text.strip())) for name, text in pairs if text.strip()]


def _service(told: "Answer") -> str:
    """Return what a job has attained; nothing where none is told."""
    seconds = told.get("service_gpu_s")
    return "" if seconds is None else f"{seconds / 3600:.2f} GPU-hours"


def _turns(turns: "Answer | None") -> str:
    """Return whether a job has its turn, and its parts of the time."""
    if turns is None:
        return ""
    now = "has its turn" if turns["is_on"] else "waits for its turn"
    told = f"{now}; its fair share is {turns['fair_share']:.3f} of the time"
    if turns["used"] is None:
        return told
    return f"{told}, and it had {turns['used']:.3f} of {duration(turns['held_s'])}"


def _warning(one: "Answer") -> str:
    """Return a warning with where it was said."""
    step = "" if one["step"] is None else f", step {one['step']}"
    return f"{one['text']} (attempt {one['attempt']}{step})"


def _dropped(one: "Answer") -> str:
    """Return how many messages of an attempt were not taken, and why not."""
    count, number = one["messages_dropped"], one["attempt"]
    return f"{count:,} messages of attempt {number}, the last because {one['dropped_because']}"


def _demand(spec: "Answer") -> str:
    parts = [counted(spec.get("gpus", 1), "GPU") + _sizes(spec)]
    if spec.get("gpu_types"):
        parts.append(f"of type {' or '.join(spec['gpu_types'])}")
    if asked := beside(spec.get("cpus_milli", 0) / 1000, spec.get("memory_mb", 0)):
        parts.append(asked)
    if spec.get("max_level"):
        parts.append(f"within one {spec['max_level']}")
    if spec.get("shapes"):
        parts.append("as " + " or ".join("+".join(map(str, one)) for one in spec["shapes"]))
    parts += _contract(spec)
    if spec.get("split_may_change"):
        parts.append("in any split later")
    if spec.get("time_limit_us"):
        parts.append(f"for {duration(spec['time_limit_us'] / 1e6)} at most")
    return ", ".join(parts)


def _contract(spec: "Answer") -> list[str]:
    """Return how a job bears distance, neighbours and moves."""
    points = [f"{level} {speed:g}" for level, speed in spec.get("tolerance", ())]
    points += [
        f"{'+'.join(map(str, shape))} {speed:g}" for shape, speed in spec.get("shape_tolerance", ())
    ]
    parts = [f"speed {', '.join(points)}"] if points else []
    if spec.get("min_speed") is not None:
        parts.append(f"{spec['min_speed']:g} at least")
    if spec.get("interference") is not None:
        parts.append(f"losing {spec['interference']:g} beside a neighbour")
    if not spec.get("migratable", True):
        parts.append("not to be moved")
    return parts


def _sizes(spec: "Answer") -> str:
    """Return which sizes its gang may have, where it is elastic."""
    bounds = (("at least", spec.get("gpus_min")), ("at most", spec.get("gpus_max")))
    told = [f"{word} {count}" for word, count in bounds if count is not None]
    return f" ({' and '.join(told)})" if told else ""


def _size_now(spec: "Answer", row: "Answer | None") -> str:
    """Return how many GPUs a job wants now, if it was resized."""
    is_resized = row is not None and row["gpus"] != spec.get("gpus", 1)
    return counted(row["gpus"], "GPU") if is_resized and row is not None else ""


def _suspended(spec: "Answer") -> str:
    """Return by which mode it is suspended, unless that is the usual one."""
    mode: str = spec.get("suspend_mode", "cooperative")
    return "" if mode == "cooperative" else f"by mode {mode}"


def _variables(environment: dict[str, str]) -> str:
    """Return the names of the first variables, and how many more there are."""
    names = sorted(environment)
    more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
    return ", ".join(names[:NAMED_MOST]) + more


def _sample(sample: "Answer", at: str, now: datetime) -> str:
    """Return what was measured last, of which attempt and when: it may be long ago."""
    parts = []
    if sample.get("step") is not None:
        parts.append(f"step {sample['step']:,}")
    if sample.get("batch_s") is not None:
        parts.append(f"{sample['batch_s']:.3g} s a mini-batch")
    if sample.get("gpu_utilisation") is not None:
        parts.append(f"GPU {sample['gpu_utilisation']:.0%}")
    if sample.get("cpus") is not None:
        parts.append(f"{sample['cpus']:.1f} CPUs")
    if sample.get("memory_mb") is not None:
        parts.append(f"{sample['memory_mb']:,} MB")
    when = f"(attempt {sample['attempt']}, at {local_time(at)}, {age(at, now)} ago)"
    return f"{', '.join(parts)} {when}"


def _attempt(one: "Answer") -> tuple[str, ...]:
    modes = "".join(f", by {mode}" for mode in one["escalated_to"])
    leaves = one["suspend_asked_at"] is not None and one["ended_at"] is None
    most = "" if one["saved_at"] else "at most "  # it may have saved without telling
    lost = f", {most}{one['lost_s']:.3g} s of work lost" if one["lost_s"] else ""
    return (
        str(one["attempt"]),
        one["where"],
        local_time(one["started_at"]),
        local_time(one["ended_at"]),
        ("asked to leave" if leaves else one["ended_by"]) + modes + lost + _killed(one),
        "" if one["exit_code"] is None else str(one["exit_code"]),
        "" if one["step"] is None else str(one["step"]),
        "" if one["suspend_s"] is None else f"{one['suspend_s']:.2f} s",
    )


def _killed(one: "Answer") -> str:
    """Say by what an attempt was killed, and whether it used more memory than it had."""
    by = f", killed by {one['killed_by']}" if one.get("killed_by") else ""
    return f"{by}, {one['memory_kills']} killed for want of memory" if one["memory_kills"] else by


def _discarded(one: "Answer") -> str:
    step = "" if one["step"] is None else f", up to step {one['step']},"
    return (
        f"what attempt {one['attempt']} had saved{step} was discarded at "
        f"{local_time(one['discarded_at'])}: {one['discarded_because']}"
    )


def _failed_launch(found: "Answer") -> str:
    """Return in full why the last attempt was not launched, and when the next try is.

    Empty if one has started since. A new one may be on its way, and have neither start nor end.
    """
    seen = [one for one in found["attempts"] if one["started_at"] or one["ended_at"]]
    if not seen or not seen[-1]["ended_by"].startswith(NOT_LAUNCHED):
        return ""
    one = seen[-1]
    said = (
        f"attempt {one['attempt']} was not launched: {one['ended_by'].removeprefix(NOT_LAUNCHED)}"
    )
    if found["next_try_at"] is not None:
        said += f"; the next try is at {local_time(found['next_try_at'])} or later"
    return one_line(said)


def _ended(row: "Answer") -> tuple[str, ...]:
    return (
        row["id"],
        printable(row["name"]),
        row["user"],
        str(row["gpus"]),
        row["state"],
        "" if row["exit_code"] is None else str(row["exit_code"]),
        local_time(row["started_at"]),
        local_time(row["ended_at"]),
        duration(row["run_s"]),
        str(row["attempts"]),
        f"killed by {row['killed_by']}" if row.get("killed_by") else row["cause"],
    )
