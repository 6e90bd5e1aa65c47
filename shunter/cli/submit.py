"""`shunter submit`: hand a command or a script to the cluster."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from shunter.cli import output
from shunter.cli.answers import (
    Url,
    clause,
    connect,
    forecast_in_words,
    forecast_trust,
    one_line,
    patiently,
)
from shunter.cli.logs import wait_for
from shunter.cli.options import Json, takes_options
from shunter.cli.units import array_of, dependency_of, memory_mb, point_of, seconds, shape_of
from shunter.client import is_passed_on
from shunter.counting import counted
from shunter.errors import (
    NotFoundError,
    ShunterError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from shunter.client import Answer, Client, JobOptions


# The options of the command line and of scripts.

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


# Scripts with `#SHUNTER` lines: options first, as on the command line, which comes after them.
#
#     #!/bin/bash
#     #SHUNTER --gpus 4 --time 12h
#     python train.py
#
# Only lines before the first command count, as in other schedulers. A shell script is submitted as
# it is now; a file of Python without a first line such as #!/usr/bin/env python3 is run by the
# submitter's Python.

MARK = "#SHUNTER"
STRANGE_MARKS = frozenset({"#SBATCH", "#PBS", "#BSUB"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
NAME_MOST = 40
SUFFIXES = frozenset((".py", ".sh", ".bash", ".zsh", ".jl", ".r", ".pl", ".rb", ".lua", ".js"))
PYTHON_SUFFIXES = frozenset((".py", ".pyw"))
INTERPRETERS = {
    ".jl": "julia",
    ".js": "node",
    ".lua": "lua",
    ".pl": "perl",
    ".r": "Rscript",
    ".rb": "ruby",
}
"""What runs files that are none of a shell, by their suffix, where no first line says it."""

BYTE_ORDER_MARK = "\ufeff"
ELF = b"\x7fELF"
SCRIPT_BYTES_MOST = 131_000
"""What Linux takes for one argument, which the text of a script becomes."""


@dataclass(frozen=True)
class Script:
    """A script: its options by the number of their line, its interpreter, its text.

    `strange` is the mark of another scheduler's lines in it, which count for nothing; often none.
    `is_run_by_our_choice`: it is a file of Python whose first line names no interpreter.
    """

    path: Path
    lines: tuple[tuple[int, tuple[str, ...]], ...]
    interpreter: tuple[str, ...]
    text: str
    strange: str = ""
    is_run_by_our_choice: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """All options, in order."""
        return tuple(word for _, words in self.lines for word in words)

    def command(self, arguments: list[str]) -> list[str]:
        """Return what runs it."""
        shell = Path(self.interpreter[0]).name
        if shell == "env" and len(self.interpreter) > 1:
            shell = self.interpreter[1]
        path = str(self.path.resolve())
        if shell not in SHELLS:
            return [*self.interpreter, path, *arguments]
        if len(self.text.encode()) > SCRIPT_BYTES_MOST:
            raise UsageError(
                f"{self.path}: longer than the {SCRIPT_BYTES_MOST:,} bytes a job's command may "
                "have: submit a short script that runs it"
            )
        return [*self.interpreter, "-c", self.text, path, *arguments]


def read_script(path: Path) -> Script:
    """Read a script.

    Raises:
        UsageError: it is no text, has line ends or a first mark that would be taken for a part of
            its lines, is not for a shell and names no interpreter, or one of its lines cannot be
            split into words.
    """
    from shunter.workloads import read_file

    try:
        text = read_file(path, 64 << 20).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: it cannot be read as a script: {error}") from error
    _refuse_lone_cr(path, text)
    is_marked, text = text.startswith(BYTE_ORDER_MARK), text.removeprefix(BYTE_ORDER_MARK)
    interpreter = _first_line(text)
    is_run_by_our_choice = not interpreter and path.suffix.lower() in PYTHON_SUFFIXES
    if is_run_by_our_choice:
        interpreter = (_own_python(),)
    elif is_marked:
        raise UsageError(
            f"{path}:1: the file begins with a byte order mark (BOM), which shells take for a part "
            f"of its first line: sed -i '1s/^\\xef\\xbb\\xbf//' {shlex.quote(str(path))}"
        )
    else:
        _refuse_dos(path, text)
    if not interpreter:
        _refuse_unnamed(path)
    lines: list[tuple[int, tuple[str, ...]]] = []
    strange = ""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        mark, _, said = stripped.partition(" ")
        if mark != MARK:
            strange = strange or (mark if mark in STRANGE_MARKS else "")
            continue
        try:
            found = shlex.split(said, comments=True)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from error
        if "--" in found:
            raise UsageError(f"{path}:{number}: expected options only; the script is the command")
        lines.append((number, tuple(found)))
    words = interpreter or ("/bin/sh",)
    return Script(path, tuple(lines), words, text, strange, is_run_by_our_choice)


def is_program(path: Path) -> bool:
    """Say whether a file is a compiled program, as the kernel starts it."""
    try:
        with path.open("rb") as file:
            return file.read(len(ELF)) == ELF
    except OSError:
        return False


def _refuse_unnamed(path: Path) -> None:
    """Raise a UsageError for a file that says no interpreter and is none of a shell."""
    suffix, shown = path.suffix.lower(), shlex.quote(str(path))
    if suffix == ".ipynb":
        raise UsageError(
            f"{path}: a notebook is no script: jupyter nbconvert --to script {shown}, and submit "
            "what that writes"
        )
    if program := INTERPRETERS.get(suffix):
        raise UsageError(
            f"{path}:1: no interpreter is named, and a shell cannot run a {path.suffix} file: "
            f"expected a first line #!/usr/bin/env {program}, or shunter submit -- {program} "
            f"{shown}"
        )


def _refuse_lone_cr(path: Path, text: str) -> None:
    """Raise a UsageError if all lines end with CR: it would be one line."""
    if "\r" in text.rstrip("\r\n") and "\n" not in text:
        raise UsageError(
            f"{path}:1: the lines end with CR alone, as on old Macs, so it is one line to whatever "
            f"runs it: sed -i 's/\\r/\\n/g' {shlex.quote(str(path))}"
        )


def _refuse_dos(path: Path, text: str) -> None:
    """Raise a UsageError that names the first line which ends as in DOS."""
    before, mark, _ = text.partition("\r\n")
    if mark:
        raise UsageError(
            f"{path}:{before.count(chr(10)) + 1}: the line ends with CR LF, as in DOS, and shells "
            f"take the CR for a part of it: sed -i 's/\\r$//' {shlex.quote(str(path))}"
        )


def command_of(words: list[str]) -> tuple[list[str], Script | None]:
    """Return the command that words without a `--` stand for, and its script.

    Raises:
        UsageError: there is none.
        NotFoundError: the first is neither a script nor a program.
    """
    import shutil

    if not words:
        raise UsageError("nothing to run: shunter submit [OPTIONS] -- CMD…, or a script")
    path = Path(words[0])
    if path.is_file() and is_program(path):
        return [os.path.abspath(path), *words[1:]], None  # noqa: PTH100 a venv's python is a link
    if path.is_file():
        script = read_script(path)
        return script.command(words[1:]), script
    if shutil.which(words[0]) is None:
        raise NotFoundError(f"{words[0]} is neither a script here nor a program")
    return words, None


def _first_line(text: str) -> tuple[str, ...]:
    """Return the words of a script's first line; none: it names no interpreter."""
    first = text.partition("\n")[0]
    return tuple(first.removeprefix("#!").split()) if first.startswith("#!") else ()


def _own_python() -> str:
    """Return the Python of the environment that the submitter has activated."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable) or os.devnull, "bin", "python")
        if python.is_file():
            return str(python)
    return "python3"


def name_of(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command runs.

    `torchrun --nproc-per-node 2 train.py --lr 1` is `train.py`, `python -m shop.train` is
    `shop.train`; a command without either is called by its program.
    """
    words = list(command)
    for place, word in enumerate(words):
        if place and words[place - 1] == "-m" and not word.startswith("-"):
            found = word
        elif PurePath(word).suffix.lower() in SUFFIXES and not word.startswith("-"):
            found = PurePath(word).name
        else:
            continue
        if "\n" not in found:
            return found[:NAME_MOST]
    return PurePath(words[0]).name[:NAME_MOST]


class SubmitCommand(TyperCommand):
    """Reads the options of a script before those of the command line, which win.

    What follows `--` reaches the function with that mark, for it is a command and no script.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put a script's options first."""
        found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        words = list(found.get("words") or ())
        options = args[: len(args) - len(words)]
        if words and options and options[-1] == "--":
            return super().parse_args(ctx, [*options, "--", *words])
        if words and Path(words[0]).is_file() and not is_program(Path(words[0])):
            return self._with_script(ctx, read_script(Path(words[0])), options, words)
        return super().parse_args(ctx, [*options, "--", *words] if words else options)

    def _with_script(
        self, ctx: Any, script: Script, options: list[str], words: list[str]
    ) -> list[str]:
        """Put a script's options first; name the line of one that is wrong."""
        try:
            return super().parse_args(ctx, [*script.words, *options, "--", *words])
        except TyperException:
            for number, said in script.lines:
                try:
                    super().parse_args(ctx, [*said, "--", *words])
                except TyperException as error:
                    told = error.format_message()
                    place = f"{script.path}:{number}"
                    raise UsageError(f"{place}: {' '.join(said)}: {told}") from error
            raise


def register(app: typer.Typer) -> None:
    """Add the command."""
    settings = {"allow_interspersed_args": False}
    app.command("submit", cls=SubmitCommand, context_settings=settings)(
        takes_options(SubmitOptions, submit)
    )


def submit(options: SubmitOptions) -> None:
    """Submit a command, or a script with #SHUNTER lines, as a job.

    Prints the job's id. Waits out a restart of the daemon; what was lost on the way is asked for
    again under the same key, so nothing is submitted twice. With --wait it prints what the job
    prints, on its first server, says how it ended, and exits with the job's own code (128 + N for
    signal N, 1 where there is none). Of arrays, and with --parsable or --json, it prints no output.
    """
    command, said = described(options)
    said.setdefault("key", uuid4().hex)
    patience_s = None if options.patience is None else seconds(options.patience)
    with connect(options.url) as client:
        try:
            made = patiently(
                lambda: client.submit_many(command, **said), client.address, patience_s
            )
        except UnreachableError as error:
            if options.dedupe_key is None and not options.dry_run and _is_open(error):
                remedy = f"submit again with --dedupe-key {said['key']}: never twice then"
                raise type(error)(f"{error}; {remedy}") from error
            raise
        if made["is_dry_run"]:
            _dry_run(client, made, command, said, as_json=options.as_json)
            return
        _print_made(made, options)
        if made.get("note") and not options.as_json:  # a daemon of before tells none
            output.note(made["note"])
        if options.wait:
            quiet = options.parsable or options.as_json
            raise typer.Exit(wait_for(client, made, options.url, quiet=quiet))


def _is_open(error: UnreachableError) -> bool:
    """Say whether a job may have been submitted though an error came."""
    from shunter.client import is_open

    return is_open(error) or isinstance(error.__cause__, UnavailableError)  # given up


def described(options: SubmitOptions) -> tuple[list[str], "JobOptions"]:
    """Return the command that is to run, and what is said of the job.

    Raises:
        UsageError: something of it cannot be read.
        NotFoundError: there is nothing to run by that name.
    """
    words = list(options.words or ())
    if words[:1] == ["--"]:
        command, script = words[1:], None
    else:
        command, script = command_of(words)
    if script is not None:
        _print_notes(script)
    if not command:
        raise UsageError("nothing to run: shunter submit [OPTIONS] -- CMD…, or a script")
    name = options.name or name_of([str(script.path)] if script else command)
    said: JobOptions = {
        "name": name,
        "queue": options.queue,
        "priority": options.priority,
        "suspend_mode": options.suspend_mode,
        "directory": os.path.abspath(options.chdir or "."),  # noqa: PTH100 links stay as they are
        "environment": environment_of(options),
        "secrets": [text.partition("=")[0] for text in options.secret or ()],
        "dry_run": options.dry_run,
    }
    if options.gpus is not None:
        said["gpus"] = options.gpus
    if options.gpus_min is not None:
        said["gpus_min"] = options.gpus_min
    if options.gpus_max is not None:
        said["gpus_max"] = options.gpus_max
    if options.cpus is not None:
        said["cpus"] = options.cpus
    if options.memory is not None:
        said["memory_mb"] = memory_mb(options.memory)
    if options.types:
        said["gpu_types"] = [part for text in options.types for part in text.split(",") if part]
    said.update(_nearness(options))
    if options.time is not None:
        said["time_limit_s"] = seconds(options.time)
    if options.after:
        said["after"] = [dependency_of(part) for text in options.after for part in text.split(",")]
    if options.group:
        said["group"] = options.group
    if options.retries:
        said["retries"] = options.retries
    if options.array is not None:
        said["array"] = array_of(options.array)
    if options.model is not None:
        said["model"] = options.model
    if options.steps is not None:
        said["total_steps"] = options.steps
    if options.dedupe_key is not None:
        said["key"] = options.dedupe_key
    return command, said


def _print_notes(script: Script) -> None:
    """Say what of a script counts for nothing, and what runs it unasked."""
    if script.strange:
        output.note(
            f"{script.path}: lines that begin with {script.strange} are for another scheduler and "
            "count for nothing here: say it in #SHUNTER lines, such as #SHUNTER --gpus 2"
        )
    if script.is_run_by_our_choice:
        output.note(
            f"{script.path} has no first line such as #!/usr/bin/env python3: it runs with "
            f"{' '.join(script.interpreter)}"
        )


def _nearness(options: SubmitOptions) -> "JobOptions":
    """Return how a job may be spread over servers, or raise UsageError."""
    said: JobOptions = {}
    if options.one_server and options.max_level not in (None, "server"):
        raise UsageError(f"--one-server and --max-level {options.max_level}: say one of them")
    level = "server" if options.one_server else options.max_level
    if level is not None:
        said["max_level"] = level
    if options.shape:
        said["shapes"] = [shape_of(text) for text in options.shape]
    if options.split_may_change:
        said["split_may_change"] = True
    said.update(_contract(options))
    return said


def _contract(options: SubmitOptions) -> "JobOptions":
    """Return how a job bears distance, neighbours, moves; UsageError: bad point."""
    said: JobOptions = {}
    points = [point_of(text) for text in options.tolerance or ()]
    if levels := [(place, speed) for place, speed in points if isinstance(place, str)]:
        said["tolerance"] = levels
    if shapes := [(place, speed) for place, speed in points if not isinstance(place, str)]:
        said["shape_tolerance"] = shapes
    if options.min_speed is not None:
        said["min_speed"] = options.min_speed
    if options.interference is not None:
        said["interference"] = options.interference
    if options.not_migratable:
        said["migratable"] = False
    return said


def environment_of(options: SubmitOptions) -> dict[str, str]:
    """Return the variables a job gets: those passed on if asked for, and those named.

    Raises:
        UsageError: one is to be taken from here and is not set here.
    """
    named = [name for name in options.export.split(",") if name]
    if not named or ("none" in named and len(named) > 1):
        raise UsageError(f"--export {options.export}: expected none, all, or names with commas")
    given: dict[str, str] = {}
    if "all" in named:
        given = {name: value for name, value in os.environ.items() if is_passed_on(name)}
    exported = [name for name in named if name not in ("none", "all")]
    if wrong := next((name for name in exported if "=" in name), None):
        raise UsageError(f"--export {wrong}: expected a name; --env {wrong} gives a value")
    asked = (("--export", exported), ("--env", options.env), ("--secret", options.secret))
    for option, texts in asked:
        for text in texts or ():
            name, equals, value = text.partition("=")
            if not equals and name not in os.environ:
                raise UsageError(f"{option} {name}: it is not set here; write {name}=VALUE")
            given[name] = value if equals else os.environ[name]
    return given


def _dry_run(
    client: "Client", made: "Answer", command: list[str], said: "JobOptions", *, as_json: bool
) -> None:
    """Print whether a job would start now, why not, and when, if that is known."""
    if not as_json:
        output.print_line(made["would"])
        if made["plan"] is not None and made["plan"]["reason"] is not None:
            output.print_line(f"  why not: {one_line(clause(made['plan']['reason']))}")
    forecast = None
    try:
        forecast = None if made.get("note") else client.forecast_of(command, **said)
    except ShunterError as error:
        output.note(f"when it would start and end is not known: {error}")
    if as_json:
        output.print_json({**made, "forecast": forecast})
    elif forecast is not None:
        for line in (*forecast_in_words(forecast), *forecast_trust(forecast)):
            output.print_line(line)


def _print_made(made: "Answer", options: SubmitOptions) -> None:
    if options.as_json:
        output.print_json(made)
    elif options.parsable:
        for job_id in made["ids"]:
            output.print_line(job_id)
    elif len(made["ids"]) == 1:
        output.print_line(f"submitted {made['id']}")
    else:
        output.print_line(
            f"submitted {made['id']} to {made['ids'][-1]}: {counted(len(made['ids']), 'job')}"
        )
