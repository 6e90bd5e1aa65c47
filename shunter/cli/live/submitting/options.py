"""The options of `shunter submit`, once, as a table: the command line and scripts read the same."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shunter.cli.live.connecting import Url
from shunter.cli.options import Json

LEVELS = "nvlink, switch, socket, server, rack, domain or cluster"
MODES = "cooperative, signal, restart, stop or never"


@dataclass(frozen=True)
class SubmitOptions:
    """What was said on the command line, and in the script before it."""

    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD… | SCRIPT …]", help="A command, or a script to run."),
    ] = None
    gpus: Annotated[
        int | None,
        typer.Option(
            *("-g", "--gpus"),
            metavar="N",
            min=0,
            help="GPUs of the whole job. Left out: 1, and 0 in a cluster that has none, unless "
            "a --type is named.",
        ),
    ] = None
    gpus_min: Annotated[
        int | None,
        typer.Option(
            "--gpus-min", metavar="N", min=1, help="Its gang may be made as small as this: elastic."
        ),
    ] = None
    gpus_max: Annotated[
        int | None,
        typer.Option(
            "--gpus-max", metavar="N", min=1, help="Its gang may be made as large as this: elastic."
        ),
    ] = None
    cpus: Annotated[
        float | None,
        typer.Option("-c", "--cpus", min=0, help="CPUs of the whole job; at least 1 without GPUs."),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--memory",
            metavar="SIZE",
            help="Such as 16G; it is set aside for the job, which is held to it only where "
            "`shunter doctor` says so.",
        ),
    ] = None
    name: Annotated[str | None, typer.Option("-J", "--name", help="Left out: its script.")] = None
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="GPU type that will do; may be repeated."),
    ] = None
    one_server: Annotated[
        bool, typer.Option("--one-server", help="All its GPUs in one server: --max-level server.")
    ] = False
    max_level: Annotated[
        str | None,
        typer.Option(
            "--max-level", metavar="LEVEL", help=f"The widest group for its GPUs: {LEVELS}."
        ),
    ] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="N[+N…]",
            help="A split over servers that will do, such as 4 or 2+2; may be repeated, "
            "the best first.",
        ),
    ] = None
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            metavar="LEVEL|SHAPE:SPEED",
            help="Its speed where its GPUs are so far apart or split so, of that with all near, "
            "such as rack:0.8 or 2+2:0.72; may be repeated. Beside splits the packed one is "
            "named, with speed 1: 4:1.",
        ),
    ] = None
    min_speed: Annotated[
        float | None,
        typer.Option(
            "--min-speed",
            metavar="PART",
            help="The lowest speed it accepts, of these or as learnt.",
        ),
    ] = None
    interference: Annotated[
        float | None,
        typer.Option(
            "--interference", metavar="PART", help="What it loses beside a neighbour on a switch."
        ),
    ] = None
    not_migratable: Annotated[
        bool, typer.Option("--not-migratable", help="It is not moved while it runs.")
    ] = False
    split_may_change: Annotated[
        bool,
        typer.Option(
            "--split-may-change",
            help="Its checkpoints can be loaded by another number of processes: it need not keep "
            "the split of its first start.",
        ),
    ] = False
    queue: Annotated[str, typer.Option("-q", "--queue", help="The queue.")] = "default"
    priority: Annotated[int, typer.Option("--priority", help="The higher goes first.")] = 0
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="The multi-job it belongs to: its search."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "-t", "--time", metavar="DURATION", help="It is ended once it has run for so long."
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            metavar="N",
            min=0,
            help="Start it again up to N times after it failed by itself, from its checkpoint.",
        ),
    ] = 0
    suspend_mode: Annotated[
        str, typer.Option("--suspend-mode", metavar="MODE", help=f"How it is suspended: {MODES}.")
    ] = "cooperative"
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="JOB[:ok|any]",
            help="Starts when that has ended; the first job of an array means all its tasks; "
            "may be repeated.",
        ),
    ] = None
    array: Annotated[
        str | None,
        typer.Option("--array", metavar="0-99[:STEP][%N]", help="A job for each index, N at once."),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--env", metavar="K[=V]", help="A variable; without =V your own; may be repeated."
        ),
    ] = None
    export: Annotated[
        str,
        typer.Option(
            "--export",
            metavar="all|none|NAME[,NAME…]",
            help="Which of your variables it gets; all: but for those that tell another job its "
            "ranks or devices (SLURM_*, PMI_*, …), which all,NAME adds.",
        ),
    ] = "all"
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="K[=V]",
            help="As --env, and its value is kept out of the recorded command too.",
        ),
    ] = None
    chdir: Annotated[
        str | None, typer.Option("-D", "--chdir", metavar="DIR", help="Left out: where you are.")
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", help="What it trains, as tables name it.")
    ] = None
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Mini-batches in all, if known.")
    ] = None
    dedupe_key: Annotated[
        str | None,
        typer.Option("--dedupe-key", metavar="KEY", help="Submits once, however often it is run."),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Submit nothing: would it start now, if not why, and when."),
    ] = False
    wait: Annotated[
        bool,
        typer.Option(
            "-W", "--wait", help="Print its output, wait for its end; exit with its code."
        ),
    ] = False
    patience: Annotated[
        str | None,
        typer.Option(
            "--patience",
            metavar="DURATION",
            help="How long a daemon is waited for that does not answer. Left out: 2m where one "
            "answered within the last 2 minutes, or is at another machine; else not at all.",
        ),
    ] = None
    parsable: Annotated[bool, typer.Option("--parsable", help="Print the id and no more.")] = False
    as_json: Json = False
    url: Url = None
