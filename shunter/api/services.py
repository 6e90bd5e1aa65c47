"""What all handlers share: the site, who may call, the stream, metrics, readers of the past.

Read `Services`, at the end, first.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import msgspec
import orjson

from shunter.api.access import Callers
from shunter.api.cluster_state import Metrics, state_document, view_document
from shunter.api.event_stream import LogAccess, Stream
from shunter.ask.forks import BOOT, Found, Held, Problem, Question, StartsIf, Tried
from shunter.daemon import Caller, Groups, Site
from shunter.errors import RateLimitedError, RefusedError, ShunterError, UnreachableError
from shunter.events import JobSubmitted, encode_payload


class RateLimit:
    """A bucket of tokens for each user, filled at a steady rate; it knows no clock."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, user: str, now_s: float) -> None:
        """Take a token of a user.

        Args:
            user: who calls; one of a bounded set.
            now_s: the instant, by a clock that never goes back.
        Raises:
            RateLimitedError: there is none; it says when there will be.
        """
        left, then_s = self._left.get(user, (self._most, now_s))
        left = min(self._most, left + (now_s - then_s) * self._per_s)
        if left < 1:
            wait_s = (1 - left) / self._per_s
            self._left[user] = (left, now_s)
            raise RateLimitedError(
                f"{user} proposes too often: {self._per_s:g} times a second are allowed "
                f"(server.proposals_per_s); again in {wait_s:.3f} s",
                wait_s,
            )
        self._left[user] = (left - 1, now_s)


class UserTurns:
    """Gives users their turns; who has too many that wait is refused."""

    def __init__(self, what: str, *, waiting_most: int, at_once: int, retry_after_s: float) -> None:
        """Name what is asked for in one word, and how many of a user and in all may ask.

        Args:
            what: for the message of who is refused.
            waiting_most: of one user, beside the one that is at work.
            at_once: of all users, at work.
            retry_after_s: when who is refused may ask again.
        """
        self._what = what
        self._most = 1 + waiting_most
        self._retry_after_s = retry_after_s
        self._all = anyio.CapacityLimiter(at_once)
        self._of_users: dict[str, tuple[anyio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of a user, and hold it.

        Raises:
            RateLimitedError: as many of his as may wait do.
        """
        lock, count = self._of_users.get(user, (None, 0))
        if count >= self._most:
            raise RateLimitedError(
                f"{user} has {count} {self._what} at work or waiting, and no more may be: wait for "
                "their answers",
                self._retry_after_s,
            )
        lock = lock or anyio.Lock()
        self._of_users[user] = lock, count + 1
        try:
            async with lock, self._all:
                yield
        finally:
            _, count = self._of_users[user]
            if count == 1:
                del self._of_users[user]
            else:
                self._of_users[user] = lock, count - 1


# Simulations for callers:
#
#     question ─▶ turn of the user ─▶ process over the log ─▶ answer, or an error after LIMIT_S
#
# The process is killed when it takes too long or the daemon stops, and by the kernel when the
# daemon dies. How past forecasts held never changes, so it is kept from answer to answer.

LIMIT_S = 180
"""So long a forecast may take; ours."""

MOMENTS = 2
"""So many past moments are tried with each answer."""

KEPT_MOST = 50
"""Of so many moments it is kept how forecasts held, the oldest are forgotten first."""

_REPLY: msgspec.json.Decoder[Found | Tried | Problem] = msgspec.json.Decoder(
    Found | Tried | Problem
)


class Forecasts:
    """Makes forecasts of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._turns = UserTurns("forecasts", waiting_most=1, at_once=2, retry_after_s=10.0)
        self._held: dict[int, Held] = {}

    async def of_queue(self, by: Caller, user: str | None) -> dict[str, Any]:
        """Return when jobs start and end that have not ended.

        Args:
            by: who asks; of others' jobs only an admin may.
            user: whose jobs; None: those of the caller, of an admin everybody's.
        Raises:
            RefusedError: they are not the caller's.
            RateLimitedError: too many of his are at work or wait.
            ShunterError: there is no answer, or not in time.
        """
        if not by.is_admin and user not in (None, by.user):
            raise RefusedError(f"forecasts of {user}'s jobs are for {user} and admins")
        whose = user if by.is_admin else by.user
        return await self._answered(by, Question(self._address, user=whose))

    async def of_submission(self, by: Caller, submitted: JobSubmitted) -> dict[str, Any]:
        """Return when a job would start and end that is only imagined.

        Raises:
            ShunterError: as `of_queue` does.
        """
        question = Question(self._address, submitted=encode_payload([submitted]))
        return await self._answered(by, question)

    async def of_changes(self, by: Caller, asked: StartsIf, owner: str) -> dict[str, Any] | None:
        """Return what would make a job start; None: it does not wait.

        Args:
            by: who asks; of others' jobs only an admin may.
            asked: which job, and at which moment.
            owner: whose job it is.
        Raises:
            ShunterError: as `of_queue` does.
        """
        if not by.is_admin and owner != by.user:
            raise RefusedError(
                f"what would make {asked.job_id} start is for {owner} and admins: it is {owner}'s"
            )
        async with self._turns.turn(by.user):
            found = await _made(asked)
        assert isinstance(found, Tried), "the answer to that question"
        return found.document

    @property
    def _address(self) -> str:
        return self._site.config.log.url

    async def _answered(self, by: Caller, question: Question) -> dict[str, Any]:
        async with self._turns.turn(by.user):
            known = tuple(self._held.values())
            question = msgspec.structs.replace(
                question, now_us=self._site.now_us(), known=known, moments=MOMENTS
            )
            found = await _made(question)
        assert isinstance(found, Found), "the answer to that question"
        for each in found.answer.held[-KEPT_MOST:]:
            self._held.pop(each.seq, None)  # so that the order is that of the last tries
            self._held[each.seq] = each
        for seq in [*self._held][:-KEPT_MOST]:
            del self._held[seq]
        return found.answer.document


async def _made(question: Question | StartsIf) -> Found | Tried:
    """Return what a process finds; ShunterError: nothing, or not in time."""
    paths = msgspec.json.encode([one or str(Path.cwd()) for one in sys.path]).decode()
    words = [sys.executable, "-c", BOOT, str(LIMIT_S), str(os.getpid()), paths]
    with anyio.move_on_after(LIMIT_S):
        status, reply = await _ran(words, msgspec.json.encode(question))
        if status:
            raise ShunterError(f"nothing was found: the process ended with {status}")
        told = _REPLY.decode(reply)
        if isinstance(told, Problem):
            raise ShunterError(f"nothing was found: {told.detail}")
        return told
    raise ShunterError(f"the simulation took longer than {LIMIT_S} s, and was ended")


async def _ran(words: Sequence[str], question: bytes) -> tuple[int, bytes]:
    """Return the exit code and output of a process; cancelled, it is killed."""
    with anyio.CancelScope(shield=True):  # half started, it would be ended by nobody
        process = await anyio.open_process(words, stdin=PIPE, stdout=PIPE, stderr=None)
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    reply, replies = bytearray(), process.stdout

    async def read() -> None:
        async for chunk in replies:
            reply.extend(chunk)

    async with process, anyio.create_task_group() as readers:
        readers.start_soon(read)
        with suppress(anyio.BrokenResourceError):  # it has ended: its exit code says how
            await process.stdin.send(question)
        await process.stdin.aclose()
        status = await process.wait()
    return status, bytes(reply)


@dataclass
class Services:
    """One site, and what serves it over HTTP; `openapi` returns its description."""

    site: Site
    callers: Callers
    stream: Stream
    metrics: Metrics
    openapi: Callable[[], bytes]
    past: LogAccess = field(init=False)
    groups: Groups = field(init=False)
    proposal_rate: RateLimit = field(init=False)
    dry_runs: UserTurns = field(init=False)
    forecasts: Forecasts = field(init=False)
    is_ready: bool = False
    _state: tuple[int, bytes] | None = None
    _view: tuple[int, bytes] | None = None

    def __post_init__(self) -> None:
        self.past = LogAccess(self.site.read_log)
        self.groups = Groups(self.past.read)
        self.proposal_rate = RateLimit(self.site.config.server.proposals_per_s)
        self.dry_runs = UserTurns("dry runs", waiting_most=4, at_once=4, retry_after_s=1.0)
        self.forecasts = Forecasts(self.site)

    def dated(self, at_us: int) -> str:
        """Return an instant of the log as a date."""
        return self.site.dated(at_us)

    def state_now(self) -> tuple[int, bytes]:
        """Return the last event with what is true after it; made once for each event."""
        state = self.site.state
        if self._state is None or self._state[0] != state.seq:
            self._state = (state.seq, orjson.dumps(state_document(state, self.dated)))
        return self._state

    def view_now(self) -> tuple[int, bytes]:
        """Return the last event with what is free after it; made once for each event."""
        state = self.site.state
        if self._view is None or self._view[0] != state.seq:
            self._view = (state.seq, orjson.dumps(view_document(state, self.dated)))
        return self._view

    async def durable(self, seq: int) -> None:
        """Wait until an event is on disk: nobody outside sees more than the log has.

        Raises:
            UnreachableError: it will never be; the scheduler has stopped.
        """
        if not await self.stream.reached(seq):
            raise UnreachableError("the scheduler has stopped")

    @property
    def now(self) -> str:
        """The date and time it is, by the clock of the log."""
        return self.dated(self.site.now_us())
