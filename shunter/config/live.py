"""`[backend]` and `[server]`: the sections of a config that only a live cluster reads.

Read `LimitsSection` first: the table of each backend (SSH, Slurm, this machine) adds keys to it.
No part of `[server]` changes a decision.
"""

from ipaddress import ip_address
from signal import Signals
from typing import Annotated, Literal, Self, TypedDict

from pydantic import BeforeValidator, Field, model_validator

from shunter.addresses import TcpAddress, UnixAddress, parse_address
from shunter.config.section import Count, Positive, Section, Span, Stretch
from shunter.errors import UsageError

SignalName = Annotated[str, Field(pattern="^SIG[A-Z0-9]+$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
_SECOND = 1_000_000


class LimitsSection(Section):
    """What supervisors and their jobs are given of time and space."""

    cooperative: Stretch = Field(
        default=60 * _SECOND, description="how long a job may take to save before it is signalled"
    )
    signal: Stretch = Field(
        default=60 * _SECOND, description="how long after its signal before it is told to end"
    )
    restart: Stretch = Field(
        default=10 * _SECOND, description="how long after SIGTERM before SIGKILL, on suspension"
    )
    suspend_signal: SignalName = Field(
        default="SIGUSR1", description="the signal of suspend mode 'signal'"
    )
    grace: Span = Field(
        default=10 * _SECOND, description="how long after SIGTERM before SIGKILL, on cancellation"
    )
    launch: Stretch = Field(
        default=20 * _SECOND, description="how long a supervisor may take to start"
    )
    heartbeat: Stretch = Field(
        default=5 * _SECOND, description="how often the scheduler shows that it lives"
    )
    heartbeat_deadline: Stretch = Field(
        default=900 * _SECOND, description="without a sign for so long, supervisors end their jobs"
    )
    sample: Span = Field(
        default=10 * _SECOND,
        description="how often the speed and use of each job are sampled; 0 never",
    )
    output_mb: int = Field(
        default=1024,
        ge=1,
        le=1_048_576,
        description="what is kept of what a rank prints to each of stdout and stderr; beyond it "
        "the middle is dropped, and at least three quarters of it stay: the first quarter, and the "
        "end",
    )
    keep: Span = Field(
        default=0,
        description="how long output and records of jobs that have ended are kept, such as '90d'; "
        "0 for ever; checkpoints are never removed",
    )
    ports: tuple[Port, Port] = Field(
        default=(20_000, 28_999),
        description="the first and the last port on which the ranks of a job may meet",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.suspend_signal not in Signals.__members__:
            raise ValueError(f"suspend_signal = {self.suspend_signal!r} is no signal here")
        if self.ports[0] > self.ports[1]:
            raise ValueError("ports: expected the first port, then the last")
        if self.heartbeat_deadline < 3 * self.heartbeat:
            raise ValueError("heartbeat_deadline: expected three times heartbeat or more")
        return self


class SharedLimits(TypedDict):
    """Fields of `shunter.backends.live.settings.Limits`, in seconds and bytes."""

    cooperative_s: float
    signal_s: float
    restart_s: float
    suspend_signal: int
    grace_s: float
    launch_s: float
    heartbeat_deadline_s: float
    sample_s: float
    output_bytes_max: int
    gang_ports: tuple[int, int]


def shared_limits(section: LimitsSection) -> SharedLimits:
    """Return the limits that each kind of backend takes from its table."""
    return {
        "cooperative_s": section.cooperative / 1e6,
        "signal_s": section.signal / 1e6,
        "restart_s": section.restart / 1e6,
        "suspend_signal": Signals[section.suspend_signal].value,
        "grace_s": section.grace / 1e6,
        "launch_s": section.launch / 1e6,
        "heartbeat_deadline_s": section.heartbeat_deadline / 1e6,
        "sample_s": section.sample / 1e6,
        "output_bytes_max": section.output_mb << 20,
        "gang_ports": (section.ports[0], section.ports[1] + 1),
    }


# `[backend.ssh]`. Nothing of the operator's own SSH set-up counts unless it is named here, and a
# server whose host key is not in `known_hosts` is refused.

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


# `[backend.slurm]`. The commands of Slurm are found by PATH and SLURM_CONF of the daemon.

POLL_LEAST = 2 * _SECOND
"""One question for the whole queue costs the controller little, and it answers others as well."""

OURS = frozenset(
    {"account", "array", "chdir", "comment", "cpus-per-task", "error", "export", "gid", "gpus"}
    | {"gpus-per-node", "gpus-per-task", "gres", "input", "job-name", "mem", "mem-per-cpu"}
    | {"mem-per-gpu", "no-requeue", "nodelist", "nodes", "ntasks", "ntasks-per-node", "open-mode"}
    | {"output", "parsable", "partition", "qos", "requeue", "signal", "test-only", "time", "uid"}
    | {"wait", "wrap", "clusters", "gpus-per-socket", "tres-per-task", "hold", "dependency"}
)
"""Options of sbatch that follow from the config and from what is planned."""

Option = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=.*)?$")]


class SlurmSection(LimitsSection):
    """A Slurm cluster, without any rights but those of who runs the daemon."""

    root: str = Field(
        min_length=1,
        description="a folder that this machine and all nodes share under the same path, for "
        "attempts, checkpoints and output",
    )
    partition: str = Field(min_length=1, description="the partition whose nodes stand in [cluster]")
    mode: Literal["pilot", "per-job"] = Field(
        default="pilot",
        description="'pilot': hold nodes by long jobs and run ours inside; 'per-job': one sbatch "
        "for each attempt, which gets its GPUs from Slurm",
    )
    stops_by: Literal["signals", "scontrol"] = Field(
        default="signals",
        description="how a job that is to stand still where it is does so in mode 'per-job': by "
        "'signals' alone, or suspended in Slurm as well ('scontrol'), which needs the rights of an "
        "operator; it keeps its GPUs either way",
    )
    account: str = Field(default="", description="the account to charge; empty: the user's usual")
    qos: str = Field(default="", description="the quality of service; empty: the usual one")
    time_limit: Stretch = Field(
        default=86_400 * _SECOND,
        description="how long Slurm is asked for a pilot, or for an attempt that names no limit",
    )
    idle_release: Span = Field(
        default=600 * _SECOND, description="how long a pilot without jobs keeps its node"
    )
    pilots_max: Positive | None = Field(
        default=None, description="pilots at once; no bound if left out but the nodes"
    )
    poll: Annotated[Stretch, Field(ge=POLL_LEAST)] = Field(
        default=5 * _SECOND, description="how often squeue is asked, once for all jobs; 2s or more"
    )
    call: Stretch = Field(
        default=20 * _SECOND,
        description="how long a command of Slurm may take; what takes longer is unknown",
    )
    python: str = Field(
        default="python3", min_length=1, description="Python 3.8 or later on the nodes"
    )
    listen: str = Field(
        default="", description="the address at which pilots dial in; empty: all of this machine"
    )
    addresses: tuple[str, ...] = Field(
        default=(),
        description="what the nodes call this machine, tried in turn; its host name if left out",
    )
    margin: Stretch = Field(
        default=30 * _SECOND,
        description="how long after heartbeat_deadline until a node that is silent counts as lost",
    )
    options: tuple[Option, ...] = Field(
        default=(), description="further options of sbatch, such as '--constraint=nvlink'"
    )

    @model_validator(mode="after")
    def _suspends_jobs_of_its_own(self) -> Self:
        if self.stops_by == "scontrol" and self.mode != "per-job":
            raise ValueError(
                "stops_by: 'scontrol' needs mode = 'per-job': a pilot is one job of Slurm, with "
                "all that runs inside; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _asks_for_nothing_twice(self) -> Self:
        for option in self.options:
            name = option.partition("=")[0].removeprefix("--")
            if name in OURS:
                raise ValueError(
                    f"options: {option} follows from other keys or from the plan; leave it out"
                )
        return self


# `[backend]`. On this machine the servers of `[cluster]` take its GPUs and CPUs in order.


class LocalSection(LimitsSection):
    """This machine as the cluster."""

    root: str = Field(
        min_length=1, description="a folder for attempts, checkpoints and output, of this cluster"
    )
    gpus: tuple[str, ...] | None = Field(
        default=None,
        description="GPUs as CUDA names them, given to the servers in order; "
        "if left out they are numbered from 0",
    )
    patrol: Stretch = Field(
        default=_SECOND, description="how often all attempts are looked at, whatever is told"
    )


class BackendSection(Section):
    """What carries decisions out."""

    kind: Literal["simulated", "local", "ssh", "slurm"] = Field(
        default="simulated",
        description="simulated time, this machine, servers over SSH, or a Slurm cluster",
    )
    local: LocalSection | None = Field(default=None, description="this machine as the cluster")
    ssh: SshSection | None = Field(default=None, description="servers reached over SSH")
    slurm: SlurmSection | None = Field(default=None, description="a partition of a Slurm cluster")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.kind == "local" and self.local is None:
            raise ValueError(
                "kind = 'local': expected a table [backend.local] with root = 'FOLDER'"
            )
        if self.kind == "ssh" and self.ssh is None:
            raise ValueError(
                "kind = 'ssh': expected a table [backend.ssh] with root = 'FOLDER' and keys; "
                "`shunter init --ssh HOSTS` writes one"
            )
        if self.kind == "slurm" and self.slurm is None:
            raise ValueError(
                "kind = 'slurm': expected a table [backend.slurm] with root = 'FOLDER' and "
                "partition; `shunter init --slurm PARTITION` writes one"
            )
        return self

    @property
    def is_live(self) -> bool:
        """Whether jobs really run."""
        return self.kind != "simulated"

    @property
    def launches_wait(self) -> bool:
        """Whether attempts wait in a queue that is not ours before they start: Slurm's."""
        slurm = self.slurm
        return self.kind == "slurm" and slurm is not None and slurm.mode == "per-job"

    @property
    def checkpoints_stay(self) -> bool:
        """Whether checkpoints lie on the servers that saved them, and must be copied."""
        return self.kind == "ssh" and self.ssh is not None and not self.ssh.checkpoints

    @property
    def keep_s(self) -> float:
        """How many seconds what ended jobs leave behind is kept; 0: for ever."""
        chosen = {"local": self.local, "ssh": self.ssh, "slurm": self.slurm}.get(self.kind)
        return 0.0 if chosen is None else chosen.keep / 1e6


BODY_BYTES_MOST = 1_048_576
"""A submission is a few hundred bytes; this is room for one with thousands of arguments."""


def _as_tuple(value: object) -> object:
    """Let one stand for a list of one; strict models want tuples from Python."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class TlsSection(Section):
    """The certificate of a daemon that others than this machine may reach."""

    certificate: str = Field(min_length=1, description="a PEM file with the whole chain")
    key: str = Field(min_length=1, description="a PEM file with the private key")


class ServerSection(Section):
    """Who may talk to a live cluster, and where."""

    listen: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        default=("unix:",),
        min_length=1,
        description="'unix:' (the usual socket of this user), 'unix:PATH', 'tcp:HOST:PORT'; "
        "one or a list",
    )
    socket_mode: Literal["0600", "0660", "0666"] = Field(
        default="0600",
        description="who may open the socket: the daemon's user, a group, everybody; "
        "the kernel tells who it was",
    )
    socket_group: str | None = Field(default=None, description="the group of the socket")
    token_file: str | None = Field(
        default=None, description="a file of mode 0600 with a line 'TOKEN USER' for each user"
    )
    tls: TlsSection | None = Field(default=None, description="for addresses others can reach")
    admins: tuple[str, ...] = Field(
        default=(),
        description="users who may act on everybody's jobs and on servers; "
        "root and the daemon's own user may anyway",
    )
    proposers: tuple[str, ...] = Field(
        default=(),
        description="users whose schedulers may propose places for their own jobs "
        "(policy.decentralised); admins may for everybody's",
    )
    proposals_per_s: float = Field(
        default=50.0,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="how often one of them may do so, and as often at once after a second of rest",
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="names by which proxies and tunnels reach the daemon over TCP"
    )
    body_bytes_most: int = Field(
        default=BODY_BYTES_MOST, ge=1024, le=2**30, description="a longer request is refused"
    )

    @property
    def addresses(self) -> tuple[UnixAddress | TcpAddress, ...]:
        """Where it listens."""
        return tuple(parse_address(text) for text in self.listen)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        try:
            addresses = self.addresses
        except UsageError as error:
            raise ValueError(f"listen: {error}") from error
        for address in addresses:
            if isinstance(address, UnixAddress):
                continue
            if address.has_tls:
                raise ValueError("listen: write tcp:HOST:PORT; [server.tls] says that it has TLS")
            if self.token_file is None:
                raise ValueError(
                    f"listen: {address} needs to know who calls: expected token_file = 'FILE'"
                )
            if not is_loopback(address.host) and self.tls is None:
                raise ValueError(
                    f"listen: {address} can be reached from elsewhere: expected [server.tls], "
                    "or a loopback address such as tcp:127.0.0.1:8711"
                )
        return self


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address; a name counts as public."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
