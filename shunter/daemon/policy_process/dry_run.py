"""What the next plan would do with a job that nobody has submitted, tried in a copy of the process.

    policy's process ── fork ──▶ the same state, policy and memory: submission, one plan ─▶ reply

The copy costs what the kernel's copy of a page table does, whatever the policy is, and nothing it
does reaches the state that it was copied from. The policy's process goes on meanwhile. A copy lives
for `limit_s` at most, and no longer than the process that it was made of.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from shunter.ask.forks.forecast_process import die_with_parent
from shunter.ask.recorded_terms import Term
from shunter.ask.waits import wait_of
from shunter.ask.words import allocation_in_words
from shunter.core.state import State
from shunter.daemon.policy_process.messages import DryRan, DryRun, Failed, send
from shunter.errors import ShunterError
from shunter.events.codec import decode_payload
from shunter.events.facts import Event, JobSubmitted, Trigger


class Copies:
    """The copies of this process that are at work."""

    def __init__(self) -> None:
        self._alive: list[int] = []

    def make(self, work: Callable[[], DryRan], limit_s: float, replies: int) -> None:
        """Let a copy do some work, and send what comes of it.

        Args:
            work: what it does.
            limit_s: how long it may take.
            replies: the descriptor of the socket on which the reply goes; it is closed here.
        """
        self._reap()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # too many processes, or too little memory: whoever asked is not answered
            os.close(replies)
            return
        if pid:
            os.close(replies)
            self._alive.append(pid)
            return
        try:
            gc.disable()  # a collection would copy every page there is
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            if die_with_parent(parent):
                _work(work, replies)
        finally:
            os._exit(0)

    def _reap(self) -> None:
        """Let go of those that have ended."""
        self._alive = [pid for pid in self._alive if not _has_ended(pid)]


def _has_ended(pid: int) -> bool:
    """Say whether a child has ended, and let go of it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # where SIGCHLD is ignored the kernel has let go of it
        return True


def _work(work: Callable[[], DryRan], replies: int) -> None:
    connection = socket.socket(fileno=replies)
    reply: DryRan | Failed
    try:
        reply = work()
    except ShunterError as error:
        reply = Failed(str(error))
    with suppress(OSError):  # whoever asked has given up
        send(connection, reply)


def dry_run(
    term: Term, state: State, tell: Callable[[Sequence[Event]], None], request: DryRun
) -> DryRan:
    """Return what the next plan does with a job, and leave another state.

    Args:
        term: the policy at work.
        state: what it is on.
        tell: folds events, and tells the policy of them.
        request: the job.
    """
    submitted = decode_payload(request.submitted)[0]
    assert isinstance(submitted, JobSubmitted), "a dry run is of a submission"
    tell([submitted])
    rules, at_us = term.rules, max(request.now_us, state.now_us)
    if rules.round_us:
        at_us = rules.grid_at(at_us + 1)
    term.mend(at_us)
    targets = term.planner.targets(at_us)
    if targets is not None:
        tell([targets])
    tell(term.planner.decisions(at_us, Trigger.round if rules.round_us else Trigger.event))
    job = state.jobs[submitted.job_id]
    if job.allocation.shares:
        where = allocation_in_words(job.allocation)
        return DryRan(at_us, where, job.since_us is not None, fault=term.asked.fault)
    return DryRan(at_us, "", starts=False, wait=wait_of(job, state), fault=term.asked.fault)
