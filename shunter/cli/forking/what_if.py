"""`shunter what-if`: what another policy, other servers or fewer users would have done to jobs."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shunter.cli import output
from shunter.cli.options import Json
from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.ask.forks.scenario import Numbers


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
    from shunter.ask.forks.fork import Wishes
    from shunter.ask.forks.scenario import what_if as asked

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
        _print(document)


def _print(document: dict[str, Any]) -> None:
    from shunter.cli.units import number, percent

    begins, jobs = document["from"], document["jobs"]
    output.print_line(f"simulated from e{begins['seq']}, {begins['time']}: {_changed(document)}")
    before = "recorded" if document["compared_with"] == "log" else "same policy (sim)"
    titles = ["mean JCT", "p50 JCT", "p95 JCT", "mean wait", "last end", "preemptions"]
    rows = [[before, *_row(document["before"])], ["what if (sim)", *_row(document["what_if"])]]
    if document["seeds"] > 1:
        for name in ("least", "most"):
            band = {key: value[name] for key, value in document["bands"].items()}
            rows.append([f"  {name} of {document['seeds']} seeds", *_row(band)])
    output.print_table(["", *(output.Column(title, is_number=True) for title in titles)], rows)
    left = f"; {number(jobs['left_out'])} did not finish in it" if jobs["left_out"] else ""
    output.print_line(
        f"jobs {number(jobs['compared'])}: {number(jobs['better'])} better, "
        f"{number(jobs['worse'])} worse, {number(jobs['same'])} the same{left}"
    )
    for title in ("winners", "losers"):
        for each in document[title]:
            output.print_line(f"  {title[:-1]}  {_job(each)}")
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


def _changed(document: dict[str, Any]) -> str:
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


def _row(numbers: "Numbers") -> list[str]:
    from shunter.cli.units import duration, number

    times = ("mean_jct_s", "p50_jct_s", "p95_jct_s", "mean_wait_s", "last_end_s")
    return [
        *(duration(numbers[name]) for name in times),
        number(round(numbers["preemptions"] or 0)),
    ]


def _job(each: dict[str, Any]) -> str:
    from shunter.cli.units import duration, durations_apart

    before, after = durations_apart(each["before_jct_s"], each["what_if_jct_s"])
    sign = "+" if each["delta_s"] > 0 else "-"
    return (
        f"{each['job']} ({counted(each['gpus'], 'GPU')}) {sign}{duration(abs(each['delta_s']))}: "
        f"{before} became {after}"
    )
