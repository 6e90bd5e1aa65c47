"""Simulations for callers: each in a process of its own, bounded per user and in all.

    question ─▶ turn of the user ─▶ process over the log ─▶ answer, or an error after LIMIT_S

The process is killed when it takes too long, when the daemon stops, and by the kernel when the
daemon dies. How past forecasts held does not change any more, so it is kept from answer to answer,
and each adds a few moments of the past.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import msgspec

from shunter.api.access.user_turns import UserTurns
from shunter.ask.forks.forecast_process import BOOT, Found, Held, Problem, Question, StartsIf, Tried
from shunter.daemon.requests import Caller
from shunter.daemon.site import Site
from shunter.errors import RefusedError, ShunterError
from shunter.events.codec import encode_payload
from shunter.events.facts import JobSubmitted

__all__ = ["LIMIT_S", "Forecasts"]

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
            self._held.pop(each.seq, None)  # so that the order is that of the last trials
            self._held[each.seq] = each
        for seq in [*self._held][:-KEPT_MOST]:
            del self._held[seq]
        return found.answer.document


async def _made(question: Question | StartsIf) -> Found | Tried:
    """Return what a process finds.

    Raises:
        ShunterError: it found nothing, or took too long.
    """
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
