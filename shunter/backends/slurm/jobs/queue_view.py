"""What Slurm's queue says of our attempts, as of the last answer that was whole."""

import math
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from shunter import clock
from shunter.backends.agents.orders import Order
from shunter.backends.node.messages import number_of
from shunter.backends.slurm import batch_jobs
from shunter.backends.slurm.batch_jobs import END_LEAD_S, batch_script, name_in, usual_options
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.limit_reasons import reason_in_words
from shunter.backends.slurm.quantities import duration
from shunter.backends.slurm.records import PastJob, QueuedJob
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.errors import SlurmUnknownError
from shunter.events.values.ids import NodeName

# What an attempt is, as Slurm is told: a batch script and the options of sbatch.

Key = tuple[str, int]
LIMIT_SIGNAL = "SIGUSR2"
"""What tells the program of an attempt that its time limit is near, and nothing else."""


def job_name(cluster_id: str, job: str, attempt: int) -> str:
    """Return the name of an attempt's Slurm job."""
    return batch_jobs.job_name(cluster_id, f"{job}.a{attempt}")


def key_in(cluster_id: str, user: str, job: QueuedJob) -> Key | None:
    """Return which attempt of a cluster a Slurm job is; None if it is none."""
    name, _, attempt = (name_in(cluster_id, user, job) or "").rpartition(".a")
    number = number_of(attempt)
    return None if number is None else (name, number)


def job_script(python: str, agent: str, root: str, job: str, attempt: int) -> str:
    """Return the script, which names the order of an attempt and holds none of it.

    Signals that come before the program can handle them do nothing.
    """
    words = (python, "-I", "-S", agent, "batch", root, job, str(attempt))
    return batch_script(words, "trap '' USR1 USR2")


def job_options(
    settings: SlurmSettings, order: Order, folder: str, longest_s: float | None = None
) -> list[str]:
    """Return the options of sbatch: the nodes, GPUs, CPUs, memory and time of a plan.

    An attempt without a time limit gets that of the cluster's jobs. One with a limit is ended by
    the scheduler; Slurm's is somewhat later. What is ended by Slurm saves first, and goes on.

    Slurm gives each node of a job as much, or splits a total as it likes. So a plan that gives its
    nodes unequal parts is a heterogeneous job, with a component for each run of equal ones; the
    first is where the script runs.

    Args:
        settings: of the cluster.
        order: what is to run.
        folder: of the attempt, where Slurm puts what the script itself prints.
        longest_s: how long Slurm lets jobs run on these nodes; None: as long as they may.
    """
    limit_s = settings.time_limit_s
    if order.time_limit_s is not None:
        limit_s = order.time_limit_s + END_LEAD_S
    limit_s = limit_s if longest_s is None else min(limit_s, longest_s)
    name, output = f"{order.job}.a{order.attempt}", f"{folder}/slurm.out"
    usual = usual_options(settings, name, output, limit_s, LIMIT_SIGNAL.removeprefix("SIG"))
    words: list[str] = []
    for part, equal in groupby(_parts(settings, order), key=attrgetter("asked")):
        nodes = [each.node for each in equal]
        where = [f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", "--ntasks-per-node=1"]
        words += [":"] if words else []
        words += [*usual, *where, *part, *settings.options]
    return words


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node gives: `asked` are the options of sbatch for it."""

    node: NodeName
    asked: tuple[str, ...]


def _parts(settings: SlurmSettings, order: Order) -> Iterator[_Part]:
    """Return what an attempt is to be given, node by node in the order of its ranks."""
    servers = {str(server.name): server for server in settings.nodes}
    shares = [(servers[node], mask.bit_count()) for node, mask in order.placement]
    all_gpus = sum(gpus for _, gpus in shares)
    for rank, (server, gpus) in zip(order.ranks, shares, strict=True):
        cpus = len(rank.cpus) if rank.pinned else _fair_cpus(server, gpus)
        of, whole = (gpus, all_gpus) if all_gpus else (1, len(shares))
        memory_mb = math.ceil(order.memory_mb * of / whole) or _fair_memory_mb(server, gpus, cpus)
        asked = [f"--cpus-per-task={cpus}"]
        asked += [f"--gres={server.gres.rpartition(':')[0]}:{gpus}"] if gpus else []
        asked += [f"--mem={memory_mb}M"] if memory_mb else []
        yield _Part(server.name, tuple(asked))


def _fair_memory_mb(server: SlurmServer, gpus: int, cpus: int) -> int:
    """Return the memory on a node of an attempt that asked for none.

    It is its GPUs' part of the node's, or its CPUs' if it has no GPUs; 0: nobody knows what the
    node has. Where a site sets no default, Slurm would give it all of it.
    """
    part, whole = (gpus, len(server.gpus)) if gpus else (cpus, len(server.cpus))
    return server.memory_mb * min(part, whole) // max(1, whole)


def _fair_cpus(server: SlurmServer, gpus: int) -> int:
    """Return the CPUs of a rank that asked for none: its GPUs' part of the node's."""
    return max(1, len(server.cpus) * gpus // max(1, len(server.gpus)))


MAY_LIVE_ON = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""States after which a job's processes may run: its node does not answer Slurm."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The Slurm jobs of each attempt; several where an answer of sbatch was lost.

    `began_s` is when the question was asked, by the monotonic clock. `past` are the last states of
    the jobs of attempts that accounting knows to be over, and the queue not at all.
    """

    began_s: float
    jobs: Mapping[Key, tuple[QueuedJob, ...]] = field(hash=False)
    past: Mapping[Key, tuple[str, ...]] = field(hash=False, default_factory=dict)

    @classmethod
    def of(
        cls, cluster_id: str, user: str, began_s: float, queue: Iterable[QueuedJob]
    ) -> "QueueView":
        """Return what an answer of squeue says of a cluster's attempts."""
        found: dict[Key, tuple[QueuedJob, ...]] = {}
        for job in queue:
            key = key_in(cluster_id, user, job)
            if key is not None:
                found[key] = (*found.get(key, ()), job)
        return cls(began_s, found)

    def alive(self, key: Key) -> tuple[QueuedJob, ...]:
        """Return the Slurm jobs of an attempt that wait or run."""
        return tuple(job for job in self.jobs.get(key, ()) if not job.has_ended)

    def is_running(self, key: Key) -> bool:
        """Say whether Slurm runs an attempt."""
        return any(job.state != "PENDING" for job in self.alive(key))

    def is_waiting(self, key: Key) -> bool:
        """Say whether an attempt waits in Slurm's queue, and none of its jobs runs."""
        alive = self.alive(key)
        return bool(alive) and all(job.state == "PENDING" for job in alive)

    def being_preempted(self) -> list[Key]:
        """Return the attempts that run in the grace before they are preempted."""
        return sorted(
            key for key, jobs in self.jobs.items() if any(job.is_being_preempted for job in jobs)
        )

    def standing(self, key: Key) -> object:
        """Return what changes when anything of an attempt does."""
        return tuple((job.id, job.state) for job in self.jobs.get(key, ())), self._past(key)

    def is_surely_over(self, key: Key) -> bool:
        """Say whether Slurm has ended an attempt, and all its processes with it."""
        jobs = self.jobs.get(key, ())
        states = [job.state for job in jobs] or self._past(key)
        has_ended = all(job.has_ended for job in jobs)
        return bool(states) and has_ended and not MAY_LIVE_ON.intersection(states)

    def ended_as(self, key: Key) -> str:
        """Return how Slurm ended an attempt, such as TIMEOUT; nothing if it did not."""
        ended = [job.state for job in self.jobs.get(key, ()) if job.has_ended]
        return next(iter(ended or self._past(key)), "")

    def limit_s(self, key: Key) -> int | None:
        """Return for how many seconds Slurm lets an attempt run; None: not known."""
        return next((job.time_limit_s for job in self.jobs.get(key, ()) if job.time_limit_s), None)

    def limit_at_s(self, key: Key) -> float | None:
        """Return when its time limit ends an attempt; None: not known.

        That is in seconds since 1970.
        """
        ends = [
            float(job.start_s + job.time_limit_s)
            for job in self.jobs.get(key, ())
            if job.start_s is not None and job.time_limit_s is not None and job.state != "PENDING"
        ]
        return next(iter(ends), None)

    def wait_of(self, key: Key, now_s: float) -> str:
        """Return how long an attempt has waited in Slurm's queue, and for what."""
        if not self.is_waiting(key):
            return ""
        job = self.alive(key)[0]
        asked_s = now_s if job.submit_s is None else float(job.submit_s)
        reason = f" ({reason_in_words(job.reason)})" if job.reason else ""
        ago = duration(now_s - asked_s)
        return f"waiting for Slurm to start job {job.id}, asked {ago} ago{reason}"

    def _past(self, key: Key) -> tuple[str, ...]:
        return () if key in self.jobs else self.past.get(key, ())


async def queue_view(slurm: Slurm, cluster_id: str) -> QueueView:
    """Ask Slurm what it has of a cluster's attempts.

    Raises:
        SlurmUnknownError: it does not say it.
    """
    began_s = clock.monotonic_s()
    return QueueView.of(cluster_id, own_user(), began_s, await slurm.queue())


def own_user() -> str:
    """Return as whom we submit."""
    return pwd.getpwuid(os.geteuid()).pw_name


# What became of attempts that Slurm's queue has forgotten, where the site keeps accounting.
#
# The controller forgets a job some minutes after its end. What ended while no daemon looked, and
# left no record, could then only be waited for; accounting still knows how it ended. Without an
# answer, or without accounting, nothing is known by it. Accounting as a text file (jobcomp/filetxt)
# is not read: names of jobs stand there as their users wrote them, line breaks included, so anybody
# could write the end of a job that is not his, and sacct 22.05 dies of such a name.

ASK_S = 60.0
"""Seconds between two questions: it is a database, which others use."""
DEADLINE_S = 5.0
DAYS_S = 7 * 86_400
NAMES_MOST = 500
"""So many jobs are asked for by one question, which is a line of a command."""


class Accounting:
    """How attempts ended, of those that were asked for.

    Args:
        slurm: the commands of the cluster, for accounting alone: its silence is not Slurm's.
        cluster_id: whose attempts.
        user: who submits them.
    """

    def __init__(self, slurm: Slurm, cluster_id: str, user: str) -> None:
        self._slurm = slurm
        self._cluster_id = cluster_id
        self._user = user
        self._ask_from_s = 0.0
        self._ends: dict[Key, tuple[str, ...]] = {}

    @property
    def ends(self) -> Mapping[Key, tuple[str, ...]]:
        """The last states of each attempt's Slurm jobs, once all of them are over."""
        return dict(self._ends)

    async def ask(self, forgotten: Sequence[Key]) -> bool:
        """Ask what became of attempts, not too often; say whether any is settled."""
        self._ends = {key: self._ends[key] for key in forgotten if key in self._ends}
        unknown = [key for key in forgotten if key not in self._ends][:NAMES_MOST]
        if not unknown or clock.monotonic_s() < self._ask_from_s:
            return False
        names = {job_name(self._cluster_id, *key): key for key in unknown}
        try:
            past = await self._slurm.history(int(clock.wall_s()) - DAYS_S, tuple(names))
        except SlurmUnknownError:  # also where a site keeps none
            past = ()
        self._ask_from_s = clock.monotonic_s() + ASK_S
        found: dict[Key, list[PastJob]] = {}
        for job in past:
            if job.user == self._user and job.name in names:
                found.setdefault(names[job.name], []).append(job)
        over = {
            key: tuple(job.state for job in jobs)
            for key, jobs in found.items()
            if all(job.has_ended for job in jobs)
        }
        self._ends |= over
        return bool(over)
