"""How commands reach the daemon."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shunter import __version__
from shunter.addresses import LATELY_S, TcpAddress, UnixAddress, was_there_lately
from shunter.cli import output
from shunter.errors import ShunterError, UnavailableError, UnreachableError, UsageError

if TYPE_CHECKING:
    from shunter.client import Client

PAUSE_S = 0.5
"""How long to wait before a daemon that is away is tried again."""

COMPLETED_MOST = 20
"""So many jobs that have ended are proposed for an id that is being typed."""

T = TypeVar("T")

_asked: list[str] = []
"""The daemon that was connected to last, if one was."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="The daemon: unix:PATH or http://HOST:PORT. Left out: SHUNTER_URL, or the usual "
        "socket.",
    ),
]


def job_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return ids that complete one, with the names of the jobs."""
    try:
        with connect(ctx.params.get("url")) as client:
            found = [*client.queue()["jobs"], *client.history(limit=COMPLETED_MOST)["jobs"]]
    except ShunterError:
        return []
    names = {one["id"]: one["name"] for one in found if one["id"].startswith(incomplete)}
    return list(names.items())


JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The job's id, such as j142.", autocompletion=job_ids),
]


def check_source(log: str | None, url: str | None) -> None:
    """Raise a UsageError if both a log and a daemon are named to be asked."""
    if log is not None and url is not None:
        raise UsageError("--log reads a log without a daemon and --url asks one: leave one out")


def connect(url: str | None) -> "Client":
    """Return a client of the daemon that is named, or of the usual one.

    Raises:
        UsageError: the address is none.
        UnreachableError: nothing is named, and nothing is running.
    """
    # httpx brings a command line of its own, whose click and rich would be a third of our start.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: not to be had
    from shunter.client import Client
    from shunter.client.transport import process_words

    def note() -> None:
        where = f"{client.address}{process_words(client.address)}"
        output.note(f"the daemon on {where} has not answered yet; Ctrl-C leaves it")

    client = Client(url)
    _asked[:] = [str(client.address)]
    client.on_slow = note
    return client


def lacking(error: KeyError) -> UnreachableError | None:
    """Return what a missing field of an answer means: a daemon of another version.

    None: the key is of something else, and missing by a fault of this program.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    if not _asked or not place.startswith(("shunter.cli.", "shunter.client.")):
        return None
    version = "another version"
    with suppress(ShunterError, KeyError), connect(_asked[0]) as client:
        version = f"Shunter {client.daemon()['version']}"
    return UnreachableError(
        f"the answer of the daemon on {_asked[0]} lacks the field {error}: that is of {version}, "
        f"and this is {__version__}: `shunter down`, then `shunter up`, takes this one; jobs run on"
    )


def patiently(
    do: Callable[[], T], address: UnixAddress | TcpAddress, patience_s: float | None
) -> T:
    """Do something, again for some seconds where no daemon answers now.

    That is said once, on stderr. It must be something that may be done twice.

    Args:
        do: what is done.
        address: where the daemon is.
        patience_s: for how long; None: LATELY_S, and not at all where none was there lately.
    Raises:
        UnavailableError: none has answered by then.
    """
    until_s: float | None = None
    while True:
        try:
            return do()
        except UnavailableError as error:
            now_s = time.monotonic()
            if patience_s is None:
                patience_s = LATELY_S if was_there_lately(address) else 0.0
            if until_s is None:
                until_s = now_s + patience_s
                if patience_s > 0:
                    output.note(f"{error}; it is tried again for {patience_s:g} s")
            if now_s >= until_s:
                if patience_s > 0:  # the whole sentence was said before
                    told = f"no daemon answers after {patience_s:g} s either"
                    raise UnavailableError(f"{told}: given up") from error
                raise
            time.sleep(min(PAUSE_S, until_s - now_s))
