"""`shunter submit`: hand a command or a script to the cluster."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, cast
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
from shunter.cli.options import Json, parameters_of, with_parameters
from shunter.cli.units import array_of, dependency_of, memory_mb, point_of, seconds, shape_of
from shunter.client import HEADINGS, Option, fields_of_request, is_passed_on
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


# The options: those of the request, as it declares them, and those of the command itself.


@dataclass(frozen=True)
class SubmitOptions:
    """What is said to the command itself, and is no part of the request."""

    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- CMD… | SCRIPT …", help="A command, or a script to run."),
    ] = None
    dedupe_key: Annotated[
        str | None,
        typer.Option("--dedupe-key", metavar="KEY", help="Submits once, however often it is run."),
    ] = None
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


Said = Mapping[str, Any]
"""The values of the options of the request, by the names of these options."""


def parameters_of_request() -> list[Parameter]:
    """Return the options of the request as Typer reads them, in order."""
    options = {each.name: each for field in fields_of_request().values() for each in field.options}
    return [
        _parameter(options[name], heading)
        for heading, names in HEADINGS.items()
        for name in names.split()
    ]


def _parameter(option: Option, heading: str) -> Parameter:
    kind: Any = list[str] if option.kind is list else option.kind
    default = False if kind is bool else option.default
    told = typer.Option(
        *option.names,
        metavar=option.metavar,
        min=option.least,
        help=option.help,
        rich_help_panel=heading,
    )
    annotation: Any = Annotated[kind | None if default is None else kind, told]
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _texts(texts: Sequence[str]) -> list[str]:
    """Return what stands between the commas of all texts."""
    return [part for text in texts for part in text.split(",")]


READ: dict[str, Callable[[Any], object]] = {
    "memory_mb": memory_mb,
    "gpu_types": lambda texts: [part for part in _texts(texts) if part],
    "shapes": lambda texts: [shape_of(text) for text in texts],
    "migratable": lambda is_pinned: not is_pinned,
    "time_limit_s": seconds,
    "depends_on": lambda texts: [dependency_of(text) for text in _texts(texts)],
    "array": array_of,
}
"""By field, how it is made of the value of its option; others are taken as they are."""

_OTHERWISE = frozenset(("name", "max_level", "tolerance", "directory", "environment", "secrets"))
"""Fields that are always said, or are made of several options."""


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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, then the options below their headings."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{one: [] for one in HEADINGS}}
        for each in self.get_params(ctx):
            if (row := each.get_help_record(ctx)) is not None:
                heading = getattr(each, "rich_help_panel", None) or [*HEADINGS][-1]
                rows["Arguments" if each.param_type_name == "argument" else heading].append(row)
        for heading, listed in rows.items():
            with formatter.section(heading):
                formatter.write_dl(listed)

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
    words, *own = parameters_of(SubmitOptions)
    names = [each.name for each in (words, *own)]

    def run(**said: Any) -> None:
        submit(SubmitOptions(**{name: said.pop(name) for name in names}), said)

    command = with_parameters(run, [words, *parameters_of_request(), *own], submit)
    app.command("submit", cls=SubmitCommand, context_settings=settings)(command)


def submit(options: SubmitOptions, asked: Said) -> None:
    """Submit a command, or a script with #SHUNTER lines, as a job.

    Prints the job's id. Waits out a restart of the daemon; what was lost on the way is asked for
    again under the same key, so nothing is submitted twice. With --wait it says if the job has not
    started soon, prints what it prints, on its first server, says how it ended, and exits with the
    job's own code (128 + N for signal N, 1 where there is none). Of arrays, and with --parsable or
    --json, it prints no output.
    """
    command, said = described(options, asked)
    said.setdefault("key", uuid4().hex)
    patience_s = None if options.patience is None else seconds(options.patience)
    with connect(options.url) as client:
        try:
            made = patiently(
                lambda: client.submit_many(command, **said), client.address, patience_s
            )
        except UnreachableError as error:
            if options.dedupe_key is None and not asked["dry_run"] and _is_open(error):
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


def described(options: SubmitOptions, asked: Said) -> tuple[list[str], "JobOptions"]:
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
    said: dict[str, Any] = {
        "name": asked["name"] or name_of([str(script.path)] if script else command),
        "directory": os.path.abspath(asked["chdir"] or "."),  # noqa: PTH100 links stay as they are
        "environment": environment_of(asked),
        "secrets": [text.partition("=")[0] for text in asked["secret"] or ()],
    }
    for name, field in fields_of_request().items():
        if name in ("max_level", "tolerance"):
            said |= _level(asked) if name == "max_level" else _curve(asked)
        elif name not in _OTHERWISE:
            for option in field.options:
                value = asked[option.name]
                if value is not False and value != option.default:  # 0 GPUs are a value
                    said[name] = READ[name](value) if name in READ else value
    if "depends_on" in said:
        said["after"] = said.pop("depends_on")
    if options.dedupe_key is not None:
        said["key"] = options.dedupe_key
    return command, cast("JobOptions", said)


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


def _level(asked: Said) -> dict[str, str]:
    """Return the widest group of a job's GPUs, or raise UsageError."""
    level = asked["max_level"]
    if asked["one_server"] and level not in (None, "server"):
        raise UsageError(f"--one-server and --max-level {level}: say one of them")
    level = "server" if asked["one_server"] else level
    return {} if level is None else {"max_level": level}


def _curve(asked: Said) -> dict[str, list[Any]]:
    """Return a job's speed by level and by split; UsageError: a point is wrong."""
    points = [point_of(text) for text in asked["tolerance"] or ()]
    curve = {
        "tolerance": [point for point in points if isinstance(point[0], str)],
        "shape_tolerance": [point for point in points if not isinstance(point[0], str)],
    }
    return {name: said for name, said in curve.items() if said}


def environment_of(asked: Said) -> dict[str, str]:
    """Return the variables a job gets: those passed on if asked for, and those named.

    Raises:
        UsageError: one is to be taken from here and is not set here.
    """
    export = asked["export"]
    named = [name for name in export.split(",") if name]
    if not named or ("none" in named and len(named) > 1):
        raise UsageError(f"--export {export}: expected none, all, or names with commas")
    given: dict[str, str] = {}
    if "all" in named:
        given = {name: value for name, value in os.environ.items() if is_passed_on(name)}
    exported = [name for name in named if name not in ("none", "all")]
    if wrong := next((name for name in exported if "=" in name), None):
        raise UsageError(f"--export {wrong}: expected a name; --env {wrong} gives a value")
    for option, texts in (
        ("--export", exported),
        ("--env", asked["env"]),
        ("--secret", asked["secret"]),
    ):
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
