"""The command `shunter` with all its subcommands, and what an error becomes.

No module of commands imports anything heavy at its top, so that `shunter --help` starts within
0.3 s.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shunter import __version__
from shunter.app.cli import (
    compare,
    config,
    log,
    output,
    policy,
    profile,
    replay,
    reproduce,
    simulate,
    trace,
    why,
)
from shunter.app.cli.analysis import diff, report
from shunter.app.cli.forking import what_if
from shunter.app.cli.live import (
    control,
    doctor,
    group,
    init,
    logs,
    nodes,
    queue,
    serve,
    show,
    submit,
)
from shunter.app.cli.option_tables import takes_options
from shunter.app.cli.up import down, up
from shunter.app.gc_control import collect_rarely, end_uncollected
from shunter.errors import NotFoundError, ShunterError

GROUPS = {
    "reproduce": reproduce.papers,
    "log": log.commands,
    "trace": trace.app,
    "policy": policy.app,
    "config": config.app,
    "nodes": nodes.group,
    "group": group.commands,
}
ALONE = (
    *(compare.demo, simulate.simulate, compare.compare, replay.replay, diff.diff, report.report),
    takes_options(why.WhyOptions, why.why),
    takes_options(what_if.WhatIfOptions, what_if.what_if),
    profile.profile,
)
DAEMON = (
    *(up, down),
    takes_options(init.InitOptions, init.init),
    *(doctor.doctor, serve.serve),
)
JOBS = (
    takes_options(queue.QueueOptions, queue.queue),
    *(show.show, show.history, logs.logs, control.cancel, control.suspend),
    *(control.resume, control.discard_checkpoint, control.set_aside, control.resize),
)

HELP_MOST = 200
"""How much of a command's first sentence the list of commands shows, in letters."""


def _here_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


class Commands(TyperGroup):
    """Turns every error of ours into lines on stderr and its exit code."""

    def invoke(self, ctx: Any) -> object:  # typer keeps the type of its contexts to itself
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except ShunterError as error:
            output.print_error(error)
            raise typer.Exit(error.exit_code) from error
        except FileNotFoundError as error:
            if not _here_is_gone():
                raise
            chdir = ", or name one with --chdir" if ctx.invoked_subcommand == "submit" else ""
            gone = NotFoundError(f"the current folder is gone: cd to another one{chdir}")
            output.print_error(gone)
            raise typer.Exit(gone.exit_code) from error

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with its whole first sentence."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(HELP_MOST))
            for name, command in found
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="shunter",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing the help costs as much as all the rest of starting up
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and exit."""
    collect_rarely()
    output.replace_closed()
    try:
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


for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)
for _command in (*ALONE, *DAEMON):
    app.command()(_command)
submit.register(app)
for _about_jobs in JOBS:
    app.command()(_about_jobs)
app.command(context_settings={"ignore_unknown_options": True})(control.priority)  # -5 is a number
