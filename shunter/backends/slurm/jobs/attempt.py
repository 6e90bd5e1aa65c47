"""One attempt that is a batch job: where it stands by its records and by Slurm's queue.

Neither says enough alone. A record may be missing though the attempt has begun, for a node writes
it later than Slurm tells; and Slurm forgets jobs, or ends those whose processes live on. So what
its records do not say to be over is over only once Slurm says so as well, and has for a while.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shunter import clock
from shunter.backends.node.batch import (
    BEGUN,
    WITHDRAWN,
    add_command,
    begun_at,
    claimed_by,
    told_to_leave_by,
)
from shunter.backends.node.messages import started_in, status_in
from shunter.backends.node.records import boot_id, get
from shunter.backends.node.session import Watched
from shunter.backends.node.wire import Notes, Probe, Started, State, Status
from shunter.backends.slurm.batch_jobs import NOTICE_LEAD_MOST_S
from shunter.backends.slurm.jobs.queue_view import LIMIT_SIGNAL, MAY_LIVE_ON, Key, QueueView
from shunter.backends.slurm.records import SAYS_WHY, end_in_words, limit_in_words, signal_in_words

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
        self, folder: str, key: Key, queue: Callable[[], QueueView | None], patience: Patience
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

    def look(self) -> tuple[Probe, bool]:
        """Return its state; nothing of it is left to be swept."""
        self.note_seen()
        self._stood = self._stands()
        self._read_started()
        status = status_in(self.folder)
        state, cause = self._state() if status is None else self._after(status)
        if state != "ended":
            status = None
        self.told = (state, self.started is None)
        known: Probe = {
            "folder": self.folder,
            "state": state,
            "started": self._localised(self.started),
            "status": status if status is None else self._dated(status),
            "cause": cause,
        }
        return known, True

    def journal(self, *, with_notes: bool) -> Notes:
        """Return a piece of what its journal says that was not read."""
        found = super().journal(with_notes=with_notes)
        for note in found["notes"]:
            if note["what"] in ("stopped", "continued"):
                self.is_stopped = note["what"] == "stopped"
            note["at_ns"] += self._ahead_ns or 0
        return found

    def send(self, order: Mapping[str, object]) -> bool:
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
        queue = self._queue()
        is_gone = queue is not None and self.key not in queue.jobs and self._is_over()
        return is_gone and status_in(self.folder) is None and claimed_by(self.folder) != WITHDRAWN

    def has_begun(self) -> bool:
        """Say whether it runs, or has, also where somebody has removed its folder since."""
        if self._read_started() or claimed_by(self.folder) == BEGUN:
            return True
        queue = self._queue()
        return queue is not None and queue.is_running(self.key)

    def may_live_on(self) -> bool:
        """Say whether Slurm has given it up, and it may run all the same."""
        queue = self._queue()
        return (
            self._over_since_s is not None
            and queue is not None
            and not queue.is_surely_over(self.key)
        )

    def _awaits_cause(self) -> bool:
        """Say whether it has ended, and Slurm is yet to say why."""
        return self._left_s is not None and self.told is not None and self.told[0] == "running"

    def _localised(self, started: Started | None) -> Started | None:
        """Return the record of a start with its instant on our monotonic clock.

        What that is on another node its claim tells, which has the time of day as well: clocks of a
        cluster differ by little, for Slurm itself takes no message that is minutes old or early.
        """
        if started is None or started["boot"] == boot_id():
            return started
        begun = begun_at(self.folder) if self._ahead_ns is None else None
        if begun is not None:
            wall_ns, at_ns = begun
            self._ahead_ns = clock.monotonic_ns() - (clock.wall_ns() - wall_ns) - at_ns
        if self._ahead_ns is None:
            return started
        at_ns = started["started_ns"] + self._ahead_ns
        return {**started, "boot": boot_id(), "started_ns": at_ns}

    def _dated(self, status: Status) -> Status:
        """Return the record of an end with its instants on our monotonic clock."""
        ahead_ns, saved_ns = self._ahead_ns or 0, status["saved_ns"]
        return {
            **status,
            "ended_ns": status["ended_ns"] + ahead_ns,
            "saved_ns": saved_ns if saved_ns is None else saved_ns + ahead_ns,
        }

    def _read_started(self) -> bool:
        """Say whether it has started; that is read once, and stays true."""
        self.started = self.started or started_in(self.folder)
        return self.started is not None

    def _state(self) -> tuple[State, str]:
        """Return where it stands without a status, and why it is over if it is."""
        if self.started is None:
            claim, refusal = claimed_by(self.folder), get(f"{self.folder}/refusal")
            if claim == WITHDRAWN or refusal is not None:
                return "absent", str((refusal or {}).get("cause", TAKEN_BACK))
            if claim != BEGUN:
                return "starting", ""
        alive: State = "starting" if self.started is None else "running"
        queue, patience = self._queue(), self._patience
        if queue is None or not self._is_over():
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
        """Return where it stands that has ended, and how Slurm ended it, if it did.

        Slurm says why it sent SIGTERM once the job is over there, as its GPUs are; until then, or
        for `settle_s`, it counts as running. So does a gang of which a rank ended with 0: so does
        the srun of one on a node that is lost, whatever that rank was at.
        """
        queue = self._queue()
        ended_as = "" if queue is None else queue.ended_as(self.key)
        limit_s = None if queue is None else queue.limit_s(self.key)
        codes = status["codes"] or ()
        may_be_cut_off = len(codes) > 1 and 0 in codes
        if ended_as in MAY_LIVE_ON:
            return "lost" if may_be_cut_off else "ended", end_in_words(ended_as)
        signal, left_at_s = told_to_leave_by(self.folder) if status["suspended"] else ("", None)
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
        queue = self._queue()
        limit_at_s = None if queue is None else queue.limit_at_s(self.key)
        if limit_at_s is None:
            return False
        return at_s is None or limit_at_s - at_s <= NOTICE_LEAD_MOST_S

    def _is_over(self) -> bool:
        """Say whether Slurm has none that waits or runs, by an answer that counts."""
        queue = self._queue()
        if queue is None or queue.alive(self.key):
            return False
        return queue.began_s > self.asked_s + self._patience.settle_s

    def _stands(self) -> object:
        """Return what changes when the queue says something new that counts."""
        queue = self._queue()
        return None if queue is None else (queue.standing(self.key), self._is_over())
