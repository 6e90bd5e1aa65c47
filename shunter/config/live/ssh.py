"""`[backend.ssh]`: how the servers of `[cluster]` are reached, each under its own name.

Nothing of the operator's own SSH set-up counts unless it is named here: keys, an agent's socket, a
file of options. A server whose host key is not in `known_hosts` is refused.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from shunter.config.live.limits import LimitsSection
from shunter.config.section import Count, Positive, Section, Stretch

_SECOND = 1_000_000
MARGIN_LEAST = 3 * _SECOND
SshPort = Annotated[int, Field(ge=1, le=65_535)]


class SshHostSection(Section):
    """What is other than usual about one server."""

    address: str = Field(default="", description="its host name or address; its own name if empty")
    port: SshPort | None = Field(default=None, description="where its sshd listens")
    user: str | None = Field(default=None, description="whom to log in as")
    base: str | None = Field(default=None, description="the scheduler's folder there")
    python: str | None = Field(default=None, description="its Python, 3.8 or later")
    gpus: tuple[str, ...] | None = Field(
        default=None, description="its GPUs as CUDA names them; if left out numbered from 0"
    )
    cpus: tuple[Count, ...] | None = Field(
        default=None, description="the CPUs that jobs are bound to; if left out numbered from 0"
    )
    gang_address: str = Field(
        default="", description="what other servers call it (MASTER_ADDR); its address if empty"
    )
    cgroup: str = Field(
        default="",
        description="the folder of a control group there that is handed to the scheduler, to limit "
        "memory and CPUs; if left out the one of the session, where that may be divided",
    )
    environment: dict[str, str] = Field(
        default={}, description="environment of all jobs there, such as PATH"
    )


class SshSection(LimitsSection):
    """Servers reached over SSH; nothing is installed on them."""

    root: str = Field(
        min_length=1, description="a folder of this machine for what jobs are given in secret"
    )
    known_hosts: str = Field(
        default="~/.ssh/known_hosts", min_length=1, description="the host keys we believe"
    )
    keys: tuple[str, ...] = Field(default=(), description="files of private keys")
    agent: str = Field(default="", description="the socket of an SSH agent; empty: none is asked")
    config: str = Field(default="", description="a file of ssh_config; empty: none is read")
    user: str = Field(default="", description="whom to log in as; empty: who runs the scheduler")
    port: SshPort = Field(default=22, description="where sshd listens")
    base: str = Field(
        default="~/.shunter", min_length=1, description="the scheduler's folder on each server"
    )
    python: str = Field(default="python3", min_length=1, description="Python 3.8 or later there")
    checkpoints: str = Field(
        default="",
        description="a folder all servers share, for checkpoints; empty: they are copied when a "
        "job moves, up to a size (how-to share-servers-over-ssh, How large a checkpoint may be)",
    )
    connect: Stretch = Field(
        default=15 * _SECOND, description="how long a server may take to let us in"
    )
    keepalive: Stretch = Field(
        default=5 * _SECOND,
        description="how often a silent connection is tried; after three times it is lost",
    )
    call: Stretch = Field(
        default=20 * _SECOND, description="how long a server may take to answer a question"
    )
    margin: Stretch = Field(
        default=30 * _SECOND,
        description="how long after heartbeat_deadline jobs of a silent server start elsewhere",
    )
    simultaneous: Positive = Field(
        default=8, description="connections opened at once; sshd drops some of more than ten"
    )
    hosts: dict[str, SshHostSection] = Field(
        default={}, description="servers that differ, by their names in [cluster]"
    )

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        # A supervisor looks once a second: it sees a sign late, and its absence late again.
        if self.margin < MARGIN_LEAST:
            raise ValueError("margin: expected 3s or more, in which supervisors end their jobs")
        if not (self.keys or self.agent or self.config):
            raise ValueError(
                "no way to log in: expected keys = ['FILE'], agent = 'SOCKET' or config = 'FILE'"
            )
        return self
