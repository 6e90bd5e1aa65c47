"""`shunter logs`: what a job printed, or as it comes; several ranks line by line.

A pipe or file gets it byte for byte. A terminal is commanded by none of it: escapes are spelled
out, so that nobody's job changes a title, asks the terminal for answers or hides what it printed.
"""

import codecs
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock, Thread
from typing import TYPE_CHECKING, Annotated, TextIO, TypedDict

import typer

from shunter.cli import output
from shunter.cli.answers import NOT_LAUNCHED, JobArgument, Url, connect, end_of, one_line, patiently
from shunter.cli.output import visible
from shunter.cli.units import since_s
from shunter.client import PAUSE_S, Absence
from shunter.errors import ShunterError, UnavailableError, UnreachableError

if TYPE_CHECKING:
    from shunter.client import Answer, Client


END_BYTES = 4096
"""How much of the end of a stream is kept for its last line."""

_NODE = re.compile(r"^[^\[]+")


class _Wanted(TypedDict):
    """Which output of a job is wanted, as `Client.logs` takes it."""

    attempt: int | None
    stream: str
    since: str | None


@dataclass
class _Asked:
    """Which job's output is wanted, whether as it comes."""

    job: str
    said: _Wanted
    follow: bool

    def pieces(self, client: "Client", rank: int, *, is_first: bool = True) -> Iterator[bytes]:
        """Yield what a rank printed.

        What is followed goes on after a restart of the daemon. That it waits is said on stderr, of
        several ranks by the first one only.

        Raises:
            UnavailableError: no daemon has answered in time.
        """
        if not self.follow:
            yield from client.logs(self.job, rank=rank, **self.said)
            return
        reader, absence = _Marked(), Absence()
        while True:
            try:
                came = client.marked_logs(self.job, reader.position, rank=rank, **self.said)
                for piece in came:
                    yield from reader.take(piece)
                    absence.end()
                if reader.has_ended:
                    return
                error = UnreachableError("the output was cut off before its end")
            except UnreachableError as cause:
                error = cause
            if is_first and not absence.has_begun:
                output.note(f"{error}; output goes on if one answers in {absence.patience_s:g} s")
            if not absence.pause():
                raise UnavailableError(
                    f"the output of {self.job} did not go on within {absence.patience_s:g} s: "
                    "given up; the job does not depend on this command: follow it once a daemon "
                    f"answers: `shunter logs -f {self.job}`"
                ) from error
            reader.restart()


class _Marked:
    """Reads pieces that have a line before them, and knows where to go on.

    A piece is given out once the whole of it has come, so that none is given out twice.
    """

    def __init__(self) -> None:
        self.position = "start"
        self._rest = b""

    @property
    def has_ended(self) -> bool:
        """Say whether the output has come to its end."""
        return self.position == "end"

    def restart(self) -> None:
        """Drop what has come of a piece: it comes again."""
        self._rest = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that some bytes of an answer complete."""
        self._rest += data
        while b"\n" in self._rest:
            line, _, rest = self._rest.partition(b"\n")
            position, length = line.decode("ascii").split()
            if len(rest) < int(length):
                return
            self._rest, self.position = rest[int(length) :], position
            if length != "0":
                yield rest[: int(length)]


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on, over attempts, until the job has ended.")
    ] = False,
    rank: Annotated[
        int | None,
        typer.Option(min=0, help="The process on which server, from 0; left out: all of them."),
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Left out: the last one.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|TIME",
            help="What was printed since then, in whichever attempts, as 10m or a date.",
        ),
    ] = None,
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Its output only, byte for byte.")
    ] = False,
    stderr: Annotated[
        bool, typer.Option("--stderr", help="Its errors only, byte for byte.")
    ] = False,
    url: Url = None,
) -> None:
    """Print what a job printed; yours, or anybody's if you are an admin.

    Output and errors line by line, in the order of time, so what a failed job said last stands at
    the end. Where it is not known which of them was first, a line says so.

    Where it ran on several servers, each line says on which, as `(gpu2, rank=1)`, unless one of
    them is asked for.

    With -f it waits out a restart of the daemon, two minutes at most, and goes on where it was. At
    the end it says on stderr how the job ended, and exits with 0 whatever that was: `submit --wait`
    exits with the job's own code.
    """
    ago_s = None if since is None else since_s(since)
    if ago_s is not None:
        since = (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat()
    said: _Wanted = {
        "attempt": attempt,
        "stream": _stream(stdout=stdout, stderr=stderr),
        "since": since,
    }
    asked = _Asked(job, said, follow)
    with connect(url) as client:
        found = client.job(job)
        nodes = [] if rank is not None else _nodes(found["attempts"], attempt)
        remark = _without_output(found, asked)
        if len(nodes) < 2 or remark:
            _print_rank(asked, client, rank or 0, remark)
    if len(nodes) > 1 and not remark:
        _print_ranks(asked, nodes, url)
    if follow and not (found["is_over"] and remark):  # that has said it all
        _note_end(job, url)


def _print_rank(asked: _Asked, client: "Client", rank: int, remark: str) -> None:
    """Print the output of one rank; where there is none, say a remark on that."""
    if asked.follow and remark:
        output.note(remark)
    write, count = writer_to(sys.stdout), 0
    for piece in asked.pieces(client, rank):
        write(piece)
        count += len(piece)
    if remark and not asked.follow and not count:
        output.note(remark)


def _note_end(job: str, url: str | None) -> None:
    """Say on stderr how a job ended whose output has come to its end."""
    with connect(url) as client:
        found = patiently(lambda: client.job(job), client.address, None)
    if found["is_over"]:
        output.note(end_of(found))


def last_line(end: bytes) -> str:
    """Return the last line with anything in it, of the end of a stream."""
    lines = [line.strip() for line in end.replace(b"\r", b"\n").split(b"\n")]
    found = next((line for line in reversed(lines) if line), b"")
    return found.decode("utf-8", "backslashreplace")


def _stream(*, stdout: bool, stderr: bool) -> str:
    """Return which stream is wanted; neither named is both."""
    if stdout == stderr:
        return "both"
    return "stdout" if stdout else "stderr"


def _print_ranks(asked: _Asked, nodes: list[str], url: str | None) -> None:
    """Print all ranks: one after the other, or each as it comes."""
    turn = Lock()

    def print_rank(rank: int) -> None:
        prefix, write = f"({nodes[rank]}, rank={rank}) ".encode(), writer_to(sys.stdout)
        with connect(url) as client:
            for line in _lines(asked.pieces(client, rank, is_first=not rank)):
                with turn:
                    write(prefix + line)

    if asked.follow:
        _side_by_side(print_rank, len(nodes))
    else:
        for rank in range(len(nodes)):
            print_rank(rank)


def _side_by_side(do: Callable[[int], None], count: int) -> None:
    """Do something for each rank at the same time; raise what first went wrong."""
    errors: list[ShunterError] = []

    def attempt(rank: int) -> None:
        try:
            do(rank)
        except ShunterError as error:
            errors.append(error)

    # Daemons: Ctrl-C ends the command, and does not wait for the end of the job.
    threads = [Thread(target=attempt, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _without_output(found: "Answer", asked: _Asked) -> str:
    """Return why a job may have printed nothing; "": its program was started."""
    job = asked.job
    if found["attempts"]:
        is_of_one = not asked.follow and asked.said["since"] is None
        return _unlaunched(found["attempts"], asked.said["attempt"]) if is_of_one else ""
    if found["is_over"]:
        return f"{job} was never started: {found['state']}"
    then = "its output follows" if asked.follow else f"`shunter logs -f {job}` waits for its output"
    return _not_started(job, then)


def _not_started(job: str, then: str) -> str:
    return f"{job} has not started: `shunter why {job}` says why; {then}"


def _unlaunched(attempts: "list[Answer]", wanted: int | None) -> str:
    """Return why an attempt, else the last, was not launched; "": it was."""
    known = [one for one in attempts if one["started_at"] or one["ended_at"]]
    asked = [one for one in known if wanted in (None, one["attempt"])]
    if not asked or not asked[-1]["ended_by"].startswith(NOT_LAUNCHED):
        return ""
    one = asked[-1]
    cause = one["ended_by"].removeprefix(NOT_LAUNCHED)
    started = [other["attempt"] for other in known if other["started_at"]]
    other = f"; attempt {started[-1]} has output (--attempt {started[-1]})" if started else ""
    return one_line(f"attempt {one['attempt']} was never launched: {cause}{other}")


def _nodes(attempts: "list[Answer]", attempt: int | None) -> list[str]:
    """Return the servers of an attempt, in order of rank."""
    found = [one for one in attempts if attempt in (None, one["attempt"])]
    places = found[-1]["where"].split() if found else []
    return [match.group() for place in places if (match := _NODE.match(place))]


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines; the last one gets its end if it has none."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest + b"\n"


def writer_to(stream: TextIO) -> Callable[[bytes], None]:
    """Return what writes the output of one rank to a stream of ours."""

    def write(piece: bytes) -> None:
        stream.buffer.write(piece)
        stream.buffer.flush()

    if not stream.isatty():
        return write
    # What is cut in two, between pieces, is one letter all the same.
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return lambda piece: write(_tamed(decoder.decode(piece), stream).encode())


def _tamed(text: str, stream: TextIO) -> str:
    """Spell out what would command a terminal, but for a progress bar's return."""
    return "\r".join(visible(part, stream) for part in text.split("\r"))


# `shunter submit --wait`. Each byte is printed once: after a restart of the daemon both streams are
# asked for again without what has come already.

SIGNALLED = 128
LAST_WORDS_S = 30.0
"""How long what a job printed last may take to come once it has ended."""

STARTS_S = 3.0
"""A job that has not started after so long waits for something: that is said."""


def wait_for(client: "Client", made: "Answer", url: str | None, *, quiet: bool) -> int:
    """Wait for all jobs of a submission; return the first exit code that is not 0.

    The output of a single job is copied to ours meanwhile, unless that is to be `quiet`.
    """
    sys.stdout.flush()  # what the job prints comes after what was said of it
    copied = None if quiet or len(made["ids"]) > 1 else _Copied(made["id"], url)
    codes = list[int]()
    for job_id in made["ids"]:
        follows = "its end is waited for" if copied is None else "its output follows"
        document = _ended(client, job_id, "" if codes else follows)
        has_finished = document["state"] == "finished"
        last = "" if copied is None else copied.finish(has_finished=has_finished)
        output.note(end_of(document, last))
        codes.append(exit_code_of(document))
    return next((code for code in codes if code), 0)


def _ended(client: "Client", job_id: str, then: str) -> "Answer":
    """Return a job once it has ended; if it does not start soon, say so."""
    handle = client.handle(job_id)
    if then:
        with suppress(TimeoutError):
            return handle.wait(STARTS_S)
        with suppress(UnreachableError):  # that it is away is said where it is waited for
            if not client.job(job_id)["attempts"]:
                output.note(_not_started(job_id, then))
    return handle.wait()


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
