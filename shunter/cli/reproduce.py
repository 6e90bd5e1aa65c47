"""`shunter reproduce`: the comparisons of papers, which the distribution shunter-papers brings."""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from shunter.errors import UsageError

__all__ = ["commands"]


class _Brought(TyperGroup):
    """The commands of another distribution, imported when they are asked for."""

    def list_commands(
        self, ctx: Any
    ) -> list[str]:  # typer keeps the type of its contexts to itself
        return _plugged().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _plugged().get_command(ctx, cmd_name)


def _plugged() -> TyperGroup:
    """Return the group of commands that the entry point `reproduce` names.

    Raises:
        UsageError: nothing that is installed brings it.
        ConfigError: what brings it cannot be imported.
    """
    from shunter.plugins import Plugins

    plugins = Plugins("command", "shunter.commands")
    point = plugins.point("reproduce")
    if point is None:
        raise UsageError(plugins.missing("reproduce"))
    group = get_command(plugins.loaded(point))
    assert isinstance(group, TyperGroup)
    return group


commands = typer.Typer(
    cls=_Brought,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run the comparison of a paper.",
)
