"""Options that several commands share, the config or log they lead to, and options as a table."""

import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import MISSING, fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperGroup

from shunter.cli import output

if TYPE_CHECKING:
    from shunter.config import LoadedConfig
    from shunter.events.log import LogReader

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file.")]
LogAddress = Annotated[str, typer.Argument(metavar="LOG", help="A log: its path or address.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key of the config; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

HELP_MOST = 200
"""How much of a command's first sentence a list of commands shows, in letters."""


class CommandGroup(TyperGroup):
    """Commands below a name, whose help shows the whole first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, over several lines where the terminal is narrow."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(HELP_MOST))
                    for name, command in found
                    if command is not None and not command.hidden
                ]
            )


def note_new_name(old: str, name: str) -> None:
    """Say on stderr what a command is called that was run by its old name."""
    output.note(f"`shunter {old}` is `shunter admin {name}` now; the old name will go")


def load(
    path: Path, settings: Sequence[str] | None, further: Sequence[tuple[str, str]] = ()
) -> "LoadedConfig":
    """Return the config of a command: its file, the environment, its options."""
    from shunter.config import load_config

    return load_config(path, [*(("--set", text) for text in settings or ()), *further])


@asynccontextmanager
async def reading(log: str) -> AsyncIterator["LogReader"]:
    """Open a log by its path or address; say on stderr what to know of it.

    Raises:
        NotFoundError: there is no such log.
        LogVersionError: it is something else, or of a newer Shunter.
    """
    from shunter.events.log import read_log

    async with read_log(log) as reader:
        if reader.warning:
            output.note(f"warning: {reader.warning}")
        yield reader


# Options of a command as a table, since a function with 25 parameters would be hard to read.
#
# Typer has pydantic convert every option, given or not: its import and its adapters were a third of
# the CPU of `shunter submit`. Plain values are taken as they are; Typer converts the rest.

Table = TypeVar("Table")

_NUMBERS = {int: re.compile(r"-?[0-9]{1,18}"), float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")}
"""The texts that are numbers, by their type; what else may be one Typer says."""

_OTHER = object()


def takes_options(table: type[Table], command: Callable[[Table], None]) -> Callable[..., None]:
    """Return a function with every option as a parameter, for Typer to read."""

    def run(**said: Any) -> None:
        command(table(**said))

    return with_parameters(run, parameters_of(table), command)


def parameters_of(table: type) -> list[Parameter]:
    """Return the options of a table as parameters."""
    hints = get_type_hints(table, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(table)
    ]


def with_parameters(
    run: Callable[..., None], parameters: Sequence[Parameter], like: Callable[..., None]
) -> Callable[..., None]:
    """Give a function parameters for Typer, with the name and help of another."""
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # inspect looks there
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__, run.__name__ = like.__doc__, like.__name__
    return run


def take_plain_values(command: Any) -> Any:
    """Let a command, or all of a group, take plain values as they are; return it."""
    command.get_params = partial(_parameters, command.get_params)
    for below in getattr(command, "commands", {}).values():
        take_plain_values(below)
    return command


def name_values(command: Any) -> Any:
    """Let the help of a command or group show no types of Python; return it."""
    for each in command.params:
        _name_value(each)
    for below in getattr(command, "commands", {}).values():
        name_values(below)
    return command


def _name_value(parameter: Any) -> None:
    """Let the help call a value N or by a name if nothing else is declared."""
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = _no_type
        parameter.get_usage_pieces = partial(_declared, parameter)
        return
    taken = parameter.type_descriptor
    if parameter.metavar is None and not parameter.is_flag and not taken.is_choice:
        is_number = taken.annotation in (int, float, list[int], list[float])
        parameter.metavar = "N" if is_number else parameter.name.upper()


def _no_type(ctx: Any) -> None:
    """Return nothing: an argument is shown by its name alone."""


def _declared(argument: Any, _: object) -> list[str]:
    """Return an argument as the line of usage shows it."""
    return [argument.metavar or argument.name.upper()]


def _parameters(usual: Callable[[Any], list[Any]], ctx: Any) -> list[Any]:
    """Return the parameters of a command, that of its help among them."""
    found = usual(ctx)
    for each in found:
        if "process_value" not in vars(each):
            each.process_value = partial(_processed, each, each.process_value)
    return found


def _processed(
    parameter: Any, usual: Callable[[Any, object], object], ctx: Any, value: object
) -> object:
    """Return a value as the command gets it."""
    taken = _plain(parameter, value)
    if taken is _OTHER:
        return usual(ctx, value)
    return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)


def _plain(parameter: Any, value: object) -> object:
    """Return what Typer would convert a value to; `_OTHER`: see what Typer does."""
    is_many = parameter.multiple or parameter.nargs == -1
    if value is None or value == ():
        return _OTHER if parameter.required else () if is_many else None
    wanted = parameter.type_descriptor.annotation
    if wanted in (str, bool) and type(value) is wanted:
        return value
    if wanted == list[str] and isinstance(value, tuple):
        return list(value) if all(isinstance(one, str) for one in value) else _OTHER
    if wanted is Path and isinstance(value, str):  # Typer refuses what cannot be read
        return Path(value) if os.access(value, os.R_OK) or not Path(value).exists() else _OTHER
    if wanted not in _NUMBERS:
        return _OTHER
    if isinstance(value, str) and _NUMBERS[wanted].fullmatch(value):
        value = wanted(value)
    least, most = parameter.min, parameter.max
    is_within = isinstance(value, wanted) and (least is None or value >= least)
    return value if is_within and (most is None or value <= most) else _OTHER
