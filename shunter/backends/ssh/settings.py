"""What the SSH backend is told: its hosts, how it reaches them, and how long it waits for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.backends.supervised.order_parts import Limits
from shunter.events.values.ids import NodeName


@dataclass(frozen=True, slots=True)
class SshHost:
    """A server and how to reach it.

    Its GPUs are named as CUDA does (index or UUID), its CPUs by number. `base` is the folder of the
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
    """The cluster as SSH sees it.

    `holder` tells two schedulers with copies of a log apart. `root` is a folder of this machine,
    for what jobs are given beside their specification.
    `checkpoints` is a folder that all hosts share; where it is empty, checkpoints lie on the host
    that made them, and are carried over when a job moves.
    """

    hosts: tuple[SshHost, ...]
    access: SshAccess
    cluster_id: str
    term: int
    holder: str
    root: str
    checkpoints: str = ""
    gang_ports: tuple[int, int] = (29500, 29999)
    connect_s: float = 15.0
    keepalive_s: float = 5.0
    call_s: float = 20.0
    simultaneous: int = 8
    patrol_s: float = 5.0
    margin_s: float = 30.0
