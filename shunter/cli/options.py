"""Options that several commands share, and the config or log they lead to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli import output

if TYPE_CHECKING:
    from shunter.config import LoadedConfig
    from shunter.events.log import LogReader

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key of the config; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


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
