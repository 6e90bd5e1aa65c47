"""`shunter serve`: run a live cluster until it is told to stop."""

import fcntl
import os
import stat
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated

import typer

from shunter import clock
from shunter.cli import output
from shunter.cli.options import ConfigFile, Settings, load
from shunter.counting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.api.sockets import Listening
    from shunter.config import LoadedConfig
    from shunter.daemon import Site


def serve(
    config: ConfigFile,
    settings: Settings = None,
    make_token: Annotated[
        bool,
        typer.Option(
            "--make-token", help="Make server.token_file, with a token of yours, if it is missing."
        ),
    ] = False,
    set_aside: Annotated[
        list[str] | None,
        typer.Option(
            "--set-aside", metavar="JOB", help="End this job's attempt unread, and hold the job."
        ),
    ] = None,
    accept_loss: Annotated[
        int | None,
        typer.Option(
            metavar="SEQ",
            min=2,
            help="Go on though the log has lost its events from this number on, and record that.",
        ),
    ] = None,
) -> None:
    """Run a live cluster until SIGTERM or SIGINT; its jobs run on after that.

    Says on stderr when it takes commands, and where. A second daemon on the same socket or log is
    refused.
    """
    from shunter.gc_control import collect_as_usual, collector_off
    from shunter.policy_process.child import fork_ahead

    _date_messages()
    with collector_off():
        loaded = load(config, settings)
        _check(loaded)
        if make_token:
            _make_token(loaded)
        fork_ahead()
        import anyio

        from shunter.api.serving import run_daemon
        from shunter.events.log import WithoutLost
        from shunter.events.values import JobId
    collect_as_usual()
    resume = True if accept_loss is None else WithoutLost(accept_loss)
    aside = [JobId(job) for job in set_aside or ()]
    sites: list[Site] = []

    def ready(site: "Site", sockets: "Sequence[Listening]") -> None:
        sites.append(site)
        _say_ready(site, sockets)

    anyio.run(run_daemon, loaded, ready, output.note, aside, resume)
    output.note(f"stopped; {_left(sites[-1]) if sites else 'no job was started'}")


def _left(site: "Site") -> str:
    """Return how many jobs run on without a daemon."""
    from shunter.core.state import WAITING

    count = sum(job.phase is not WAITING for job in site.state.jobs.values())
    if not count:
        return "no job runs"
    return f"{counted(count, 'job')} {'runs' if count == 1 else 'run'} on"


class _Dated(TextIOWrapper):
    """Puts the date and time before each line."""

    _is_at_start = True

    def write(self, text: str, /) -> int:
        now = clock.wall_now().astimezone().isoformat(sep=" ", timespec="seconds")
        for line in text.splitlines(keepends=True):
            super().write(f"{now} {line}" if self._is_at_start else line)
            self._is_at_start = line.endswith("\n")
        return len(text)


def _date_messages() -> None:
    """Date what is said where stderr is appended to a file, as by `shunter up`."""
    number = sys.stderr.fileno()
    is_file = stat.S_ISREG(os.fstat(number).st_mode)
    if is_file and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND:
        sys.stderr = _Dated(sys.stderr.buffer, "utf-8", "backslashreplace", line_buffering=True)


def _check(loaded: "LoadedConfig") -> None:
    """Say what to know of a config that is served.

    Raises:
        ConfigError: its backend cannot be served.
    """
    warnings: list[str] = []
    if loaded.config.backend.kind == "slurm":
        from shunter.daemon.slurm import check_served, served_notes

        check_served(loaded.config.backend)
        warnings += served_notes(loaded)
    if loaded.sensitivity is not None:
        from shunter.run.table_range import servers_out_of_range

        warnings += servers_out_of_range(loaded)
    if said := oracle_note(loaded):
        output.note(said)
    for warning in warnings:
        output.note(f"warning: {warning}")


def oracle_note(loaded: "LoadedConfig") -> str:
    """Return what an oracle goes by in a live cluster; empty if the policy is none."""
    from shunter.config.resolved import policy_runtime

    if not policy_runtime(loaded, instant=False).policy.oracle:
        return ""
    return (
        f"policy {loaded.config.policy.name} is told run times in simulations only: here it goes "
        "by the steps that jobs tell, or their time limits (`submit --time`); others come last"
    )


def _say_ready(site: "Site", sockets: "Sequence[Listening]") -> None:
    where = ", ".join(str(each.address) for each in sockets)
    output.note(
        f"ready: cluster {site.cluster_id}, term {site.term}, policy {site.policy}, on {where}"
    )


def _make_token(loaded: "LoadedConfig") -> None:
    from shunter.api.access import make_tokens, user_name
    from shunter.errors import UsageError

    path = loaded.config.server.token_file
    if path is None:
        raise UsageError("--make-token: expected server.token_file = 'FILE' in the config")
    user = user_name(os.geteuid())
    if make_tokens(path, user):
        output.note(f"made {path} with a token of {user}")
