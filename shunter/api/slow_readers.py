"""Answers that go on for long, to readers who may read slowly, never, or leave.

A reader who takes nothing for a while holds memory here, and may not be there any more. Its
connection is cut, which the daemon tells; a reader that lives asks again and goes on where it was.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from shunter.errors import BackendError

CUT = "shunter.cut"
"""The extension of a request's scope that cuts its connection."""

SLOW_S = 30.0


class TimelyResponse(StreamingResponse):
    """Sends what a generator yields, as long as the reader takes each piece in time."""

    def __init__(
        self,
        content: AsyncGenerator[bytes, None],
        media_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        slow_s: float = SLOW_S,
        was_slow: Callable[[], None] = lambda: None,
    ) -> None:
        sent = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(content, headers=sent, media_type=media_type)
        self._content = content
        self._slow_s = slow_s
        self._was_slow = was_slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; cut the connection of a reader who is too slow."""
        cut = scope.get("extensions", {}).get(CUT)

        async def timely(message: Message) -> None:
            with anyio.move_on_after(self._slow_s) as sending:
                await send(message)
            if sending.cancelled_caught:
                self._was_slow()
                if cut is not None:
                    cut()

        # The generator is closed here and now: whoever leaves it to the collector leaks what it
        # holds, since a reader may leave while a piece is on its way.
        async with aclosing(self._content):
            try:
                await super().__call__(scope, receive, timely)
            except BackendError:  # a server does not answer any more, or the daemon ends
                if cut is None:
                    raise
                cut()
