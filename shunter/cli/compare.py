"""`shunter compare`, several policies on the same jobs, and `shunter demo`, on made-up ones."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output
from shunter.cli.options import ConfigFile, Json, Settings, load
from shunter.errors import UsageError

if TYPE_CHECKING:
    from shunter.run.comparison import Comparison, Interval, PolicyRuns

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
    from shunter.run.comparison import compare as run

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
    from shunter.output_files import made_folder
    from shunter.run.demonstration import POLICIES, demonstrate, sentences

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
    for number, sentence in enumerate(sentences(document), start=1):
        output.print_line(f"{number}. {sentence}")
    if commands:
        output.print_line()
        output.print_pairs(commands)


def _reported(folder: Path) -> list[tuple[str, str]]:
    """Write a report on the runs of the demonstration; return what to do with them."""
    import asyncio
    import shlex
    import sys

    from shunter.ask.report import page_of
    from shunter.cli.analysis.report import document_of
    from shunter.output_files import write_text
    from shunter.run.demonstration import logs_of, middle_s

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
    from shunter.cli.units import left_out

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
    from shunter.cli.units import duration, number, percent

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
