"""What the SSH backend is told: its hosts, how it reaches them, and how long it waits for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.backends.agents.settings import Limits, Owner, Socket
from shunter.events.values import NodeName


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
