"""`shunter why`: why a job waits, runs, was preempted or ended; `shunter what-if`: and otherwise?

The first is asked about now or a past moment, the second simulates a log on from there.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.answers import Url, check_source, connect, job_ids, one_line
from shunter.cli.options import Json, reading
from shunter.cli.units import duration, durations_apart, number, percent
from shunter.counting import counted
from shunter.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from shunter.ask.forks import Numbers
    from shunter.ask.why import Explanation
    from shunter.client import Answer
    from shunter.core import AnyPolicy
    from shunter.core.planning import RoundRules
    from shunter.events import SchedulerStarted
    from shunter.events.log import LogReader


BAR = 24
SERVERS_NAMED = 4
CORRECTIONS_NAMED = 3
TRIALS_NAMED = 4
FIRST_ROWS, LAST_ROWS = 4, 10


@dataclass(frozen=True)
class WhyOptions:
    """What was said on the command line."""

    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", autocompletion=job_ids)]
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG", help="A log: its path or address. Left out: the running daemon."
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(metavar="SEQ|TIME", help="An event (e20871), T+03:12:40, 90m, or a date."),
    ] = None
    long: Annotated[
        bool,
        typer.Option(
            "--long", help="Of a wait, print all: the evidence, the decision and the whole life."
        ),
    ] = False
    history: Annotated[
        bool,
        typer.Option("--history", help="Print every wait with its reasons, and every attempt."),
    ] = False
    counterfactuals: Annotated[
        bool,
        typer.Option(
            "--counterfactuals",
            help="Find what would make a waiting job start, each change tried in a simulation. "
            "Of the daemon: for jobs of one's own.",
        ),
    ] = False
    inevitable: Annotated[
        bool,
        typer.Option(
            "--inevitable",
            help="With --log: find the last decision at which placing the job first would have "
            "avoided its long wait, its preemption or its missed deadline, by simulations.",
        ),
    ] = False
    avoid: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="With --inevitable: wait, preemption or deadline. Left out: a missed deadline, "
            "else a long wait, else the last preemption.",
        ),
    ] = None
    within: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --inevitable: up to how long a wait is normal, such as 30m. Left out: as "
            "long as nine in ten jobs of its size waited.",
        ),
    ] = None
    as_json: Json = False
    url: Url = None

    def check(self) -> None:
        """Raise UsageError for what does not go together."""
        check_source(self.log, self.url)
        if self.log is None and self.inevitable:
            raise UsageError("--inevitable goes with --log: it takes too long for a daemon")
        if (self.avoid is not None or self.within is not None) and not self.inevitable:
            raise UsageError("--avoid and --within go with --inevitable")
        if self.inevitable and (self.counterfactuals or self.history):
            raise UsageError("--inevitable stands alone: leave --counterfactuals and --history out")


def why(options: WhyOptions) -> None:
    """Explain where a job is and why: reason, evidence, and decision."""
    import asyncio

    options.check()
    if options.log is None:
        found = _by_daemon(options)
    else:
        found, origin = asyncio.run(_explained(options.log, options))
        if origin is not None and not options.as_json:
            found = _with_dates(found, origin)
    if options.as_json:
        output.print_json(found)
    elif options.inevitable:
        _print_inevitable(found)
    elif options.history:
        output.print_line(f"{found['headline']}   (at {found['at']['time']})")
        _print_history(found)
    elif found["short"] is not None and not options.long:
        _print_short(found)
    else:
        _print(found)


def _by_daemon(options: WhyOptions) -> "Answer":
    """Ask the daemon.

    Raises:
        UnreachableError: none answers; the message names --log, which may have been forgotten.
    """
    try:
        return _answered(options)
    except UnreachableError as error:
        raise UnreachableError(f"{error}; --log LOG asks a log, without a daemon") from error


def _answered(options: WhyOptions) -> "Answer":
    with connect(options.url) as client:
        found = client.why(options.job, options.at)
        if options.counterfactuals:
            told = client.counterfactuals(options.job, options.at)
            found["counterfactuals"] = told["counterfactuals"]
        return found


def _with_dates(found: "Answer", origin: str) -> "Answer":
    """Return an answer of a live log with dates, as its daemon writes them."""
    from datetime import datetime, timedelta

    from shunter.api import dated_why

    began = datetime.fromisoformat(origin)

    def dated(at_us: int) -> str:
        return (began + timedelta(microseconds=at_us)).isoformat(timespec="milliseconds")

    return dated_why(found, dated)


async def _explained(address: str, options: WhyOptions) -> "tuple[Answer, str | None]":
    """Return why a job of a log is where it is; and the date it began, of a live one."""
    from shunter.ask import first_start, origin_of, place_of
    from shunter.ask.why import document, explain
    from shunter.events import JobId

    async with reading(address) as reader:
        started = await first_start(reader)
        origin = origin_of(started)
        seq, at_us = await place_of(reader, options.at, origin)
        is_brief = not (options.as_json or options.history)
        found = await explain(reader, JobId(options.job), seq, at_us, _rebuild, is_brief=is_brief)
        told = document(found)
        if options.counterfactuals:
            from shunter.ask.forks import starts_if
            from shunter.run import rebuild

            told["counterfactuals"] = await starts_if(reader, found, rebuild)
        if options.inevitable:
            told["inevitable"] = await _inevitable(reader, found, options)
        return told, origin if started is not None and not started.simulated else None


def _rebuild(started: "SchedulerStarted") -> "tuple[AnyPolicy, RoundRules]":
    """Return the policy of a log and its rules."""
    from shunter.run import rebuild  # not before it is known that there is such a job

    return rebuild(started)


async def _inevitable(reader: "LogReader", found: "Explanation", options: WhyOptions) -> "Answer":
    from shunter.ask.forks import Harm, inevitable
    from shunter.policies import duration_us
    from shunter.run import rebuild

    avoid, within = options.avoid, options.within
    if avoid is not None and avoid not in tuple(Harm):
        raise UsageError(f"--avoid {avoid}: expected {', '.join(Harm)}")
    try:
        within_us = None if within is None else duration_us(within)
    except ValueError as error:
        raise UsageError(f"--within {within}: {error}") from error
    kind = None if avoid is None else Harm(avoid)
    with output.progress("simulations done") as report:
        return await inevitable(reader, found, rebuild, kind, within_us, report)


def _print_inevitable(document: "Answer") -> None:
    output.print_line(f"{document['headline']}   (at {document['at']['time']})")
    answer = document["inevitable"]
    _print_rows([(name, text) for name, text in answer["words"]])
    for sentence in answer["assumptions"]:
        output.print_line(f"assumed: {sentence}")


def _print_short(document: "Answer") -> None:
    """Print why a job waits in three lines, and what was tried if that was asked for."""
    short = document["short"]
    output.print_line(f"{short['answer']}   (at {document['at']['time']})")
    rows = [("waits for", short["waits_for"]), ("to do", short["to_do"])]
    if "warned" in document:
        rows.append(("warned", one_line(document["warned"]["words"])))
    _print_rows(rows)
    if "counterfactuals" in document:
        starts = [("starts if", line) for line in document["would_start_if"]]
        _print_rows([*starts, *_counterfactual_rows(document)])


def _print(document: "Answer") -> None:
    output.print_line(f"{document['headline']}   (at {document['at']['time']})")
    for line in document["details"]:
        output.print_line(f"  {line}")
    at = document["at"]
    if at["asked_seq"] != at["seq"]:
        asked, seq = at["asked_seq"], at["seq"]
        output.print_line(f"  e{asked} lies within a decision: this is as of its end, e{seq}")
    _print_rows(_rows(document))
    if document["reasons_over_time"] and document["totals"]["wait_s"]:
        output.print_line("reasons over time")
        for part in document["reasons_over_time"]:
            output.print_line(f"  {_bar(part)}")
    _print_life(document)


def _rows(document: "Answer") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    reason, evidence, decision = document["reason"], document["evidence"], document["decision"]
    if reason is not None:
        rows.append(("since", f"{reason['since']}, for {duration(reason['for_s'])}"))
    if evidence is not None:
        rows.extend(("blocker", _blocker(blocker)) for blocker in evidence["blockers"])
    if document.get("launch_wait"):
        rows.append(("launch", document["launch_wait"]))
    silent = document.get("silent_servers", ())
    for each in silent[:SERVERS_NAMED]:
        label = "no answer" if each.get("is_held", True) else "not held"
        rows.append((label, f"{each['node']}: {each['cause']}"))
    if len(silent) > SERVERS_NAMED:
        rows.append(("", f"and {len(silent) - SERVERS_NAMED} more: `shunter nodes`"))
    if document.get("shares"):
        rows.append(("shares", document["shares"]["words"]))
    rows += [
        ("table", each["words"]) for each in document.get("corrections", ())[-CORRECTIONS_NAMED:]
    ]
    rows += [
        (name, document[name]["words"])
        for name in ("contract", "priority", "size", "turns")
        if document.get(name)
    ]
    rows += [("trial", each["words"]) for each in document.get("trials", ())[-TRIALS_NAMED:]]
    if "warned" in document:
        rows.append(("warned", one_line(document["warned"]["words"])))
    if decision is not None:
        rule = f", rule {decision['rule']}" if "rule" in decision else ""
        text = f"e{decision['seq']}, at {decision['time']}, {decision.get('words', '')}"
        if "round" in decision:
            text = (
                f"e{decision['seq']}, round {decision['round']} at {decision['time']}, "
                f"policy {document['policy']}{rule}"
            )
        if decision["of"] == "class" and decision["is_older"]:
            # Nobody decided anything about this job then: its equals waited for that already.
            rows.append(("found by", text))
        else:
            rows.append(("decision", text))
    rows += [("at least", line) for line in document["needs_at_least"]]
    rows += [("starts if", line) for line in document["would_start_if"]]
    rows += _counterfactual_rows(document)
    if document["short"] is not None and document["became"] is None:
        rows.append(("to do", document["short"]["to_do"]))
    became = document["became"]
    if became is not None:
        rows += [("later", line) for line in became["words"]]
    again = document["planned_again"]
    if again["checked"]:
        says = "the same reason" if again["agrees"] else f"{again['reason']}: it differs!"
        rows.append(("checked", f"planned again after e{again['after_seq']}: {says}"))
    elif again["problem"]:
        rows.append(("not checked", again["problem"]))
    return rows


def _counterfactual_rows(document: "Answer") -> list[tuple[str, str]]:
    """Return what was tried, and what that takes for granted."""
    tried = document.get("counterfactuals") or {}
    assumed = [("assumed", sentence) for sentence in tried.get("assumptions", ())]
    return [*_tried_rows(document), *assumed]


def _tried_rows(document: "Answer") -> list[tuple[str, str]]:
    if "counterfactuals" not in document:
        return []
    tried = document["counterfactuals"]
    if tried is None:
        return [("starts if", "it does not wait, so nothing was tried")]
    if tried["starts"] is not None:
        is_told = bool(document["would_start_if"])
        return [] if is_told else [("starts if", f"nothing changes: at {tried['starts']}")]
    not_tried = [("not tried", words) for words in tried["not_tried"]]
    if tried["found"]:
        found = [("starts if", f"{each['words']}: at {each['starts']}") for each in tried["found"]]
        return [*found, *not_tried]
    if not tried["tried"]:
        return [("starts if", "its policy cannot be asked here, so nothing was tried")]
    none = ("starts if", f"none of {tried['tried']} changes that were tried starts it")
    return [none, *(("tried", words) for words in tried["tried_words"]), *not_tried]


def _blocker(blocker: "Answer") -> str:
    from shunter.ask import clock, gpus_in_words

    if blocker.get("where", "nothing") == "nothing":
        return f"{blocker['id']}: {blocker['phase']}"
    since = blocker.get("since") or clock(blocker["since_us"])
    gpus = gpus_in_words(blocker["gpus"])
    return f"{blocker['id']}: {blocker['phase']} on {gpus}, {_where(blocker)}, since {since}"


def _where(part: "Answer") -> str:
    """Return where something runs, with as many servers as a line can bear."""
    names: list[str] = part["where"].split(" ")
    hidden = len(names) - SERVERS_NAMED
    return " ".join(names[:SERVERS_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")


def _run(part: "Answer") -> str:
    """Return where an attempt ran, in turns also on others' GPUs, and its end."""
    where = f"attempt {part['attempt']} on {_where(part)}"
    if part["in_turns"]:
        where = f"attempt {part['attempt']} in turns, {_where(part)} its own"
    if part["room_made"]:
        where += f" ({part['room_made']} for it)"
    return f"{where}: {part['ended_by']}" if part["ended_by"] else where


def _print_rows(rows: list[tuple[str, str]]) -> None:
    for name, text in rows:
        output.print_line(f"  {name:<12} {text}")


def _bar(part: "Answer") -> str:
    filled = "#" * max(1, round(BAR * (part["share"] or 0)))
    return f"{part['reason']:<24} {filled:<{BAR}} {percent(part['share'])}  {duration(part['s'])}"


def _print_history(document: "Answer") -> None:
    """Print each reason of each wait, and each attempt, with their events."""
    from shunter.ask import clock, span

    rows: list[list[str]] = []
    steps: list[tuple[Answer, int, str, tuple[int | None, ...]]]
    for part in document["timeline"]:
        to_us = document["at"]["us"] if part["to_us"] is None else part["to_us"]
        if part["what"] != "wait":
            text = _run(part)
            steps = [(part, to_us, text, (part["decision_seq"], part["ended_seq"]))]
        else:
            steps = [
                (each, each["to_us"], each["reason"], (each["seq"],)) for each in part["reasons"]
            ]
        for step, until_us, text, seqs in steps:
            began = step.get("from") or clock(step["from_us"])
            events = " ".join(f"e{seq}" for seq in seqs if seq is not None)
            lasted = span(until_us - step["from_us"])
            rows.append([began, part["what"], lasted, text, events])
    output.print_table(["from", "", output.Column("for", is_number=True), "", "events"], rows)


def _print_life(document: "Answer") -> None:
    """Print the waits and runs, if there is more than one."""
    from shunter.ask import clock, span

    parts = document["timeline"]
    if len(parts) < 2:
        return
    rows: list[list[str]] = []
    hidden = max(0, len(parts) - FIRST_ROWS - LAST_ROWS)
    for part in [*parts[:FIRST_ROWS], *parts[FIRST_ROWS + hidden :]]:
        to_us = document["at"]["us"] if part["to_us"] is None else part["to_us"]
        if part["what"] != "wait":
            text = _run(part)
        else:
            text = ", ".join(dict.fromkeys(each["reason"] for each in part["reasons"]))
        if hidden and len(rows) == FIRST_ROWS:
            rows.append(["…", "", "", f"{hidden} more"])
        began = part.get("from") or clock(part["from_us"])
        rows.append([began, part["what"], span(to_us - part["from_us"]), text])
    output.print_table(["from", "", output.Column("for", is_number=True), ""], rows)


# `shunter what-if`.


@dataclass(frozen=True)
class WhatIfOptions:
    """What was said on the command line."""

    log: Annotated[str, typer.Argument(metavar="LOG", help="A log: its path or address.")]
    policy: Annotated[
        str | None, typer.Option(metavar="X", help="The policy that decides instead.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of policy, or of a policy's parameters (las.queues_gpu_s=…); with no value "
            "it is left out; may be repeated.",
        ),
    ] = None
    added: Annotated[
        list[str] | None,
        typer.Option(
            "--add-node",
            metavar="KEY=VALUE,…",
            help="Servers that join, by the keys of cluster.nodes: name=gpu[5-8],gpus=8,type=v100.",
        ),
    ] = None
    removed: Annotated[
        list[str] | None,
        typer.Option("--remove-node", metavar="NODES", help="Servers that take no more jobs."),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option("--without-user", metavar="USER", help="Leave out the jobs of a user."),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SEQ|TIME",
            help="The moment from which on: an event (e20871), T+03:12:40, 90m, or a date. "
            "Left out: the end of the log.",
        ),
    ] = None
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="How often to play it, with other chance.")
    ] = 1
    workers: Annotated[
        int, typer.Option("-j", "--workers", min=0, help="Processes; 0 is one a core.")
    ] = 0
    as_json: Json = False


def what_if(options: WhatIfOptions) -> None:
    """Simulate a log on from a moment with something changed, and compare.

    Without a change the same policy is simulated and held to what the log says.
    """
    from shunter.ask.forks import Wishes, what_if as asked

    said = (options.settings, options.added, options.removed, options.without)
    wishes = Wishes(options.policy, *(tuple(each or ()) for each in said))
    with output.progress("simulations done") as report:
        document = asked(
            options.log,
            options.start,
            wishes,
            seeds=options.seeds,
            workers=options.workers or os.cpu_count() or 1,
            report=report,
        )
    if options.as_json:
        output.print_json(document)
    else:
        _print_what_if(document)


def _print_what_if(document: dict[str, Any]) -> None:
    begins, jobs = document["from"], document["jobs"]
    output.print_line(
        f"simulated from e{begins['seq']}, {begins['time']}: {_what_changed(document)}"
    )
    before = "recorded" if document["compared_with"] == "log" else "same policy (sim)"
    titles = ["mean JCT", "p50 JCT", "p95 JCT", "mean wait", "last end", "preemptions"]
    rows = [
        [before, *_what_if_row(document["before"])],
        ["what if (sim)", *_what_if_row(document["what_if"])],
    ]
    if document["seeds"] > 1:
        for name in ("least", "most"):
            band = {key: value[name] for key, value in document["bands"].items()}
            rows.append([f"  {name} of {document['seeds']} seeds", *_what_if_row(band)])
    output.print_table(["", *(output.Column(title, is_number=True) for title in titles)], rows)
    left = f"; {number(jobs['left_out'])} did not finish in it" if jobs["left_out"] else ""
    output.print_line(
        f"jobs {number(jobs['compared'])}: {number(jobs['better'])} better, "
        f"{number(jobs['worse'])} worse, {number(jobs['same'])} the same{left}"
    )
    for title in ("winners", "losers"):
        for each in document[title]:
            output.print_line(f"  {title[:-1]}  {_what_if_job(each)}")
    accuracy = document["accuracy"]
    if accuracy is None:
        output.print_line("accuracy: not known, as the log ends there")
    elif accuracy["jobs"]:
        output.print_line(
            f"accuracy: the same policy, simulated, has a mean JCT "
            f"{percent(abs(accuracy['mean_jct_error']))} from what happened; "
            f"{number(accuracy['exact'])} of {counted(accuracy['jobs'], 'job')} "
            f"{'ends' if accuracy['jobs'] == 1 else 'end'} exactly as then"
        )
    if document["oracle"]:
        output.print_line("* oracle: uses true durations, which no scheduler knows")
    for sentence in document["assumptions"]:
        output.print_line(f"assumed: {sentence}")


def _what_changed(document: dict[str, Any]) -> str:
    """Say who decides, and what is otherwise than in the log."""
    names, change = document["policy"], document["change"]
    policy = names["simulated"] + ("*" if document["oracle"] else "")
    if change["policy"]:
        policy += f" instead of {names['recorded']}"
    told = [
        *(f"with {each}" for each in change["settings"]),
        *(f"with servers {each}" for each in change["added"]),
        *(f"no new jobs on {each}" for each in change["removed"]),
        *(f"without the jobs of {each}" for each in change["without"]),
    ]
    return ", ".join([policy, *told])


def _what_if_row(numbers: "Numbers") -> list[str]:
    times = ("mean_jct_s", "p50_jct_s", "p95_jct_s", "mean_wait_s", "last_end_s")
    return [
        *(duration(numbers[name]) for name in times),
        number(round(numbers["preemptions"] or 0)),
    ]


def _what_if_job(each: dict[str, Any]) -> str:
    before, after = durations_apart(each["before_jct_s"], each["what_if_jct_s"])
    sign = "+" if each["delta_s"] > 0 else "-"
    return (
        f"{each['job']} ({counted(each['gpus'], 'GPU')}) {sign}{duration(abs(each['delta_s']))}: "
        f"{before} became {after}"
    )
