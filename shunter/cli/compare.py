"""Commands that look at whole runs: `shunter compare` and `demo`, `diff` and `report`."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import ConfigFile, Json, Settings, load, reading
from shunter.cli.units import duration, left_out, number, percent
from shunter.counting import counted, jobs_waiting
from shunter.errors import UsageError
from shunter.output_files import check_target, made_folder, write_text

if TYPE_CHECKING:
    from shunter.ask import LogDiff
    from shunter.run import Comparison, Interval, PolicyRuns


DROPPED = ("digest", "p50 JCT", "p95 JCT", "makespan", "mean wait", "preemptions", "GPU use")
"""What a narrow terminal does without, first the least important."""
INTERRUPTED = 130


def compare(
    config: ConfigFile,
    policies: Annotated[
        str, typer.Option(metavar="A,B,…", help="The policies, separated by commas.")
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each policy, a seed each.")] = 1,
    workers: Annotated[
        int, typer.Option("-j", "--workers", min=0, help="Processes; 0 is one a core.")
    ] = 0,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Run several policies on the same jobs, and compare them.

    No log is kept; the digest of each run's log is shown. Where it is cut off, by Ctrl-C or
    SIGTERM, what has finished is shown.
    """
    from shunter.run import compare as run

    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise UsageError(f"--policies {policies}: expected different names, such as fifo,las,srtf")
    loaded = load(config, settings)
    if seeds > 1 and loaded.config.workload.trace is not None:
        output.note("the jobs come from a trace: every seed runs the same ones")
    with output.ended_like_an_interrupt(), output.progress("runs done", as_lines=True) as report:
        document = run(
            loaded, names, seeds=seeds, workers=workers or os.cpu_count() or 1, report=report
        )
    if as_json:
        output.print_json(document)
    else:
        print_comparison(document)
    notes = [sentence for each in document["runs"] for sentence in each.get("notes", ())]
    for sentence in dict.fromkeys(notes):
        output.note(sentence)
    if unfinished := document.get("unfinished"):
        output.note(f"cut off: {unfinished} of {len(names) * seeds} runs had not finished")
        raise typer.Exit(INTERRUPTED)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Leave the logs of the runs and a report on them there."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show in seconds what a scheduler changes, on 2,000 made-up jobs."""
    from shunter.run import POLICIES, demonstrate, sentences

    if folder is not None:
        made_folder(folder)
    output.note(f"2,000 generated jobs on 8 servers with 8 GPUs: {', '.join(POLICIES)}")
    with output.progress("runs done") as report:
        document = demonstrate(report, folder)
    commands = [] if folder is None else _reported(folder)
    if as_json:
        output.print_json(document)
        return
    print_comparison(document)
    output.print_line()
    for place, sentence in enumerate(sentences(document), start=1):
        output.print_line(f"{place}. {sentence}")
    if commands:
        output.print_line()
        output.print_pairs(commands)


def _reported(folder: Path) -> list[tuple[str, str]]:
    """Write a report on the runs of the demonstration; return what to do with them."""
    import asyncio
    import shlex
    import sys

    from shunter.ask import page_of
    from shunter.run import logs_of, middle_s

    logs = logs_of(folder)
    document = asyncio.run(document_of(list(logs.values())))
    target = folder / "report.html"
    write_text(target, page_of(document))
    asked = next(run for run in document["runs"] if run["policy"] == "las")["worst"][0]["id"]
    program = shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "shunter" else "shunter"
    ours = [shlex.quote(logs[policy]) for policy in ("fifo", "las")]
    return [
        ("open in a browser", str(target)),
        ("ask why", f"{program} why {shlex.quote(asked)} --log {ours[1]}"),
        ("compare", f"{program} diff {' '.join(ours)}"),
        ("try what if", f"{program} what-if {ours[0]} --policy las --from {middle_s()}s"),
    ]


def print_comparison(document: "Comparison") -> None:
    """Print the table of a comparison."""
    seeds = len(document["seeds"])
    numbers = ["mean JCT", "p50 JCT", "p95 JCT", "p99 JCT", "mean wait", "makespan", "GPU use"]
    columns = [output.Column(title, is_number=True) for title in [*numbers, "preemptions"]]
    heads = [output.Column("policy"), *columns]
    heads += [output.Column("digest")] if seeds == 1 else []
    rows = [_row(summed) for summed in document["policies"]]
    left_out = output.print_fitting(heads, rows, DROPPED)
    if left_out:
        output.note(f"not shown, as the terminal is narrow: {', '.join(left_out)} (see --json)")
    if seeds > 1:
        output.print_line(f"means over {seeds} seeds, ± half the 95 % interval (Student's t)")
    for line in _left_out(document):
        output.print_line(line)
    if any(summed["oracle"] for summed in document["policies"]):
        output.print_line("* oracle: uses true durations, which no scheduler knows")


def _left_out(document: "Comparison") -> list[str]:
    """Say of which jobs the times are not, once where that is the same for all."""
    found: dict[str, list[str]] = {}
    for summed in document["policies"]:
        counts: Counter[str] = Counter()
        for run in document["runs"]:
            if run["policy"] == summed["policy"]:
                counts.update(run["jobs"])
        if counts["finished"] < counts["submitted"]:
            found.setdefault(left_out(counts), []).append(summed["policy"])
    intro = "times are of finished jobs; left out"
    if len(found) == 1 and len(*found.values()) == len(document["policies"]):
        return [f"{intro}: {next(iter(found))}"]
    return [f"{intro} of {', '.join(names)}: {what}" for what, names in found.items()]


def _row(summed: "PolicyRuns") -> list[str]:
    measures = summed["measures"]
    spans = ["jct_s.mean", "jct_s.p50", "jct_s.p95", "jct_s.p99", "wait_s.mean", "makespan_s"]
    digests = summed["log_digests"]
    return [
        summed["policy"] + ("*" if summed["oracle"] else ""),
        *(_with_interval(measures[name], duration) for name in spans),
        _with_interval(measures["gpu_utilisation"], percent),
        _with_interval(measures["preemptions"], lambda count: number(round(count or 0))),
        *([digests[0][:12]] if len(digests) == 1 else []),
    ]


def _with_interval(interval: "Interval", shown: Callable[[float | None], str]) -> str:
    text: str = shown(interval["mean"])
    return text if interval["ci95"] is None else f"{text} ± {shown(interval['ci95'])}"


# `shunter diff`.

DIFFERENT = 6
SHOWN = 3
"""How many decisions of each side are printed where more than one differs."""

LogA = Annotated[str, typer.Argument(metavar="LOG_A", help="A log: its path or address.")]
LogB = Annotated[str, typer.Argument(metavar="LOG_B", help="Another log.")]

_PLACES = {
    "same": "at the same instant on the same GPUs",
    "other_gpus": "at the same instant on others",
    "other_instant": "at another instant",
    "one_only": "in one log only",
    "never": "in neither",
}


def diff(
    log_a: LogA,
    log_b: LogB,
    most: Annotated[
        int, typer.Option("--jobs", min=0, help="How many jobs that gained or lost are listed.")
    ] = 5,
    as_json: Json = False,
) -> None:
    """Compare two runs: where they first decide otherwise, and why.

    Then how jobs fared, and the measures of both. Exits with 6 if they differ.
    """
    import asyncio

    from shunter.ask import diff_logs
    from shunter.run import rebuild

    async def compared() -> "LogDiff":
        async with reading(log_a) as a, reading(log_b) as b:
            return await diff_logs(a, b, rebuild, output.progress)

    found = asyncio.run(compared())
    document = found.document(most)
    if as_json:
        output.print_json(document)
    else:
        _print_diff(document)
    if found.differs:
        raise typer.Exit(DIFFERENT)


def _print_diff(document: dict[str, Any]) -> None:
    for name, log in document["logs"].items():
        seed = "" if log["seed"] is None else f", seed {log['seed']}"
        digest = f"{number(log['events'])} events, digest {log['digest'][:12]}"
        output.print_line(f"{name.upper()}  {log['url']}  {log['policy']}{seed}, {digest}")
    output.print_line()
    alike = document["alike"]
    if document["identical"]:
        output.print_line("the logs are the same, event by event")
    elif document["first_decision"] is None:
        same = f"all {number(alike['decisions'])} decisions do the same in both"
        output.print_line(same if document["differs"] else f"{same}, for the same reasons")
        _print_pair("first input that differs", document["first_input"])
        _print_pair("first decision with other reasons", document["first_reason"])
    else:
        _print_first(document["first_decision"], alike)
    output.print_line()
    _print_measures(document["measures"])
    output.print_line()
    _print_jobs(document)


def _print_pair(title: str, pair: dict[str, Any] | None) -> None:
    if pair is None:
        return
    output.print_line(f"{title}, at {pair['time']}")
    for side in ("a", "b"):
        output.print_line(f"  {side.upper()}  {_told(pair[side])}")


def _print_first(first: dict[str, Any], alike: dict[str, int]) -> None:
    output.print_line(
        f"first decision that differs: decision {number(alike['decisions'] + 1)}, {first['time']}"
    )
    for side in ("a", "b"):
        facts = first[f"only_{side}"]
        told = first[side]
        shown = [told, *(fact for fact in facts if fact != told)][:SHOWN]
        for fact in shown:
            output.print_line(f"  {side.upper()}     {_told(fact)}")
        if len(facts) > SHOWN:
            output.print_line(f"  {side.upper()}     and {len(facts) - SHOWN} more at that instant")
    output.print_line(f"  why   {first['why']}")
    for key, values in first["config"].items():
        one, two = (values[side] or "not set" for side in ("a", "b"))
        output.print_line(f"        {key}: {one} in A, {two} in B")
    for side in ("a", "b"):
        _print_seen(side.upper(), first["seen"][side])


def _told(fact: dict[str, Any] | None) -> str:
    return "nothing of the kind" if fact is None else f"{fact['words']} (e{fact['seq']})"


def _print_seen(name: str, seen: dict[str, Any]) -> None:
    """Print what a policy saw, and how it ranks the jobs in question."""

    if "free" not in seen:
        output.print_line(f"  saw {name} nothing can be asked: {seen['problem']}")
        return
    free = ", ".join(counted(count, f"{kind} GPU") for kind, count in seen["free"].items())
    queue = f", first {', '.join(seen['queue'])}" if seen["queue"] else ""
    waiting = f"{jobs_waiting(seen['waiting'])}{queue}; {seen['placed']} have GPUs"
    output.print_line(f"  saw {name} {free or 'no GPUs'} free; {waiting}")
    for rank in seen["ranks"]:
        place = rank["position"]
        where = "has GPUs" if place is None else f"waits as {place} of {seen['waiting']}"
        score = rank["words"] or f"score {', '.join(map(str, rank['score']))}"
        output.print_line(f"        {rank['id']} {where}: {score}")
    if seen["promise"]:
        output.print_line(f"        {seen['promise']}")


def _print_measures(measures: list[dict[str, Any]]) -> None:
    def shown(name: str, value: float | None) -> str:
        if name.startswith("finish_time_fairness"):
            return "–" if value is None else f"{value:.2f}"
        if name == "gpu_utilisation":
            return percent(value)
        if name in ("preemptions", "migrations"):
            return "–" if value is None else number(round(value))
        return f"-{duration(-value)}" if value is not None and value < 0 else duration(value)

    columns = [output.Column(title, is_number=True) for title in ("A", "B", "B - A")]
    rows = [
        [each["name"], *(shown(each["name"], each[key]) for key in ("a", "b", "difference"))]
        for each in measures
    ]
    output.print_table(["measure", *columns], rows)


def _print_jobs(document: dict[str, Any]) -> None:
    jobs = document["jobs"]
    output.print_line(
        f"of {counted(jobs['compared'], 'job')} that finished in both, {number(jobs['better'])} "
        f"took less time in B, {number(jobs['worse'])} more, {number(jobs['same'])} the same"
    )
    starts = [
        f"{number(count)} {_PLACES[name]}"
        for name, count in document["first_starts"].items()
        if count
    ]
    if starts:
        output.print_line(f"first starts: {', '.join(starts)}")
    others = {
        "ended otherwise": jobs["ended_otherwise"],
        "in A only": jobs["only_a"],
        "in B only": jobs["only_b"],
        "of the same id and different": jobs["other_jobs"],
    }
    told = [f"{number(count)} {name}" for name, count in others.items() if count]
    if told:
        output.print_line(f"other jobs: {', '.join(told)}")
    _print_changed("lost most in B", jobs["lost_most"])
    _print_changed("gained most in B", jobs["gained_most"])


def _print_changed(title: str, jobs: list[dict[str, Any]]) -> None:
    if not jobs:
        return
    output.print_line()
    columns = [title, "user"]
    numbers = ["GPUs", "JCT in A", "JCT in B", "B - A", "wait in A", "wait in B", "preempted"]
    rows = [
        [
            f"{job['id']} {job['name']}".rstrip(),
            job["user"],
            number(job["gpus"]),
            duration(job["a"]["jct_s"]),
            duration(job["b"]["jct_s"]),
            f"{'-' if job['delta_s'] < 0 else '+'}{duration(abs(job['delta_s']))}",
            duration(job["a"]["wait_s"]),
            duration(job["b"]["wait_s"]),
            f"{number(job['a']['preemptions'])} -> {number(job['b']['preemptions'])}",
        ]
        for job in jobs
    ]
    output.print_table([*columns, *(output.Column(name, is_number=True) for name in numbers)], rows)


# `shunter report`.

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
    from shunter.ask import page_of

    for log in logs:
        check_target(target, log)
    page = page_of(asyncio.run(document_of(logs)))
    write_text(target, page)
    output.note(f"wrote {target}, {len(page.encode()) / 1e6:.1f} MB; open it in a browser")


async def document_of(logs: Sequence[str]) -> dict[str, Any]:
    """Return the document of a report on some logs."""
    from shunter.ask import report_document, run_document

    runs = []
    for log in logs:
        async with reading(log) as reader:
            with output.progress(f"reading {reader.url}") as advance:
                runs.append(await run_document(reader, len(logs), advance))
    return report_document(runs)
