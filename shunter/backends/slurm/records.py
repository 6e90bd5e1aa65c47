"""What Slurm tells of jobs, nodes, partitions, reservations and switches, as typed values.

States and flags stay texts: each version of Slurm adds some, and an unknown one is no error.
Instants are seconds since 1970; None is an instant or a limit that is not set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.backends.slurm.quantities import duration

# How Slurm ends jobs, in words: by its time limit, by scancel, by preemption, with a node.

SAYS_WHY = frozenset({"CANCELLED", "DEADLINE", "PREEMPTED", "TIMEOUT"})
"""Last states that say for what Slurm ended a job, which sends SIGTERM for all of them."""


def end_in_words(state: str, limit_s: float | None = None) -> str:
    """Return what ended a job, by its last state in Slurm.

    Args:
        state: such as TIMEOUT.
        limit_s: the job's time limit in Slurm, in seconds; None: not known.
    """
    if state == "TIMEOUT":
        return limit_in_words(limit_s)
    if state == "CANCELLED":
        return "it was cancelled in Slurm (scancel)"
    if state == "PREEMPTED":
        return "it was preempted in Slurm"
    return f"Slurm ended it: {state}"


def limit_in_words(limit_s: float | None) -> str:
    """Return that a job's time limit in Slurm ended it, in seconds (None: not known)."""
    of = "" if limit_s is None else f" of {duration(limit_s)}"
    return f"Slurm's time limit{of} ended it"


def signal_in_words(signal: str) -> str:
    """Return what is known of a job's end by the signal alone that announced it."""
    return f"Slurm sent it {signal}, and has not said why"


_OUT_OF_SERVICE = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL", "NOT_RESPONDING"}
    | {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "FUTURE", "UNKNOWN", "MAINT"}
)
SURELY_EARLY_S = 5  # before the time limit: Slurm tells whole seconds
_ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "REVOKED", "TIMEOUT", "LAUNCH_FAILED", "RECONFIG_FAIL"}
)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that the controller knows: waiting, running, or ended a short while ago.

    `id` is its own number, for each task of an array another one; `array_id` is that of the array,
    and `array_task` its index there (of tasks that wait: several, such as "2-5%2"). Ids are used
    again after a crash of the controller: name and `submit_s` together tell jobs apart.

    `gpus` is how many it holds, or asks for while it waits; None if that cannot be told.
    `exit_code` is told as wait(2) has it: 10752 is exit code 42, 15 is SIGTERM.
    """

    id: int
    array_id: int
    array_task: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    nodes_count: int
    cpus: int
    gpus: int | None
    gpus_by_type: Mapping[str, int] = field(hash=False)
    submit_s: int | None
    start_s: int | None
    end_s: int | None
    time_limit_s: int | None
    restarts: int
    exit_code: str
    comment: str
    reservation: str

    @property
    def has_ended(self) -> bool:
        """Whether its state is a last one."""
        return self.state in _ENDED

    @property
    def is_being_preempted(self) -> bool:
        """Whether it runs in the grace that a partition gives before it preempts.

        Slurm has moved its end forward. It tells what srun has started by SIGTERM, and no batch
        script of it.
        """
        if self.start_s is None or self.end_s is None or self.time_limit_s is None:
            return False
        early_s = self.start_s + self.time_limit_s - self.end_s
        return self.state == "RUNNING" and early_s > SURELY_EARLY_S


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node: what it has, what of it is given out, and what is the matter with it.

    `gpus` are counts by type as they are configured, under "gpu" where no type is; `gpus_used`
    likewise, None where Slurm does not tell. `gpus_used_indices` are the devices in use, by type.
    `state` is the first of the flags that Slurm joins by "+", `flags` are the others. `reason` is
    why it is out of service, in the words of whoever said so at `reason_s`.
    """

    name: str
    state: str
    flags: frozenset[str]
    cpus: int
    cpus_used: int
    memory_mb: int
    memory_used_mb: int
    gpus: Mapping[str, int] = field(hash=False)
    gpus_used: Mapping[str, int] | None = field(hash=False)
    gpus_used_indices: Mapping[str, tuple[int, ...]] = field(hash=False)
    sockets: int
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    reason: str
    reason_s: int | None
    version: str
    reservation: str

    @property
    def is_in_service(self) -> bool:
        """Whether new jobs may start on it, as far as its state goes."""
        return self.state not in _OUT_OF_SERVICE and not self.flags & _OUT_OF_SERVICE


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its nodes, whether jobs may start there, and for how long."""

    name: str
    state: str
    nodes: tuple[str, ...]
    time_limit_s: int | None
    is_usual: bool
    nodes_max: int | None
    accounts: tuple[str, ...]
    groups: tuple[str, ...]
    qos: tuple[str, ...]
    over_subscribe: str
    root_only: bool
    root_refused: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for somebody, or for maintenance, for a while."""

    name: str
    state: str
    flags: frozenset[str]
    nodes: tuple[str, ...]
    start_s: int | None
    end_s: int | None
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    partition: str

    @property
    def is_maintenance(self) -> bool:
        """Whether the nodes are to be worked on."""
        return "MAINT" in self.flags


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch or a block of the network; what is of level 0 has nodes."""

    name: str
    level: int
    nodes: tuple[str, ...]
    below: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job in Slurm's accounting, where it stays for long."""

    id: int
    name: str
    user: str
    state: str
    exit_code: str
    nodes: tuple[str, ...]
    submit_s: int | None
    start_s: int | None
    end_s: int | None

    @property
    def has_ended(self) -> bool:
        """Whether its state is a last one."""
        return self.state in _ENDED
