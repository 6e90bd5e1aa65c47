"""`shunter init`: write a config to begin with, for what is found on this machine or others."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from shunter.cli import output
from shunter.errors import UsageError, extra_hint


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
        from shunter.ops.slurm.writing import slurm_config

        return slurm_config(Slurm(), options.slurm, root=options.root, account=options.account)
    from shunter.ops.first_config import local_config

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
    from shunter.backends.live.settings import SshAccess
    from shunter.ops.hosts.writing import parsed_host, ssh_config

    agents = [key.removeprefix("agent:") for key in keys if key.startswith("agent:")]
    files = tuple(key for key in keys if not key.startswith("agent:"))
    access = SshAccess(known_hosts, files, "".join(agents[:1]))
    return ssh_config([parsed_host(host, python) for host in hosts], access, gpus)
