"""A process of its own that appends to a log and says what was acknowledged, to be killed.

    python -m tests.faults.log_child PATH MODE [BYTES]

It prints the last sequence number after each commit, until it is killed or the log fails; then it
prints the failure's class. MODE is `live` or `simulation`; no file may grow past BYTES.
"""

import asyncio
import os
import resource
import sys

from shunter.errors import LogError
from shunter.events.log import open_log
from tests.contracts.event_logs import story


async def append_for_ever(path: str, mode: str) -> None:
    """Append stories until something stops it."""
    live = mode == "live"
    async with open_log(
        path, durable=live, resume=True, frame_events=None if live else 10, frames_per_transaction=2
    ) as log:
        while True:
            log.append(story(7))
            await log.commit()
            say(str(log.seq))


def say(line: str) -> None:
    """Print past every buffer, so that what was said was said before the end."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Run until killed, or until the log fails."""
    path, mode, *limit = sys.argv[1:]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    try:
        asyncio.run(append_for_ever(path, mode))
    except LogError as error:
        say(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
