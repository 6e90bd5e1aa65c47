"""How commands reach the daemon."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shunter.client import Client

__all__ = ["JobArgument", "Url", "connect"]

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="The daemon: unix:PATH or http://HOST:PORT. Left out: SHUNTER_URL, or the usual "
        "socket.",
    ),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, such as j142.")]


def connect(url: str | None) -> "Client":
    """Return a client of the daemon that is named, or of the usual one.

    Raises:
        UsageError: the address is none.
        UnreachableError: nothing is named, and nothing is running.
    """
    # httpx brings a command line of its own, whose click and rich would be a third of our start.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: not to be had
    from shunter.client import Client

    return Client(url)
