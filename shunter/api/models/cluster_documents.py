"""Answers about the cluster: its state at a point of the log, servers, and the daemon itself."""

from pydantic import Field

from shunter.api.models.job_documents import JobRow
from shunter.api.models.model import Document, Instant, Model


class GpuPart(Model):
    """One GPU and those on it."""

    index: int
    state: str = Field(description="free, used, leaving, promised, quarantined, or taken by others")
    jobs: tuple[str, ...]


class LevelPart(Model):
    """The groups of a server's GPUs at one level."""

    level: str = Field(description="nvlink, switch or socket")
    groups: tuple[tuple[int, ...], ...] = Field(description="the GPUs of each")


class NodePart(Model):
    """One server."""

    name: str
    state: str = Field(description="up, drained, unreachable, lost")
    gpu_type: str
    device: str = Field(description="what `gpus` are: 'gpu', or 'cpu' where they are units of CPU")
    gpus: tuple[GpuPart, ...]
    cpus: float
    cpus_free: float
    cpus_taken: float = Field(description="what others than this scheduler hold of them")
    memory_mb: int
    memory_mb_free: int
    memory_mb_taken: int = Field(description="what others than this scheduler hold of it")
    rack: str
    domain: str = Field(description="network domain above racks; empty: unknown")
    levels: tuple[LevelPart, ...] = Field(
        description="the map of its GPUs, the nearest level first, without levels that divide "
        "nothing"
    )
    links: tuple[tuple[int, ...], ...] = Field(description="GPUs joined directly, as by NVLink")
    jobs: tuple[str, ...]


class SocketPart(Model):
    """The GPUs on a socket, and the CPUs to which what runs on them is bound."""

    gpus: tuple[int, ...]
    cpus: tuple[int, ...]


class QuarantinedGpu(Model):
    """A GPU that takes no jobs."""

    gpu: int
    cause: str = Field(description="what was read of it, or who said so; empty: unknown")


class ListedNode(NodePart):
    """One server, as it is now."""

    state: str = Field(
        description="up, drained, unreachable, lost; 'not held': a node of Slurm that no pilot "
        "holds now, which is none of these"
    )
    cause: str = Field(
        description="why it does not answer now, or takes no jobs in Slurm; empty if it does"
    )
    quarantined: tuple[QuarantinedGpu, ...] = Field(
        description="its GPUs that take no jobs, until they are released"
    )
    map_by: str = Field(
        description="who told the map of its GPUs: config, sources of the server (sysfs, hwloc, "
        "nvidia-smi, or two of them joined by 'and'), the log of a time before; empty: it has none"
    )
    map_notes: tuple[str, ...] = Field(
        description="where config and server contradict each other, or why there is no map"
    )
    place_by: str = Field(
        description="who told rack and domain: config, Slurm, the log of a time before; empty: "
        "nobody"
    )
    sockets: tuple[SocketPart, ...] = Field(description="its sockets whose CPUs are known")


class NodesDocument(Document):
    """All servers."""

    seq: int
    now: Instant
    nodes: tuple[ListedNode, ...]


class QueuePart(Model):
    """A queue with its quota, and what its jobs are given now."""

    name: str
    quota_gpus: int | None
    weight: float
    users: tuple[str, ...]
    gpus: int


class StateDocument(Document):
    """What is true right after one event. Equal `seq`, equal document."""

    seq: int
    at: Instant
    at_us: int
    term: int
    policy: str
    rounds_planned: int
    ended: dict[str, int] = Field(description="how many jobs ended how")
    queues: tuple[QueuePart, ...]
    nodes: tuple[NodePart, ...]
    jobs: tuple[JobRow, ...]


class EventPage(Document):
    """Events in order, each with its number, its date, and its fields by name."""

    events: tuple[dict[str, object], ...]
    next: int = Field(description="ask for more with after=next")
    head: int = Field(description="the last durable event")


class DecisionDocument(Document):
    """One decision: what the policy saw, changed and why, and left waiting."""

    seq: int
    at: Instant
    round: int
    trigger: str
    seen: int = Field(description="the last event the policy saw")
    policy: str
    last_seq: int = Field(description="the last fact of the decision")
    changes: tuple[dict[str, object], ...]
    refused: tuple[dict[str, object], ...]
    waits: tuple[dict[str, object], ...]
    words: tuple[str, ...] = Field(description="the same, a sentence for each fact")
    digest: str = Field(description="of the decision's facts; equal decisions, equal digests")


class PlanningDocument(Model):
    """A policy at work."""

    hook: str = Field(description="what it was asked: start, observer or plan")
    since_s: float = Field(description="seconds since it was asked")
    limit_s: float = Field(description="seconds after which it is set aside")


class DaemonDocument(Document):
    """Who answers, and whom it takes the caller for."""

    version: str
    cluster_id: str
    term: int
    policy: str
    policy_fault: str = Field(
        description="how the policy failed in the last round; empty: it did not"
    )
    planning: PlanningDocument | None = Field(
        description="what the policy is at, if it takes long; commands wait for it"
    )
    seq: int
    now: Instant
    backend: str
    config: str = Field(description="the file of its config")
    log: str = Field(description="the file of its log, or its address")
    user: str
    is_admin: bool
    serves: str = Field(description="whose jobs it starts: everybody's, or one user's")


class HealthDocument(Document):
    """Whether it lives, or takes work."""

    status: str
