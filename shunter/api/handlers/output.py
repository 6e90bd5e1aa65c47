"""What a job printed: its owner and admins may read it, as it is or as it comes.

A file is named by numbers and by one of two words that the query's model knows, and by a job that
exists: nothing of a request ever becomes a part of a path.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import anyio
from starlette.responses import Response

from shunter.api.documents.job_history import JobHistory
from shunter.api.handlers.jobs import history_in_log, known
from shunter.api.handlers.queries import LogsQuery
from shunter.api.handlers.rank_output import BOTH, Both, Printed, Reader
from shunter.api.routing import BYTES, Call, NoBody
from shunter.api.services import Services
from shunter.api.slow_readers import TimelyResponse
from shunter.ask.words import instant_us
from shunter.daemon.requests import Caller
from shunter.errors import NotFoundError, RefusedError, UsageError
from shunter.events.values import JobId

LOOK_S = 0.2
"""How often a followed file is looked at."""


async def logs(call: Call[LogsQuery, NoBody]) -> Response:
    """Answer with the output of one rank, from one attempt or as it comes."""
    job_id, services, query = JobId(call.path["job_id"]), call.services, call.query
    known(services, job_id)
    history = await history_in_log(services, job_id)
    _check_owner(history, call.caller)
    since_us = None
    if query.since is not None:
        since_us = instant_us(query.since, services.site.origin.isoformat())
    attempts = _attempts(history, query.attempt, since_us)
    since_s = None if since_us is None else services.site.wall(since_us).timestamp()
    if query.skip is not None and query.stream == BOTH:
        raise UsageError("skip counts bytes of one stream: expected stdout or stderr")
    name = "stdout" if query.stream == BOTH else query.stream
    stream = Printed(services, job_id, name, query.rank, since_s)
    reader: Reader = stream
    if query.stream == BOTH:
        reader = Both(stream, Printed(services, job_id, "stderr", query.rank, since_s))
    output = _Output(services, job_id, reader)
    offset = None
    if query.skip is not None:
        attempts, offset = await _after(stream, attempts, query.skip)
    elif since_us is None:
        attempts = attempts[-1:]
    first = attempts[0] if attempts else 0
    if first and not query.follow:
        await _check_kept(stream, history, first)
    is_fixed = query.attempt is not None
    if query.tail is not None:
        offset = await _tail(stream, first, query)
    if query.position is not None and not query.follow:
        raise UsageError("position is for output that is followed: expected follow=true as well")
    if query.position in (None, "start"):
        await reader.enter(first, offset)
    else:
        numbers = [int(number) for number in query.position.split(".")]
        first = numbers[0]
        await reader.resume(numbers)
    if query.follow:
        pieces = output.follow(first, is_fixed=is_fixed, is_marked=query.position is not None)
    else:
        pieces = output.whole(attempts, offset)
    return TimelyResponse(pieces, BYTES, headers={"X-Attempt": str(first)})


async def _check_kept(stream: Printed, history: JobHistory, attempt: int) -> None:
    """Raise NotFoundError if a rank of an attempt that has run has left no output."""
    await stream.enter(attempt, 0)
    _, size = await stream.read(0, 1)
    job_id = history.submitted.job_id
    if size is None and stream.rank:
        raise NotFoundError(f"attempt {attempt} of job {job_id} has no rank {stream.rank}")
    if size is None and _has_run(history, attempt):
        raise NotFoundError(f"the output of attempt {attempt} of job {job_id} is not kept any more")


async def _after(stream: Printed, attempts: Sequence[int], skip: int) -> tuple[list[int], int]:
    """Return the attempts that printed beyond so many bytes, and where."""
    left = list(attempts)
    while len(left) > 1:
        await stream.enter(left[0], 0)
        _, size = await stream.read(0, 1)
        if size is not None and skip < size:
            break
        skip -= size or 0
        del left[0]
    return left, max(0, skip)


async def _tail(stream: Printed, attempt: int, query: LogsQuery) -> int:
    """Return where the last bytes of one stream of an attempt begin."""
    if query.stream == BOTH or query.skip is not None or query.since is not None:
        raise UsageError(
            "tail counts bytes of one stream from its end: expected stdout or stderr, and neither "
            "skip nor since"
        )
    await stream.enter(attempt, 0)
    _, size = await stream.read(0, 1)
    return max(0, (size or 0) - (query.tail or 0))


def _check_owner(history: JobHistory, by: Caller) -> None:
    owner = history.submitted.spec.user
    if not by.is_admin and owner != by.user:
        raise RefusedError(
            f"the output of job {history.submitted.job_id} is for {owner or 'its owner'} and admins"
        )


def _has_run(history: JobHistory, number: int) -> bool:
    """Say whether an attempt has begun and is over."""
    return any(
        one.number == number and one.started_us is not None and one.released_us is not None
        for one in history.attempts
    )


def _attempts(history: JobHistory, wanted: int | None, since_us: int | None) -> list[int]:
    """Return the attempts that may be shown, oldest first; the last one always may.

    Raises:
        NotFoundError: there is no such attempt.
    """
    found = history.attempts
    if wanted is not None:
        found = [one for one in found if one.number == wanted]
        if not found:
            last = history.attempts[-1].number if history.attempts else 0
            raise NotFoundError(
                f"job {history.submitted.job_id} has no attempt {wanted}; the last is {last}"
            )
    if since_us is not None:
        found = [
            one
            for one in found
            if one is found[-1] or one.released_us is None or one.released_us >= since_us
        ]
    return [one.number for one in found]


@dataclass
class _Output:
    """One rank's output, over the attempts of a job."""

    services: Services
    job_id: JobId
    reader: Reader

    async def whole(
        self, attempts: Sequence[int], offset: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output of attempts, of the first one from an offset on."""
        for attempt in attempts:
            await self.reader.enter(attempt, offset)
            offset = None
            while piece := await self.reader.following():
                yield piece
            if piece := self.reader.rest():
                yield piece

    async def follow(
        self, attempt: int, *, is_fixed: bool, is_marked: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield output as it comes, attempt after attempt, until the job ends.

        The reader is in the attempt already. Where it `is_marked`, each piece says where the next
        one begins, and the end that it is one.
        """
        marked = self._marked if is_marked else bytes
        is_last_look = has_begun = False
        while True:
            if piece := await self.reader.following():
                yield marked(piece)
                continue
            if is_marked and not has_begun:
                yield marked(b"")  # a reader that was cut off learns that it is read for again
            has_begun = True
            if is_last_look:
                if piece := self.reader.rest():
                    yield marked(piece)
                following = await self._following(attempt)
                if is_fixed or following is None:
                    if is_marked:
                        yield b"end 0\n"
                    return
                attempt, is_last_look = following, False
                await self.reader.enter(attempt)
                continue
            is_last_look = self._is_over(attempt, is_fixed=is_fixed)
            if not is_last_look:
                if piece := self.reader.idle():
                    yield marked(piece)
                await anyio.sleep(LOOK_S)

    def _marked(self, piece: bytes) -> bytes:
        """Return a piece with a line before it: the position after it, its length."""
        position = ".".join(str(int(number)) for number in self.reader.position())
        return f"{position} {len(piece)}\n".encode() + piece

    def _is_over(self, attempt: int, *, is_fixed: bool) -> bool:
        """Say whether an attempt prints no more: the job has ended, or a later one began."""
        job = self.services.site.state.jobs.get(self.job_id)
        if job is None or job.attempt > attempt:
            return True
        return is_fixed and job.since_us is None

    async def _following(self, attempt: int) -> int | None:
        """Return the next attempt, None where there will be none."""
        job = self.services.site.state.jobs.get(self.job_id)
        if job is not None:
            return attempt + 1 if job.attempt > attempt else None
        history = await history_in_log(self.services, self.job_id)
        return next((one.number for one in history.attempts if one.number > attempt), None)
