"""Options that several commands share, and the config they lead to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shunter.app.config import LoadedConfig

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
    from shunter.app.config import load_config

    return load_config(path, [*(("--set", text) for text in settings or ()), *further])
