"""The process in which the policy of a live cluster thinks: it folds what it is told, and answers.

    daemon ── begin, tell, decide ──▶ state, barrier, policy ── standing, plan ──▶ daemon

It has a state of its own, folded from the same events, so that nothing it does reaches the
daemon's; it may be killed at any instant. It dies with the daemon.
"""

import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from traceback import format_exception

from shunter.ask.forks.forecast_process import die_with_parent
from shunter.ask.recorded_terms import Term
from shunter.config.resolved import recorded_runtime
from shunter.core.fold import apply
from shunter.core.interfaces import AnyPolicy
from shunter.core.planning.fault_barrier import OnFault
from shunter.core.planning.planner import RoundRules
from shunter.core.ranking.ranking import Ranking
from shunter.core.state import State
from shunter.daemon.policy_process.dry_run import Copies, dry_run
from shunter.daemon.policy_process.messages import (
    Begin,
    Decide,
    Decided,
    DryRan,
    DryRun,
    Failed,
    Order,
    Ordered,
    Remember,
    Remembered,
    Reply,
    Standing,
    Tell,
    receive,
    send,
    targets_bytes,
    wire_plan,
)
from shunter.errors import ShunterError
from shunter.events.codec import decode_payload, decode_record, encode_record
from shunter.events.facts import Event, SchedulerStarted


class Thinking:
    """A policy with its memory on a state that follows the daemon's."""

    def __init__(self, started: SchedulerStarted, state: bytes) -> None:
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

    def standing(self) -> Standing:
        """Say what the policy says between two plans."""
        term = self._term
        settled, wake_us = term.asked.settled(term.memory), term.asked.wake_at(term.memory)
        return Standing(settled, wake_us, term.asked.fault, self._trace())

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
    thinking: Thinking | None, request: Begin | Tell | Decide | Order | Remember
) -> tuple[Thinking | None, Reply]:
    """Return the reply to a request."""
    if isinstance(request, Begin):
        started = decode_payload(request.started)[0]
        assert isinstance(started, SchedulerStarted), "a policy begins with a start"
        thinking = Thinking(started, request.state)
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
    thinking: Thinking | None = None
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


def _isolated(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy of a start, whose faults never end this process."""
    runtime = recorded_runtime(started.config)
    return runtime.policy, replace(runtime.rules, on_fault=OnFault.isolate)
