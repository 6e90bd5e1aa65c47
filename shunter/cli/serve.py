"""`shunter serve`, which runs a live cluster until it is stopped, and what comes before it.

`shunter init` writes a config to begin with, `shunter doctor` says what a machine lacks.
"""

import fcntl
import os
import stat
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter import clock
from shunter.cli import output
from shunter.cli.options import ConfigFile, Json, Settings, load
from shunter.counting import counted
from shunter.errors import UsageError, extra_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.api import Listening
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
    from shunter.policy_process import fork_ahead

    _date_messages()
    with collector_off():
        loaded = load(config, settings)
        _check(loaded)
        if make_token:
            _make_token(loaded)
        fork_ahead()
        import anyio

        from shunter.api import run_daemon
        from shunter.events import JobId
        from shunter.events.log import WithoutLost
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
    from shunter.core import WAITING

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
    """Say what to know of a config; ConfigError: its backend cannot be served."""
    warnings: list[str] = []
    if loaded.config.backend.kind == "slurm":
        from shunter.daemon import check_served, served_notes

        check_served(loaded.config.backend)
        warnings += served_notes(loaded)
    if loaded.sensitivity is not None:
        from shunter.run import servers_out_of_range

        warnings += servers_out_of_range(loaded)
    if said := oracle_note(loaded):
        output.note(said)
    for warning in warnings:
        output.note(f"warning: {warning}")


def oracle_note(loaded: "LoadedConfig") -> str:
    """Return what an oracle goes by in a live cluster; empty if the policy is none."""
    from shunter.config import policy_runtime

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
    from shunter.api import make_tokens, user_name

    path = loaded.config.server.token_file
    if path is None:
        raise UsageError("--make-token: expected server.token_file = 'FILE' in the config")
    user = user_name(os.geteuid())
    if make_tokens(path, user):
        output.note(f"made {path} with a token of {user}")


# `shunter init`.


@dataclass(frozen=True)
class InitOptions:
    """What was said on the command line."""

    local: Annotated[bool, typer.Option("--local", help="A cluster of this one machine.")] = False
    gpus: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="How many GPUs it has; left out: as many as NVML or nvidia-smi sees. With --ssh: "
            "how many each server has where none is seen.",
        ),
    ] = None
    ssh: Annotated[
        str,
        typer.Option("--ssh", metavar="HOSTS", help="A cluster of servers: [USER@]HOST[:PORT],…"),
    ] = ""
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="FILE", help="A private key for --ssh, or agent:SOCKET."),
    ] = None
    known_hosts: Annotated[
        str, typer.Option(metavar="FILE", help="The host keys to believe, for --ssh.")
    ] = "~/.ssh/known_hosts"
    python: Annotated[
        str, typer.Option(metavar="PATH", help="Python 3.8 or later on the servers, for --ssh.")
    ] = "python3"
    slurm: Annotated[
        str,
        typer.Option("--slurm", metavar="PARTITION", help="A cluster of a partition of Slurm."),
    ] = ""
    root: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="A folder all nodes share with us, for --slurm."),
    ] = "shunter-attempts"
    account: Annotated[
        str, typer.Option(metavar="NAME", help="Whom Slurm charges the jobs to, for --slurm.")
    ] = ""
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="Where the config goes.")
    ] = Path("shunter.toml")
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False


def init(options: InitOptions) -> None:
    """Write a config to begin with, explained line by line."""
    kinds = {"--local": options.local, "--ssh": options.ssh, "--slurm": options.slurm}
    chosen = [name for name, given in kinds.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"init: {' and '.join(chosen)} are both given: expected one of them")
    if not chosen:
        raise UsageError(
            "init: expected --local, a cluster of this machine, or --ssh HOSTS, one of others, or "
            "--slurm PARTITION, one of a Slurm cluster"
        )
    out = options.out
    if out.exists() and not options.force:
        raise UsageError(f"{out} is there already; --force replaces it, --out names another one")
    text, notes = _written(options)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
    for line in notes:
        output.note(line)
    output.print_line(f"wrote {out}; next: shunter doctor {out}, then shunter serve {out}")


def _written(options: InitOptions) -> tuple[str, list[str]]:
    """Return a config, and what is to be said about it."""
    if options.ssh:
        hosts, keys = options.ssh.split(","), options.key or []
        return _over_ssh(hosts, options.python, options.known_hosts, keys, options.gpus)
    if options.slurm:
        from shunter.backends.slurm import Slurm
        from shunter.ops import slurm_config

        return slurm_config(Slurm(), options.slurm, root=options.root, account=options.account)
    from shunter.ops import local_config

    return local_config(options.gpus)


def _over_ssh(
    hosts: list[str], python: str, known_hosts: str, keys: list[str], gpus: int | None
) -> tuple[str, list[str]]:
    if find_spec("asyncssh") is None:
        raise UsageError(f"init --ssh needs asyncssh: {extra_hint('ssh')}")
    if not keys:
        raise UsageError(
            "init --ssh: expected --key FILE, such as ~/.ssh/id_ed25519, or --key agent:SOCKET"
        )
    from shunter.backends.live import SshAccess
    from shunter.ops import parsed_host, ssh_config

    agents = [key.removeprefix("agent:") for key in keys if key.startswith("agent:")]
    files = tuple(key for key in keys if not key.startswith("agent:"))
    access = SshAccess(known_hosts, files, "".join(agents[:1]))
    return ssh_config([parsed_host(host, python) for host in hosts], access, gpus)


# `shunter doctor`.

MARKS = {"good": "ok", "poor": "poor", "bad": "BAD"}


def doctor(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="The config it is to run.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Check this machine; exit 1 if something keeps a cluster from running."""
    from shunter.ops import Looked, examined

    found = examined(Looked(None if config is None else load(config, settings), output.note))
    if as_json:
        rows = [
            {"subject": one.subject, "state": one.state, "what": one.what, "mend": one.mend}
            for one in found
        ]
        output.print_json({"schema_version": 1, "findings": rows})
    else:
        for one in found:
            output.print_line(f"{MARKS[one.state]:4}  {one.subject:8}  {one.what}")
            if one.mend:
                output.print_line(f"{'':4}  {'':8}  -> {one.mend}")
    if any(one.state == "bad" for one in found):
        raise typer.Exit(1)
