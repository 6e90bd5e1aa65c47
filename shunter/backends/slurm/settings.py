"""What the Slurm backend is told: the partition, its nodes, and how pilots are asked for."""

from dataclasses import dataclass

from shunter.backends.agents.settings import Limits, Owner, Socket
from shunter.events.values import NodeName


@dataclass(frozen=True, slots=True)
class SlurmServer:
    """A node of the partition, under the name that Slurm knows it by.

    Slurm binds its jobs to CPUs, so it has no `sockets` here.
    `gres` is what a pilot asks for to have all its GPUs, such as `gpu:v100:4`.
    """

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...]
    gpu_type: str
    gres: str
    memory_mb: int
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmSettings(Limits):
    """A partition of a Slurm cluster, used as any user of it may.

    `root` is a folder that this machine and all nodes share under the same path. `addresses` are
    what pilots dial, `listen` is where they are awaited ("": at all addresses). A pilot is asked
    for `time_limit_s`, and given back after `idle_s` without jobs; `options` are further ones of
    sbatch. Where attempts are jobs of their own, their records are looked at every `look_s`, and
    what has changed there or in the queue is known everywhere `settle_s` later; with
    `is_suspended_in_slurm` one that stands still is suspended there as well.
    """

    root: str
    nodes: tuple[SlurmServer, ...]
    cluster_id: str
    term: int
    holder: str
    partition: str
    addresses: tuple[str, ...]
    listen: str = ""
    account: str = ""
    qos: str = ""
    time_limit_s: float = 86_400.0
    idle_s: float = 600.0
    pilots_max: int | None = None
    poll_s: float = 5.0
    look_s: float = 1.0
    settle_s: float = 15.0
    command_s: float = 20.0
    is_suspended_in_slurm: bool = False
    python: str = "python3"
    options: tuple[str, ...] = ()
    conf: str | None = None

    @property
    def owner(self) -> Owner:
        """Who schedules there."""
        return Owner(self.cluster_id, self.term, self.holder, self.root)
