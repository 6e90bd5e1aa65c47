"""Settings of the live backends: `Owner` and `Limits` for all, and the servers of each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.events import NodeName


@dataclass(frozen=True, slots=True)
class Owner:
    """The scheduler that agents obey.

    `holder` tells two schedulers with copies of a log apart. `root` is a folder of this machine,
    for what jobs are given beside their specification. A cluster of one machine has no id: its
    attempts lie in that folder too.
    """

    cluster_id: str
    term: int
    holder: str
    root: str


class Socket(NamedTuple):
    """A socket of a server: a mask of the GPUs on it, and the numbers of its CPUs."""

    gpu_mask: int
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """How attempts share GPUs in turns, in microseconds.

    The rule is that of `shunter.backends.node.rotation`. At the end of a turn the next mini-batch
    boundary is waited for up to `boundary_most_us`.
    """

    quantum_us: int
    wait_most_us: int | None = None
    boundary_most_us: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What supervisors and agents are held to, in seconds.

    Agents are looked at every `patrol_s`, with a sign of life; `beat_s` is how often there is one
    in between, where that is not enough. `output_bytes_max` is kept of the output of a rank.
    `gang_ports` are those of which each attempt gets one for its ranks, the second no more.
    `checkpoints` is a folder that all servers share; where it is empty, checkpoints lie on the
    server that made them, and are carried over when a job moves. If it `is_limited`, attempts are
    held to the CPUs and memory of their allocations, also to parts of a CPU. If it `downsamples`,
    samples are told where they differ from those before, and at least each `told_every_s`; else
    each is. If it `is_bound`, attempts end with the agent that started them, and so with the
    scheduler. Without `slicing` nothing is started that is to share GPUs in turns. `visible` names
    the variable that tells a process its devices, for servers whose devices are not CUDA's.
    """

    cooperative_s: float = 60.0
    signal_s: float = 60.0
    restart_s: float = 10.0
    suspend_signal: int = 10
    grace_s: float = 10.0
    launch_s: float = 20.0
    heartbeat_deadline_s: float = 900.0
    sample_s: float = 10.0
    output_bytes_max: int = 1 << 30
    call_s: float = 20.0
    keepalive_s: float = 5.0
    patrol_s: float = 5.0
    beat_s: float | None = None
    margin_s: float = 30.0
    gang_ports: tuple[int, int] = (29_500, 29_999)
    checkpoints: str = ""
    is_limited: bool = False
    downsamples: bool = True
    told_every_s: float = 60.0
    is_bound: bool = False
    slicing: TurnSettings | None = None
    visible: Mapping[NodeName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A part of this machine: GPUs by index or UUID, CPUs, and its sockets."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = ()
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalSettings(Limits):
    """Where attempts live, and the limits of their supervisors.

    Below the control group `cgroup` memory is limited: None is the one the agent finds itself in,
    an empty one means never.
    """

    root: str
    nodes: tuple[LocalNode, ...]
    term: int
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": os.environ.get("PATH", os.defpath)}
    )
    cgroup: str | None = None
    beat_s: float | None = field(default=5.0, kw_only=True)
    patrol_s: float = field(default=1.0, kw_only=True)
    gang_ports: tuple[int, int] = field(default=(20_000, 29_000), kw_only=True)

    @property
    def owner(self) -> Owner:
        """Who schedules here."""
        return Owner("", self.term, "", self.root)


@dataclass(frozen=True, slots=True)
class SshHost:
    """A server and how to reach it.

    Its GPUs are named as CUDA does (index or UUID), its CPUs by number; `sockets` say which of them
    lie together. `base` is the folder of the
    scheduler there, and `~` the home of who logs in. `gang_address` is what other hosts call it,
    where that is not `address`; `cgroup` a control group there (a folder) that is ours to divide.
    """

    name: NodeName
    address: str
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = ()
    port: int = 22
    user: str = ""
    base: str = "~/.shunter"
    python: str = "python3"
    gang_address: str = ""
    cgroup: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class SshAccess:
    """Whom we believe, and who we are.

    Nothing of the user's own SSH set-up counts unless it is named here. `known_hosts` is a file; a
    host whose key is not in it is refused. `agent` is the socket of an SSH agent, and `config` a
    file of `ssh_config` options.
    """

    known_hosts: str
    keys: tuple[str, ...] = ()
    agent: str = ""
    config: str = ""


@dataclass(frozen=True, slots=True)
class SshSettings(Limits):
    """The cluster as SSH sees it: whose it is, and its hosts.

    `simultaneous` is how many connections may be opening at once.
    """

    hosts: tuple[SshHost, ...]
    access: SshAccess
    cluster_id: str
    term: int
    holder: str
    root: str
    connect_s: float = 15.0
    simultaneous: int = 8

    @property
    def owner(self) -> Owner:
        """Who schedules there."""
        return Owner(self.cluster_id, self.term, self.holder, self.root)
