"""Attempts that are batch jobs: how Slurm is asked for them, and the state of each.

Neither its records nor Slurm's queue say enough alone. A node writes a record later than Slurm
knows, and Slurm forgets jobs, or ends those whose processes live on. So what its records do not end
is over only once Slurm has said so for a while. In this order: the batch script, the queue, the
accounting, one attempt.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from shunter import clock
from shunter.backends.node import (
    BEGUN,
    WITHDRAWN,
    Command,
    Known,
    Notes,
    Order,
    Started,
    State,
    Status,
    Watched,
    add_command,
    begun_at,
    boot_id,
    claimed_by,
    get,
    number_of,
    started_in,
    status_in,
    told_to_leave_by,
)
from shunter.backends.slurm.answers import (
    SAYS_WHY,
    QueuedJob,
    SlurmJob,
    end_in_words,
    limit_in_words,
    signal_in_words,
)
from shunter.backends.slurm.commands import Slurm, wait_in_words
from shunter.backends.slurm.settings import (
    END_LEAD_S,
    NOTICE_LEAD_MOST_S,
    SlurmServer,
    SlurmSettings,
    batch_script,
    name_in,
    own_user,
    share_options,
    slurm_job_name,
    usual_options,
)
from shunter.errors import SlurmUnknownError
from shunter.events import NodeName

Key = tuple[str, int]
LIMIT_SIGNAL = "SIGUSR2"
"""Sent to the program of an attempt when its time limit is near, and for nothing else."""


def attempt_job_name(cluster_id: str, job: str, attempt: int) -> str:
    """Return the name of an attempt's Slurm job."""
    return slurm_job_name(cluster_id, f"{job}.a{attempt}")


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
    for part, equal in groupby(_parts(settings, order), key=itemgetter(1)):
        nodes = [node for node, _ in equal]
        where = [f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", "--ntasks-per-node=1"]
        words += [":"] if words else []
        words += [*usual, *where, *part, *settings.options]
    return words


def _parts(settings: SlurmSettings, order: Order) -> Iterator[tuple[NodeName, tuple[str, ...]]]:
    """Return the options of sbatch for each node, in the order of ranks."""
    servers = {str(server.name): server for server in settings.nodes}
    shares = [(servers[node], mask.bit_count()) for node, mask in order.placement]
    all_gpus = sum(gpus for _, gpus in shares)
    for rank, (server, gpus) in zip(order.ranks, shares, strict=True):
        cpus = len(rank.cpus) if rank.pinned else _fair_cpus(server, gpus)
        of, whole = (gpus, all_gpus) if all_gpus else (1, len(shares))
        memory_mb = math.ceil(order.memory_mb * of / whole) or _fair_memory_mb(server, gpus, cpus)
        gres = f"{server.gres.rpartition(':')[0]}:{gpus}" if gpus else ""
        yield server.name, tuple(share_options(cpus, gres, memory_mb))


def _fair_memory_mb(server: SlurmServer, gpus: int, cpus: int) -> int:
    """Return the memory on a node of an attempt that asked for none.

    It is its GPUs' part of the node's, or its CPUs' if it has no GPUs; 0: what the
    node has is not known. Where a site sets no default, Slurm would give it all of it.
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

    `began_s` is when the question was asked, by the monotonic clock; that of no answer yet is
    before all time. `past` are the last states of the jobs of attempts that accounting knows to be
    over, and the queue not at all.
    """

    began_s: float = float("-inf")
    jobs: Mapping[Key, tuple[QueuedJob, ...]] = field(hash=False, default_factory=dict)
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
        return any(not job.is_pending for job in self.alive(key))

    def is_waiting(self, key: Key) -> bool:
        """Say whether an attempt waits in Slurm's queue, and none of its jobs runs."""
        alive = self.alive(key)
        return bool(alive) and all(job.is_pending for job in alive)

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
            if job.start_s is not None and job.time_limit_s is not None and not job.is_pending
        ]
        return next(iter(ends), None)

    def wait_of(self, key: Key, now_s: float) -> str:
        """Return how long an attempt has waited in Slurm's queue, and for what."""
        if not self.is_waiting(key):
            return ""
        job = self.alive(key)[0]
        asked_s = now_s if job.submit_s is None else float(job.submit_s)
        ago = wait_in_words(now_s - asked_s, job.reason)
        return f"waiting for Slurm to start job {job.id}, asked {ago}"

    def _past(self, key: Key) -> tuple[str, ...]:
        return () if key in self.jobs else self.past.get(key, ())


async def queue_view(slurm: Slurm, cluster_id: str) -> QueueView:
    """Ask Slurm what it has of a cluster's attempts.

    Raises:
        SlurmUnknownError: it does not say it.
    """
    began_s = clock.monotonic_s()
    return QueueView.of(cluster_id, own_user(), began_s, await slurm.queue())


# The accounting of attempts that Slurm's queue has forgotten. A text file (jobcomp/filetxt) is not
# read: job names with line breaks are in it, so any user could forge the end of another's job.

ASK_S = 60.0
"""Seconds between two questions: it is a database, which others use."""
ACCOUNTING_DEADLINE_S = 5.0
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
        names = {attempt_job_name(self._cluster_id, *key): key for key in unknown}
        try:
            past = await self._slurm.history(int(clock.wall_s()) - DAYS_S, tuple(names))
        except SlurmUnknownError:  # also where a site keeps none
            past = ()
        self._ask_from_s = clock.monotonic_s() + ASK_S
        found: dict[Key, list[SlurmJob]] = {}
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


TAKEN_BACK = "taken back while it waited in Slurm's queue"


@dataclass(frozen=True, slots=True)
class Patience:
    """For how many seconds what Slurm says to be over may not be.

    `settle_s` where Slurm has ended all processes, `silent_s` where some may live on: by then they
    have ended themselves for want of a scheduler's sign of life.
    """

    settle_s: float
    silent_s: float


class JobAttempt(Watched):
    """An attempt, as its folder and Slurm's queue tell of it.

    `asked_s` is when Slurm was last asked to run it, by the monotonic clock: an answer of squeue
    that was asked for before, or right after, says nothing of it. `missed_since_s` is since when
    Slurm should have it and has not. `started` is what it was given, once it has started;
    `is_stopped` says that its supervisor has noted that it stands still, and `is_preempted` that
    Slurm was seen to begin to preempt it.
    """

    def __init__(
        self, folder: str, key: Key, queue: Callable[[], QueueView], patience: Patience
    ) -> None:
        super().__init__(folder)
        self.key = key
        self.asked_s = clock.monotonic_s()
        self.started: Started | None = None
        self.is_stopped = self.is_preempted = False
        self._ahead_ns: int | None = None
        self.missed_since_s: float | None = None
        self._queue = queue
        self._patience = patience
        self._stood: object = None
        self._over_since_s: float | None = None
        self._left_s: float | None = None

    def may_have_news(self) -> bool:
        """Say whether a look could show anything new."""
        return (
            self.has_changed()
            or self._over_since_s is not None
            or self._awaits_cause()
            or self._stands() != self._stood
            or self.is_missed()
        )

    def look(self) -> tuple[Known, bool]:
        """Return its state; nothing of it is left to be swept."""
        self.note_seen()
        self._stood = self._stands()
        self._read_started()
        status = status_in(self.folder)
        state, cause = self._state() if status is None else self._after(status)
        if state != "ended":
            status = None
        self.told = (state, self.started is None)
        known = Known(
            job=self.key[0],
            attempt=self.key[1],
            folder=self.folder,
            state=state,
            started=self._localised(self.started),
            status=status if status is None else self._dated(status),
            cause=cause,
        )
        return known, True

    def journal(self, *, with_notes: bool) -> Notes:
        """Return a piece of what its journal says that was not read."""
        found = super().journal(with_notes=with_notes)
        for note in found.notes:
            if note.what in ("stopped", "continued"):
                self.is_stopped = note.what == "stopped"
            note.at_ns += self._ahead_ns or 0
        return found

    def send(self, order: Command) -> bool:
        """Add an order for its supervisor, which takes it when it looks."""
        add_command(self.folder, order)
        return True

    def is_missed(self) -> bool:
        """Say whether it has not begun, though Slurm neither has it waiting nor runs it."""
        if not self._is_over() or self.has_begun():
            return False
        self.missed_since_s = self.missed_since_s or clock.monotonic_s()
        return not claimed_by(self.folder)

    def is_forgotten(self) -> bool:
        """Say whether Slurm has nothing of it, and its records no end."""
        is_gone = self.key not in self._queue().jobs and self._is_over()
        return is_gone and status_in(self.folder) is None and claimed_by(self.folder) != WITHDRAWN

    def has_begun(self) -> bool:
        """Say whether it runs, or has, also where its folder has been removed since."""
        if self._read_started() or claimed_by(self.folder) == BEGUN:
            return True
        return self._queue().is_running(self.key)

    def may_live_on(self) -> bool:
        """Say whether Slurm has given it up, and it may run all the same."""
        return self._over_since_s is not None and not self._queue().is_surely_over(self.key)

    def _awaits_cause(self) -> bool:
        """Say whether it has ended, and Slurm is yet to say why."""
        return self._left_s is not None and self.told is not None and self.told[0] == "running"

    def _localised(self, started: Started | None) -> Started | None:
        """Return the record of a start with its instant on our monotonic clock.

        On another node that follows from its claim, which has the time of day as well: clocks of a
        cluster differ by little, for Slurm itself takes no message that is minutes old or early.
        """
        if started is None or started.boot == boot_id():
            return started
        begun = begun_at(self.folder) if self._ahead_ns is None else None
        if begun is not None:
            wall_ns, at_ns = begun
            self._ahead_ns = clock.monotonic_ns() - (clock.wall_ns() - wall_ns) - at_ns
        if self._ahead_ns is None:
            return started
        at_ns = started.started_ns + self._ahead_ns
        return started.replaced(boot=boot_id(), started_ns=at_ns)

    def _dated(self, status: Status) -> Status:
        """Return the record of an end with its instants on our monotonic clock."""
        ahead_ns, saved_ns = self._ahead_ns or 0, status.saved_ns
        return status.replaced(
            ended_ns=status.ended_ns + ahead_ns,
            saved_ns=saved_ns if saved_ns is None else saved_ns + ahead_ns,
        )

    def _read_started(self) -> bool:
        """Say whether it has started; that is read once, and stays true."""
        self.started = self.started or started_in(self.folder)
        return self.started is not None

    def _state(self) -> tuple[State, str]:
        """Return the state of one without a status, and why it is over if it is."""
        if self.started is None:
            claim, refusal = claimed_by(self.folder), get(f"{self.folder}/refusal")
            if claim == WITHDRAWN or refusal is not None:
                return "absent", str((refusal or {}).get("cause", TAKEN_BACK))
            if claim != BEGUN:
                return "starting", ""
        alive: State = "starting" if self.started is None else "running"
        queue, patience = self._queue(), self._patience
        if not self._is_over():
            self._over_since_s = None
            return alive, ""
        if self._over_since_s is None:
            self._over_since_s = clock.monotonic_s()
        is_sure, said = queue.is_surely_over(self.key), queue.ended_as(self.key)
        wait_s = patience.settle_s if is_sure else patience.silent_s
        if clock.monotonic_s() - self._over_since_s < wait_s:
            return alive, ""
        return ("absent" if self.started is None else "lost"), end_in_words(
            said or "forgotten", queue.limit_s(self.key)
        )

    def _after(self, status: Status) -> tuple[State, str]:
        """Return the state of one with a status, and how Slurm ended it, if it did.

        Slurm says why it sent SIGTERM once the job is over there, as its GPUs are; until then, or
        for `settle_s`, it counts as running. So does a gang of which a rank ended with 0: so does
        the srun of one on a node that is lost, whatever that rank was at.
        """
        queue = self._queue()
        ended_as, limit_s = queue.ended_as(self.key), queue.limit_s(self.key)
        codes = status.codes or ()
        may_be_cut_off = len(codes) > 1 and 0 in codes
        if ended_as in MAY_LIVE_ON:
            return "lost" if may_be_cut_off else "ended", end_in_words(ended_as)
        signal, left_at_s = told_to_leave_by(self.folder) if status.suspended else ("", None)
        if not signal:
            is_open = may_be_cut_off and not ended_as
            return "running" if is_open and not self._has_settled() else "ended", ""
        if self.is_preempted:
            return "ended", end_in_words("PREEMPTED")
        if signal == LIMIT_SIGNAL and self._is_near_limit(left_at_s):
            return "ended", limit_in_words(limit_s)
        if ended_as in SAYS_WHY:
            return "ended", end_in_words(ended_as, limit_s)
        if not ended_as and not self._has_settled():
            return "running", ""
        return "ended", signal_in_words(signal)

    def _has_settled(self) -> bool:
        """Say whether what Slurm says of its end is known by now, if it ever will be."""
        self._left_s = clock.monotonic_s() if self._left_s is None else self._left_s
        return clock.monotonic_s() - self._left_s >= self._patience.settle_s

    def _is_near_limit(self, at_s: float | None) -> bool:
        """Say whether its limit is known to be why: others send the notice too."""
        limit_at_s = self._queue().limit_at_s(self.key)
        if limit_at_s is None:
            return False
        return at_s is None or limit_at_s - at_s <= NOTICE_LEAD_MOST_S

    def _is_over(self) -> bool:
        """Say whether Slurm has none that waits or runs, by an answer that counts."""
        queue = self._queue()
        is_settled = queue.began_s > self.asked_s + self._patience.settle_s
        return is_settled and not queue.alive(self.key)

    def _stands(self) -> object:
        """Return what changes when the queue says something new that counts."""
        return self._queue().standing(self.key), self._is_over()
