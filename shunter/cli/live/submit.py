"""`shunter submit`: hand a command or a script to the cluster."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from shunter.cli import output
from shunter.cli.forking.forecasts import in_words, trust
from shunter.cli.live.connecting import connect, patiently
from shunter.cli.live.reasons import clause
from shunter.cli.live.submitting.options import SubmitOptions
from shunter.cli.live.submitting.quantities import (
    array_of,
    dependency_of,
    memory_mb,
    point_of,
    seconds,
    shape_of,
)
from shunter.cli.live.submitting.script import (
    Script,
    command_of,
    is_program,
    name_of,
    read_script,
)
from shunter.cli.live.submitting.waiting import wait_for
from shunter.cli.live.tables import one_line
from shunter.cli.option_tables import takes_options
from shunter.client.requests import is_passed_on
from shunter.counting import counted
from shunter.errors import ShunterError, UnavailableError, UnreachableError, UsageError

if TYPE_CHECKING:
    from shunter.client import Client
    from shunter.client.requests import Answer, JobOptions


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
    from shunter.client.transport import is_open

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
    """Return what is said of how a job may be spread over servers.

    Raises:
        UsageError: it contradicts itself, or a shape cannot be read.
    """
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
    """Return what is said of how a job bears distance, neighbours and moves.

    Raises:
        UsageError: a point of its curve cannot be read.
    """
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
        for line in (*in_words(forecast), *trust(forecast)):
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
