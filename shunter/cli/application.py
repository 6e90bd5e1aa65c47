"""The command `shunter` with all its subcommands, and what an error becomes.

The module of a command is imported when that command or its help is asked for, and imports nothing
heavy at its top: `shunter --help` starts within 0.3 s.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from shunter import __version__
from shunter.cli import output
from shunter.cli.options import (
    HELP_MOST,
    name_values,
    note_new_name,
    take_plain_values,
    takes_options,
)
from shunter.errors import NotFoundError, ShunterError
from shunter.gc_control import end_uncollected

HEADINGS = {
    "First steps": {
        "up": "up",
        "submit": "submit",
        "queue": "jobs",
        "logs": "logs",
        "why": "why",
        "cancel": "control",
        "down": "up",
    },
    "Jobs": {
        "show": "jobs",
        "history": "jobs",
        "suspend": "control",
        "resume": "control",
        "resize": "control",
        "priority": "control",
        "group": "control",
    },
    "Clusters": {
        "nodes": "nodes",
        "init": "serve",
        "doctor": "serve",
        "serve": "serve",
        "config": "config",
        "policy": "config",
    },
    "Simulations": {
        "demo": "compare",
        "simulate": "simulate",
        "compare": "compare",
        "what-if": "why",
        "trace": "trace",
        "reproduce": "simulate",
    },
    "What happened in a run": {
        "report": "compare",
        "diff": "compare",
        "replay": "replay",
        "log": "log",
    },
    "For administrators": {"admin": "admin"},
}
"""By heading of the help, each command and the module that defines it.

That has a function of its name, or `NAME_commands`, a group of commands.
"""

COMMANDS = {name: module for below in HEADINGS.values() for name, module in below.items()}
OLD_NAMES = {"profile": "profile", "discard-checkpoint": "control", "set-aside": "control"}
"""Commands that are below `admin` now; these names are kept for one release, and not listed."""

_SHOW = "show JOB` or `shunter queue"
OF_OTHERS = {
    **dict.fromkeys(("sbatch", "srun", "run", "qsub", "add", "launch"), "submit -- COMMAND"),
    **dict.fromkeys(("squeue", "qstat", "ps", "ls", "list", "jobs", "top"), "queue"),
    **dict.fromkeys(("scancel", "qdel", "kill", "rm", "remove", "delete"), "cancel JOB"),
    **dict.fromkeys(("sinfo", "pestat", "gpus", "servers"), "nodes"),
    **dict.fromkeys(("tail", "cat", "output", "attach"), "logs -f JOB"),
    **dict.fromkeys(("status", "info", "describe", "scontrol"), _SHOW),
    **dict.fromkeys(("sacct", "past"), "history"),
    **dict.fromkeys(("start", "daemon"), "up"),
    **dict.fromkeys(("stop", "shutdown", "quit"), "down` (the daemon), or `shunter cancel JOB"),
    **dict.fromkeys(("hold", "pause", "preempt"), "suspend JOB"),
    **dict.fromkeys(("release", "continue", "unpause"), "resume JOB"),
    **dict.fromkeys(("explain", "reason"), "why JOB"),
}
"""What those who come from Slurm, task-spooler and others type, and what it is called here."""


def _here_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


class ByName(Mapping[str, Any]):
    """The commands; the module of one is imported when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = OLD_NAMES[name] if name in OLD_NAMES else COMMANDS[name]
            self._made[name] = _made(name, module)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _made(name: str, module_name: str) -> Any:
    """Return a command as Typer runs it."""
    module = import_module(f"shunter.cli.{module_name}")
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    if (below := getattr(module, f"{name}_commands", None)) is not None:
        alone.add_typer(below, name=name)
        group = cast("TyperGroup", get_command(alone)).commands[name]
        return name_values(take_plain_values(group))
    if hasattr(module, "register"):
        module.register(alone)
    else:
        function = getattr(module, name.replace("-", "_"))
        table = function.__annotations__.get("options")
        settings = {"ignore_unknown_options": True} if name == "priority" else None  # -5: a number
        alone.command(name, context_settings=settings)(
            function if table is None else takes_options(table, function)
        )
    return name_values(take_plain_values(get_command(alone)))


class Commands(TyperGroup):
    """Turns every error of ours into lines on stderr and its exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        take_plain_values(self)
        self.commands: Mapping[str, Any] = ByName()  # type: ignore[assignment]  # none is added

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; propose ours for verbs of others and for old names."""
        if args[0] in OLD_NAMES and not ctx.resilient_parsing:
            note_new_name(args[0], args[0])
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            if ours := OF_OTHERS.get(args[0]):
                error.message = f"No such command {args[0]!r}: it is `shunter {ours}` here."
            raise

    def invoke(self, ctx: Any) -> object:  # typer keeps the type of its contexts to itself
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except ShunterError as error:
            output.print_error(error)
            raise typer.Exit(error.exit_code) from error
        except KeyError as error:
            from shunter.cli.answers import lacking

            lacks = lacking(error)
            if lacks is None:
                raise
            output.print_error(lacks)
            raise typer.Exit(lacks.exit_code) from error
        except FileNotFoundError as error:
            if not _here_is_gone():
                raise
            chdir = ", or name one with --chdir" if ctx.invoked_subcommand == "submit" else ""
            gone = NotFoundError(f"the current folder is gone: cd to another one{chdir}")
            output.print_error(gone)
            raise typer.Exit(gone.exit_code) from error

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands below their headings, each with its whole first sentence.

        A group for administrators is listed by its commands.
        """
        for heading, names in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (shown, command.get_short_help_str(HELP_MOST))
                        for name in names
                        for shown, command in _listed(name, self.commands[name])
                    ]
                )


def _listed(name: str, command: Any) -> list[tuple[str, Any]]:
    """Return the lines of a command in the help: itself, or those of `admin`."""
    if name != "admin":
        return [(name, command)]
    return [(f"{name} {below}", found) for below, found in command.commands.items()]


app = typer.Typer(
    name="shunter",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing the help costs as much as all the rest of starting up
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    """Run the command that was typed, and exit."""
    output.replace_closed()
    try:
        with output.ended_if_unwritable():
            app(prog_name="shunter")
    finally:
        end_uncollected()


def _print_version(wanted: bool) -> None:
    if wanted:
        output.print_line(f"shunter {__version__}")
        raise typer.Exit


@app.callback()
def shunter(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="Print without colour, as with NO_COLOR set.")
    ] = False,
) -> None:
    """Schedule deep-learning jobs on a GPU cluster, out of one event log."""
    output.use_color(not no_color)
