"""One attempt that is a batch job: where it stands by its records and by Slurm's queue.

Neither says enough alone. A record may be missing though the attempt has begun, for a node writes
it later than Slurm tells; and Slurm forgets jobs, or ends those whose processes live on. So what
its records do not say to be over is over only once Slurm says so as well, and has for a while.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shunter import clock
from shunter.backends.node.batch.claims import BEGUN, WITHDRAWN, add_command, claimed_by
from shunter.backends.node.messages.attempt_records import started_in, status_in
from shunter.backends.node.messages.wire import Probe, Started, State
from shunter.backends.node.processes.attempt_watch import Watched
from shunter.backends.node.records import get
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key

__all__ = ["JobAttempt", "Patience"]

ENDED: tuple[State, str] = ("ended", "")


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
    Slurm should have it and has not. `started` is what it was given, once it has started.
    """

    def __init__(
        self, folder: str, key: Key, queue: Callable[[], QueueView | None], patience: Patience
    ) -> None:
        super().__init__(folder)
        self.key = key
        self.asked_s = clock.monotonic_s()
        self.started: Started | None = None
        self.missed_since_s: float | None = None
        self._queue = queue
        self._patience = patience
        self._stood: object = None
        self._over_since_s: float | None = None

    def may_have_news(self) -> bool:
        """Say whether a look could show anything new."""
        return (
            self.has_changed()
            or self._over_since_s is not None
            or self._stands() != self._stood
            or self.is_missed()
        )

    def look(self) -> tuple[Probe, bool]:
        """Return its state; nothing of it is left to be swept."""
        self.note_seen()
        self._stood = self._stands()
        self._read_started()
        status = status_in(self.folder)
        state, cause = self._state() if status is None else ENDED
        self.told = (state, self.started is None)
        known: Probe = {
            "folder": self.folder,
            "state": state,
            "started": self.started,
            "status": status,
            "cause": cause,
        }
        return known, True

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

    def _read_started(self) -> bool:
        """Say whether it has started; that is read once, and stays true."""
        self.started = self.started or started_in(self.folder)
        return self.started is not None

    def _state(self) -> tuple[State, str]:
        """Return where it stands without a status, and why it is over if it is."""
        if self.started is None:
            claim, refusal = claimed_by(self.folder), get(f"{self.folder}/refusal")
            if claim == WITHDRAWN or refusal is not None:
                return "absent", str((refusal or {}).get("cause", ""))
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
        return (
            "absent" if self.started is None else "lost"
        ), f"Slurm ended it: {said or 'forgotten'}"

    def _is_over(self) -> bool:
        """Say whether Slurm has none that waits or runs, by an answer that counts."""
        queue = self._queue()
        if queue is None or queue.alive(self.key):
            return False
        return queue.began_s > self.asked_s + self._patience.settle_s

    def _stands(self) -> object:
        queue = self._queue()
        return None if queue is None else queue.standing(self.key)
