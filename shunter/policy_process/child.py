"""The process in which the policy of a live cluster decides: it folds events, and answers.

    daemon ── begin, tell, decide ──▶ state, barrier, policy ── status, plan ──▶ daemon

It has a state of its own, folded from the same events, so that nothing it does reaches the
daemon's; it may be killed at any instant. It dies with the daemon. Read `answer_all`, then
`PolicyWorker`; before them come copies for dry runs, after them the fork of the first process.
"""

import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from traceback import format_exception
from typing import NoReturn, Protocol

from shunter.ask import Term, allocation_in_words, wait_of
from shunter.ask.forks import die_with_parent
from shunter.config import recorded_runtime
from shunter.core import AnyPolicy, State
from shunter.core.fold import apply
from shunter.core.planning import OnFault, RoundRules
from shunter.core.ranking import Ranking
from shunter.errors import ShunterError
from shunter.events import Event, decode_payload, decode_record, encode_record, facts
from shunter.policy_process.messages import (
    Begin,
    Decide,
    Decided,
    DryRan,
    DryRun,
    Failed,
    Order,
    Ordered,
    PolicyStatus,
    Remember,
    Remembered,
    Reply,
    Tell,
    receive,
    send,
    targets_bytes,
    wire_plan,
)

#     policy's process ── fork ──▶ the same state, policy and memory: submission, one plan ─▶ reply
#
# A copy costs a copy of the page table, lives for `limit_s` at most, and dies with its parent.


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
    assert isinstance(submitted, facts.JobSubmitted), "a dry run is of a submission"
    tell([submitted])
    rules, at_us = term.rules, max(request.now_us, state.now_us)
    if rules.round_us:
        at_us = rules.grid_at(at_us + 1)
    term.mend(at_us)
    targets = term.planner.targets(at_us)
    if targets is not None:
        tell([targets])
    tell(
        term.planner.decisions(
            at_us, facts.Trigger.round if rules.round_us else facts.Trigger.event
        )
    )
    job = state.jobs[submitted.job_id]
    if job.allocation.shares:
        where = allocation_in_words(job.allocation)
        return DryRan(at_us, where, job.since_us is not None, fault=term.asked.fault)
    return DryRan(at_us, "", starts=False, wait=wait_of(job, state), fault=term.asked.fault)


# The policy at work.


class PolicyWorker:
    """A policy with its memory on a state that follows the daemon's."""

    def __init__(self, started: facts.SchedulerStarted, state: bytes) -> None:
        self._state: State = decode_record(State, state)
        self._term = Term(started, _isolated, self._state)

    def tell(self, events: Sequence[Event]) -> None:
        """Fold events, each before the policy hears of it."""
        state, term = self._state, self._term
        for event in events:
            result = apply(state, event)
            term.tell(event, result)

    def decide(self, now_us: int) -> Decided:
        """Ask the policy at an instant, as the scheduler does."""
        term = self._term
        term.mend(now_us)
        targets = term.planner.targets(now_us)
        if targets is not None:
            self.tell([targets])
        _, plan = term.planner.plan(now_us)
        return Decided(targets_bytes(targets), wire_plan(plan), self._trace())

    def standing(self) -> PolicyStatus:
        """Say what the policy says between two plans."""
        term = self._term
        settled, wake_us = term.asked.settled(term.memory), term.asked.wake_at(term.memory)
        return PolicyStatus(settled, wake_us, term.asked.fault, self._trace())

    def order(self) -> Ordered:
        """Return who waits, first those that are to start first."""
        ranking = self._term.memory
        if not isinstance(ranking, Ranking):
            return Ordered(())
        keys = sorted(key for waiting in ranking.classes for key in waiting.in_order)
        return Ordered(tuple(ranking.entry_at(key).job_id for key in keys))

    def remember(self) -> Remembered:
        """Return the policy's memory as a snapshot holds it."""
        try:
            return Remembered(encode_record(self._term.memory))
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError):
            return Remembered(b"")  # somebody's policy that remembers in no record

    def dry_run(self, request: DryRun) -> DryRan:
        """Return what the next plan does with a job; for copies of this process only."""
        return dry_run(self._term, self._state, self.tell, request)

    def _trace(self) -> str:
        error, self._term.asked.error = self._term.asked.error, None
        if error is None:
            return ""
        return "".join(format_exception(error)).encode("utf-8", "replace").decode("utf-8").rstrip()


def answer(
    thinking: PolicyWorker | None, request: Begin | Tell | Decide | Order | Remember
) -> tuple[PolicyWorker | None, Reply]:
    """Return the reply to a request."""
    if isinstance(request, Begin):
        started = decode_payload(request.started)[0]
        assert isinstance(started, facts.SchedulerStarted), "a policy begins with a start"
        thinking = PolicyWorker(started, request.state)
        return thinking, thinking.standing()
    assert thinking is not None, "the first request is to begin"
    match request:
        case Tell():
            thinking.tell(decode_payload(request.events))
            return thinking, thinking.standing()
        case Decide():
            return thinking, thinking.decide(request.now_us)
        case Order():
            return thinking, thinking.order()
        case Remember():
            return thinking, thinking.remember()


def main() -> None:
    """Answer on the socket whose number is given, to the process whose number is."""
    number, parent = int(sys.argv[1]), int(sys.argv[2])
    answer_all(socket.socket(fileno=number), parent)


def answer_all(connection: socket.socket, parent: int) -> None:
    """Answer requests on a socket until the daemon, which is the parent, goes."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # meant for the daemon, which ends this process
    if not die_with_parent(parent):
        return
    thinking: PolicyWorker | None = None
    copies = Copies()
    while (received := receive(connection)) is not None:
        request, descriptors = received
        if isinstance(request, DryRun):
            assert thinking is not None, "the first request is to begin"
            copies.make(partial(thinking.dry_run, request), request.limit_s, descriptors[0])
            continue
        try:
            thinking, reply = answer(thinking, request)
        except ShunterError as error:
            reply = Failed(str(error))
        try:
            send(connection, reply)
        except ConnectionError:  # the daemon was killed, and nobody waits for it
            return


def _isolated(started: facts.SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy of a start, whose faults never end this process."""
    runtime = recorded_runtime(started.config)
    return runtime.policy, replace(runtime.rules, on_fault=OnFault.isolate)


# The daemon forks the first process before it imports the rest: started by its command it would
# spend 0.2 s of CPU on imports. That way is for tests, and for sites run without `shunter serve`.


class Child(Protocol):
    """A process that was started or forked."""

    def kill(self) -> None:
        """Kill it, unless it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""


class ForkedChild:
    """A copy of this process, made by a fork."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = os.pidfd_open(pid)
        self._code: int | None = None

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self._code is None:
            signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""
        if self._code is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the policy's process", timeout or 0.0)
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            os.close(self._end)
        return self._code


_ready: list[tuple[socket.socket, Child]] = []


def fork_ahead() -> None:
    """Fork a process that `taken` returns later.

    To be called while this process has one thread and neither a loop, nor a log, nor sockets: a
    copy would have them too.
    """
    assert threading.active_count() == 1, "locks that other threads hold stay locked in a copy"
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_policy(theirs, parent)
    theirs.close()
    _ready.append((ours, ForkedChild(pid)))


def taken() -> tuple[socket.socket, Child] | None:
    """Return the process that was forked ahead, once, and our end of its socket."""
    return _ready.pop() if _ready else None


def _be_policy(theirs: socket.socket, parent: int) -> NoReturn:
    """Be the policy's process to its end, with the streams of one that is started."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        answer_all(theirs, parent)
        code = 0
    finally:  # whatever it was, nothing of the daemon goes on in this process
        if code:
            traceback.print_exc()
        os._exit(code)
