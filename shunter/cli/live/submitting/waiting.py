"""`shunter submit --wait`: a job's output as it comes, and how the job ended.

What it prints as output goes to our output, what it prints as errors to ours, each byte once: after
a restart of the daemon both are asked for again without what has come already.
"""

import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, TextIO

from shunter.cli import output
from shunter.cli.live.connecting import PAUSE_S, connect
from shunter.cli.live.logs import END_BYTES, last_line, writer_to
from shunter.cli.live.tables import end_of
from shunter.errors import ShunterError, UnavailableError

if TYPE_CHECKING:
    from shunter.client import Client
    from shunter.client.requests import Answer

SIGNALLED = 128
LAST_WORDS_S = 30.0
"""How long what a job printed last may take to come once it has ended."""


def wait_for(client: "Client", made: "Answer", url: str | None, *, quiet: bool) -> int:
    """Wait for all jobs of a submission; return the first exit code that is not 0.

    The output of a single job is copied to ours meanwhile, unless that is to be `quiet`.
    """
    sys.stdout.flush()  # what the job prints comes after what was said of it
    copied = None if quiet or len(made["ids"]) > 1 else _Copied(made["id"], url)
    codes = []
    for job_id in made["ids"]:
        document = client.handle(job_id).wait()
        has_finished = document["state"] == "finished"
        last = "" if copied is None else copied.finish(has_finished=has_finished)
        output.note(end_of(document, last))
        codes.append(exit_code_of(document))
    return next((code for code in codes if code), 0)


def exit_code_of(document: "Answer") -> int:
    """Return what to exit with for a job that has ended, as shells have it."""
    if document["state"] == "finished":
        return 0
    code = document["exit_code"]
    if code is None or code == 0:
        return 1
    return int(code) if code > 0 else SIGNALLED - int(code)


class _Copied:
    """Both streams of a job on their way to ours, and what came last."""

    def __init__(self, job_id: str, url: str | None) -> None:
        self._job_id, self._url = job_id, url
        self._ends = {"stdout": b"", "stderr": b""}
        streams: tuple[tuple[str, TextIO], ...] = (("stdout", sys.stdout), ("stderr", sys.stderr))
        # Daemons: Ctrl-C ends the command, and does not wait for the end of the job.
        self._threads = [
            Thread(target=self._copy, args=(name, writer_to(stream)), daemon=True)
            for name, stream in streams
        ]
        for thread in self._threads:
            thread.start()

    def finish(self, *, has_finished: bool) -> str:
        """Wait for the last of it; return the last line, of its errors if it failed."""
        end_s = time.monotonic() + LAST_WORDS_S
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        order = ("stdout", "stderr") if has_finished else ("stderr", "stdout")
        return next((line for name in order if (line := last_line(self._ends[name]))), "")

    def _copy(self, name: str, write: Callable[[bytes], None]) -> None:
        known, is_away = 0, False
        while True:
            try:
                with connect(self._url) as client:
                    if is_away:
                        client.job(self._job_id)
                        is_away = False
                    for piece in client.logs(self._job_id, stream=name, follow=True, skip=known):
                        known += len(piece)
                        write(piece)
                        self._ends[name] = (self._ends[name] + piece)[-END_BYTES:]
                    if client.job(self._job_id)["is_over"]:
                        return
            except UnavailableError as error:
                if name == "stdout" and not is_away:
                    output.note(f"{error}; the output goes on when a daemon answers")
                is_away = True  # said once until it answers again
            except ShunterError as error:
                output.note(f"the {name} of {self._job_id} cannot be shown: {error}")
                return
            time.sleep(PAUSE_S)
