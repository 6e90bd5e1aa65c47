"""What a status of 0 is worth with which an attempt ends that was to leave.

Programs end with 0 when they are done, and many do when they are told to end: Lightning at SIGTERM,
say, at whatever mini-batch it is. What was sent to them decides which of the two it was, and what
the SDK has said of its loop (docs/decisions/jobs.md):

    sent            said                     a status of 0
    anything        done                     finished: the script says so as its last line
    SIGTERM         anything else            not finished
    the file, or    completed                finished: its loop had come to its end
    another signal  acknowledged             not finished: it leaves with 75 where it has saved
    another signal  progress alone           not finished
    another signal  nothing                  finished, and its owner is warned: there is no SDK
    the file alone  progress, or nothing     finished: only who answers it reads that file
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from shunter.backends.node.messages import JobMessage

COMPLETED, DONE = "completed", "done"
GOES_ON = "it goes on from its last checkpoint"
SAY_SO = "`run.finish()` as the last line of a script says that all is done"


class Verdict(NamedTuple):
    """What to warn the owner of, and whether the work of the attempt is not finished."""

    warning: str = ""
    is_unfinished: bool = False


FINISHED = Verdict()


class Ending:
    """What was sent to an attempt that is to leave, and what it has said of its end."""

    def __init__(self, number: int) -> None:
        self.number = number  # of the signal that asks
        self.is_signalled = False  # processes that handle it were sent that signal
        self._is_heard = self._has_acknowledged = False
        self._end = ""
        self._rank: int | None = None

    @property
    def has_said_so(self) -> bool:
        """Whether the loop has come to its end, as a rank has said."""
        return bool(self._end)

    @property
    def is_done(self) -> bool:
        """Whether the script has said that all is done."""
        return self._end == DONE

    def take_progress(self, said: JobMessage) -> None:
        """Note how far a rank is: the first that ends its loop ends it for all."""
        self._is_heard = True
        if said.state in (COMPLETED, DONE):
            self._end, self._rank = said.state or "", said.rank
        elif said.state in ("training", "saving") and said.rank == self._rank:
            self._end = ""  # there was another loop, or it was asked in an evaluation

    def take_answer(self, what: str) -> None:
        """Note what it has answered to the request; after `failed` it trains on."""
        self._has_acknowledged = what != "failed"

    def of_zero(self, *, is_terminated: bool, has_saved: bool) -> Verdict:
        """Say what it is worth that the attempt has ended with 0 when it was to leave.

        Args:
            is_terminated: its processes were sent SIGTERM.
            has_saved: it has told a checkpoint since it was asked.
        """
        by = _name(self.number)
        hint = f"; {SAY_SO}" if self._is_heard else ""
        if self.is_done:
            return FINISHED
        if is_terminated or (self.is_signalled and self.number == signal.SIGTERM):
            why = "ended with status 0 when SIGTERM told it to leave, which is no sign of its end"
            return Verdict(f"{why}: {GOES_ON}{hint}", is_unfinished=True)
        if self._end:
            return FINISHED
        if self._has_acknowledged and has_saved:
            why = "saved to leave, and ended with status 0 where 75 was expected"
            return Verdict(f"{why}, which its command may hide: {GOES_ON}", is_unfinished=True)
        if self._has_acknowledged:
            why = "ended with status 0 after it had seen that it is to leave, and has not saved"
            return Verdict(f"{why}: {GOES_ON}{hint}", is_unfinished=True)
        if self.is_signalled and self._is_heard:
            why = f"ended with status 0 after {by} had asked it to leave, and has not saved"
            return Verdict(f"{why}: {GOES_ON}{hint}", is_unfinished=True)
        if self.is_signalled:
            why = f"ended with status 0 after {by} had asked it to leave, and counts as finished"
            return Verdict(f"{why}: a job that is to go on saves and exits with 75")
        if self._is_heard:
            why = "ended with status 0 while it was asked to leave, before a mini-batch at which it"
            return Verdict(f"{why} could have seen that, and counts as finished{hint}")
        return FINISHED


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
