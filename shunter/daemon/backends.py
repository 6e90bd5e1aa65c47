"""The backends that really run jobs, as the daemon needs them, made from a config."""

import fcntl
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

from shunter.backends.live import (
    NO_DEVICE,
    Limits,
    LocalBackend,
    LocalNode,
    LocalSettings,
    NodeAgent,
    Stamped,
    TurnSettings,
)
from shunter.backends.node import Known, get, hold, make_folder, put
from shunter.config import (
    BackendSection,
    ClusterSection,
    LoadedConfig,
    LocalSection,
    SlurmSection,
    SshSection,
    shared_limits,
)
from shunter.core import Backend
from shunter.counting import counted
from shunter.daemon.cluster_identity import TermClock
from shunter.errors import BackendError, ConfigError, extra_hint
from shunter.events import Allocation, JobId, NodeName

LimitsT = TypeVar("LimitsT", bound=Limits)


class LiveBackend(Backend, Protocol):
    """A backend that outlives schedulers: the next one must find out what is true."""

    agents: dict[NodeName, NodeAgent]
    """The agents of its servers, by name."""

    @property
    def unreachable(self) -> frozenset[NodeName]:
        """The servers that do not answer, of whose attempts nothing is known."""

    @property
    def causes(self) -> Mapping[NodeName, str]:
        """Why servers do not answer, and what to do, of those that do not."""

    def launch_wait(self, job_id: JobId) -> str:
        """Return what the launch of a job waits for; nothing if it does not."""

    def post(self, stamped: Stamped) -> None:
        """Put an input into the inbox; it is made once its instant is known."""

    def now_us(self) -> int:
        """Return the instant it is."""

    async def inventory(
        self, wanted: Collection[tuple[JobId, int]] | None = None
    ) -> Sequence[Known]:
        """Return what is known of attempts: their jobs, numbers, states and records.

        Of all, or (where that is enough) of those wanted and of all others that still run.
        """

    def recall(self, unreachable: Sequence[NodeName]) -> None:
        """Say which servers an earlier term found unreachable or lost."""

    def adopt(
        self,
        job_id: JobId,
        attempt: int,
        *,
        started: bool,
        noted: Mapping[NodeName, int] | None = None,
        on: Allocation | None = None,
        is_set_aside: bool = False,
    ) -> None:
        """Watch an attempt of an earlier term, of which some has been told already.

        Args:
            job_id: its job.
            attempt: its number.
            started: whether its start has been told.
            noted: how many facts of its journals have been told, of a gang by servers.
            on: what it was given, in case there is no trace of it.
            is_set_aside: whether nothing is believed that it tells.
        """

    async def old_jobs(self, keep_s: float) -> Sequence[JobId]:
        """Return the jobs whose attempts have not changed for so long, ended or not.

        None where not all servers answer. What it is asked for does not hold up anything else.
        """

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended, and no checkpoints.

        Raises:
            BackendError: something could not be removed, or a server does not answer.
        """

    async def store_environments(self, given: Mapping[JobId, Mapping[str, str]]) -> None:
        """Store what only the processes of jobs may see; what was stored before is gone.

        Raises:
            BackendError: it cannot be stored.
        """

    async def read_output(
        self, job_id: JobId, attempt: int, rank: int, stream: str, offset: int, size: int
    ) -> tuple[bytes, int | None]:
        """Return a piece of what a rank printed, and how much there is, None if nothing."""


def live_backend(
    loaded: LoadedConfig,
    cluster_id: str,
    term: int,
    instants: TermClock,
    held: Collection[tuple[JobId, int]],
) -> AbstractAsyncContextManager[LiveBackend]:
    """Return the backend of a config, not yet at work.

    Args:
        loaded: the config.
        cluster_id: the cluster, as its log names it.
        term: the number of this start.
        instants: its clock.
        held: the attempts that hold GPUs by the log.

    Raises:
        ConfigError: the config describes none, or what this machine cannot be.
        BackendError: its folder cannot be written.
    """
    section = loaded.config.backend
    if section.kind == "local" and section.local is not None:
        settings = local_settings(section.local, loaded.config.cluster, term)
        settings = as_wanted(settings, loaded)
        return _below(settings.root, cluster_id, LocalBackend(settings, instants.now_us()))
    if section.kind == "ssh" and section.ssh is not None:
        return _over_ssh(loaded, section.ssh, cluster_id, term, instants)
    if section.kind == "slurm" and section.slurm is not None:
        return _inside_slurm(loaded, section.slurm, cluster_id, term, instants, held)
    raise ConfigError(
        f"backend.kind = {section.kind!r}: expected a kind that runs jobs: 'local', 'ssh', 'slurm'"
    )


def as_wanted(settings: LimitsT, loaded: LoadedConfig) -> LimitsT:
    """Return settings with what the policy wants, and what devices are.

    The policy wants sizes, turns and samples. Slurm says itself which devices its jobs see.

    Raises:
        ConfigError: the policy needs samples, and the backend takes none.
    """
    config = loaded.config
    visible = {} if config.backend.kind == "slurm" else config.cluster.visible()
    settings = replace(
        settings,
        is_limited=config.policy.sizing is not None,
        slicing=slicing_of(loaded),
        visible=visible,
    )
    needed_us: int | None = getattr(loaded.chosen_params, "needs_samples_us", None)
    if needed_us is None:
        return settings
    if not settings.sample_s:
        raise ConfigError(
            f"policy.params.{loaded.config.policy.name} tries changes by what jobs measure: "
            f"expected backend.{loaded.config.backend.kind}.sample above 0"
        )
    needed_s = max(needed_us / 1e6, SAMPLE_LEAST_S)
    return replace(
        settings,
        sample_s=min(settings.sample_s, needed_s),
        told_every_s=min(settings.told_every_s, needed_s),
    )


SAMPLE_LEAST_S = 0.5
"""No attempt is sampled more often for the sake of a policy."""


def slicing_of(loaded: LoadedConfig) -> TurnSettings | None:
    """Return how jobs share GPUs in turns; None: they do not."""
    section = loaded.config.policy.slicing
    if section is None:
        return None
    slicing = TurnSettings(quantum_us=section.quantum, wait_most_us=section.wait_most)
    if section.boundary_most is None:
        return slicing
    return replace(slicing, boundary_most_us=section.boundary_most)


def root_of(section: BackendSection) -> str:
    """Return the folder on this machine in which a live backend keeps what jobs need."""
    chosen = {"ssh": section.ssh, "slurm": section.slurm}.get(section.kind, section.local)
    assert chosen is not None, "a config without the table of its backend is refused"
    return os.path.abspath(chosen.root)  # noqa: PTH100 the path need not exist, nor be resolved


def _over_ssh(
    loaded: LoadedConfig, section: SshSection, cluster_id: str, term: int, instants: TermClock
) -> AbstractAsyncContextManager[LiveBackend]:
    """Return the SSH backend, whose libraries only its users need."""
    if find_spec("asyncssh") is None:
        raise ConfigError(f"backend.kind = 'ssh' needs asyncssh: {extra_hint('ssh')}")
    from shunter.backends.live import SshBackend
    from shunter.daemon.host_settings import ssh_settings

    settings = ssh_settings(section, loaded.config.cluster, cluster_id, term)
    settings = as_wanted(settings, loaded)
    return _below(settings.root, cluster_id, SshBackend(settings, instants.now_us()))


def _inside_slurm(
    loaded: LoadedConfig,
    section: SlurmSection,
    cluster_id: str,
    term: int,
    instants: TermClock,
    held: Collection[tuple[JobId, int]],
) -> AbstractAsyncContextManager[LiveBackend]:
    """Return the backend of a mode, whose libraries only its users need."""
    from shunter.daemon.slurm import check_served, keep_mode, slurm_settings

    check_served(loaded.config.backend)
    settings = slurm_settings(section, loaded.config.cluster, cluster_id, term)
    settings = as_wanted(settings, loaded)
    keep = partial(keep_mode, settings.root, section.mode, held)
    if section.mode == "per-job":
        from shunter.backends.slurm import JobBackend

        return _below(settings.root, cluster_id, JobBackend(settings, instants.now_us()), keep)
    from shunter.backends.slurm import PilotBackend

    return _below(settings.root, cluster_id, PilotBackend(settings, instants.now_us()), keep)


@asynccontextmanager
async def _below(
    root: str,
    cluster_id: str,
    backend: AbstractAsyncContextManager[LiveBackend],
    check: Callable[[], None] = lambda: None,
) -> AsyncIterator[LiveBackend]:
    """Enter a backend whose folder nobody else uses, once that was checked."""
    try:
        make_folder(root)
        lock = hold(f"{root}/cluster.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is None:
            raise BackendError(f"another scheduler runs jobs below {root}; stop it first")
        try:
            claim(root, cluster_id)
            check()
            async with backend as entered:
                yield entered
        finally:
            os.close(lock)
    except OSError as error:
        raise BackendError(f"{root} cannot be written: {error}", retryable=True) from error


def claim(root: str, cluster_id: str) -> None:
    """Take a folder for a cluster: jobs name folders, and every cluster has a j1.

    Raises:
        ConfigError: it holds attempts of another cluster.
        OSError: it cannot be written.
    """
    if refuse_other_attempts(root, cluster_id) != cluster_id:
        put(f"{root}/cluster", {"cluster_id": cluster_id})


def refuse_other_attempts(root: str, cluster_id: str) -> object:
    """Return the cluster of a folder; refuse attempts of another one.

    Args:
        root: the folder.
        cluster_id: of the log; empty: that begins a cluster now.
    Raises:
        ConfigError: they are of another cluster.
    """
    owner = (get(f"{root}/cluster") or {}).get("cluster_id")
    jobs = Path(root, "jobs")
    # A scheduler that died before its first commit has left its name here, and nothing else.
    if owner != cluster_id and jobs.is_dir() and sorted(jobs.iterdir()):
        log = f"the log is that of {cluster_id}" if cluster_id else "there is no log of it"
        raise ConfigError(
            f"{root} holds attempts of cluster {owner}, and {log}: put its log back, move the "
            "folder away too to begin again, or give each log a folder of its own, as "
            "backend.local.root or backend.ssh.root"
        )
    return owner


def local_settings(section: LocalSection, cluster: ClusterSection, term: int) -> LocalSettings:
    """Return what the local backend is told.

    Raises:
        ConfigError: there are fewer GPU names than GPUs, or CPUs of a socket are not here.
    """
    return LocalSettings(
        root=os.path.abspath(section.root),  # noqa: PTH100 the path need not exist, nor be resolved
        nodes=tuple(_nodes(section, cluster)),
        term=term,
        beat_s=section.heartbeat / 1e6,
        patrol_s=section.patrol / 1e6,
        **shared_limits(section),
    )


def _nodes(section: LocalSection, cluster: ClusterSection) -> list[LocalNode]:
    """Deal GPUs out in order; servers share all CPUs, or have their sockets'."""
    names = [str(number) for number in range(cluster.gpus)]
    if section.gpus is not None:
        names = list(section.gpus)
    if len(names) < cluster.gpus:
        raise ConfigError(
            f"backend.local.gpus names {counted(len(names), 'GPU')}, and [cluster] has "
            f"{cluster.gpus}: name them all, or take servers out"
        )
    ours, nodes, first = tuple(sorted(os.sched_getaffinity(0))), list[LocalNode](), 0
    all_sockets = cluster.cpu_sockets()
    for name, where in cluster.servers():
        sockets = all_sockets.get(name, ())
        cpus = tuple(sorted(cpu for socket in sockets for cpu in socket.cpus)) or ours
        if absent := sorted({*cpus} - {*ours}):
            raise ConfigError(
                f"cluster.nodes: socket_cpus of {name} names CPU {absent[0]}, and this machine has "
                f"{', '.join(map(str, ours))} for us: correct it"
            )
        if where.unit_cpus_milli:
            nodes.append(LocalNode(name, (NO_DEVICE,) * where.gpus, cpus, sockets))
            continue
        gpus = tuple(names[first : first + where.gpus])
        nodes.append(LocalNode(name, gpus, cpus, sockets))
        first += where.gpus
    return nodes
