"""What the API tells on stderr: a line, once in a while, not one for each bad request.

Anybody who reaches a socket can send requests that are none. What they do is told once a minute
with how often it happened; faults of ours are told whole, each with its traceback.
"""

import logging
import sys
import time
import traceback
from collections.abc import Callable

import h11

__all__ = ["BriefHandler", "brief_messages"]

EVERY_S = 60.0
KINDS_MOST = 100
NAMES = ("uvicorn.error", "shunter.api")


class BriefHandler(logging.Handler):
    """Prints each message at most once a minute, and then how often it came."""

    def __init__(
        self,
        tell: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._now = now
        self._seen: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or count it."""
        text = record.getMessage().strip()
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, h11.LocalProtocolError):
            text = "a request turned out to be no HTTP when it was being answered"
        elif error is not None:
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        last_s, missed = self._seen.get(text, (-EVERY_S, 0))
        now_s = self._now()
        if now_s - last_s < EVERY_S:
            self._seen[text] = last_s, missed + 1
            return
        if len(self._seen) >= KINDS_MOST:
            self._seen.clear()
        self._seen[text] = now_s, 0
        more = f" (and {missed:,} more times since it was told last)" if missed else ""
        self._tell(f"http: {text}{more}")


def brief_messages() -> None:
    """Let the server and the API tell briefly on stderr."""
    handler = BriefHandler(lambda line: print(line, file=sys.stderr, flush=True))
    for name in NAMES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
