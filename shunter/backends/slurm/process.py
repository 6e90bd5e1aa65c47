"""Runs Slurm's commands: each with a deadline, in an environment that changes no answer.

What an operator has set for people, such as SQUEUE_USERS or SLURM_CLUSTERS, would leave jobs out
of an answer without a word; so nothing of it reaches the commands.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from shunter import clock
from shunter.errors import SlurmUnknownError

DEADLINE_S: Final = 20.0
"""While the controller is down, clients of Slurm give up after some nine seconds."""

_DROPPED: Final = ("SACCT_", "SBATCH_", "SCANCEL_", "SCONTROL_", "SINFO_", "SLURM_", "SQUEUE_")
_KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY"})
_DOWN: Final = ("Unable to contact", "timed out", "Connection refused", "Zero Bytes were")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has said, and its exit code."""

    command: str
    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The first line of its error output that is one."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return next((line for line in lines if "error" in line.lower()), (lines or [""])[0])

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the controller was not reached, or its answer did not arrive."""
        return any(word.lower() in self.err.lower() for word in _DOWN)

    def unknown(self) -> SlurmUnknownError:
        """Return an answer that failed as an error: nothing is known by it."""
        said = self.complaint or f"nothing, exit code {self.status}"
        if self.is_out_of_reach:
            return SlurmUnknownError(
                f"{self.command} cannot reach slurmctld ({said})", "look at `scontrol ping`"
            )
        return SlurmUnknownError(f"{self.command} failed: {said}", "run it by hand")


class CommandRunner:
    """Runs commands of Slurm.

    `silent_since_s` is since when none has had an answer, by the monotonic clock; None: the last
    one had. `complaint` is what became of the last one.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S, conf: str | None = None) -> None:
        """Take how long a command may take, and a slurm.conf of one's own."""
        self.deadline_s = deadline_s
        self.silent_since_s: float | None = None
        self.complaint = ""
        self._environment = {
            name: text
            for name, text in os.environ.items()
            if name in _KEPT or not name.startswith(_DROPPED)
        }
        self._environment["SLURM_TIME_FORMAT"] = "%s"
        if conf is not None:
            self._environment["SLURM_CONF"] = conf

    async def run(
        self, words: Sequence[str], *, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> Answer:
        """Run a command, and return what it says, whatever its exit code.

        Raises:
            SlurmUnknownError: it is not there, or has not ended in time, and was killed.
        """
        began_s = clock.monotonic_s()
        try:
            answer = await self._run(words, stdin, environment or {})
        except SlurmUnknownError as error:
            self._note(began_s, error.cause)
            raise
        is_silent = answer.status != 0 and answer.is_out_of_reach
        self._note(began_s, answer.unknown().cause if is_silent else "")
        return answer

    def _note(self, began_s: float, complaint: str) -> None:
        """Note whether a command had an answer; nothing to complain of: it had."""
        since_s = began_s if self.silent_since_s is None else self.silent_since_s
        self.silent_since_s, self.complaint = since_s if complaint else None, complaint

    async def _run(
        self, words: Sequence[str], stdin: str, environment: Mapping[str, str]
    ) -> Answer:
        name = " ".join(words[:3] if words[0] == "scontrol" else words[:1])
        there = shutil.which(words[0], path=self._environment.get("PATH"))
        if there is None:
            raise SlurmUnknownError(
                f"{words[0]} is not there", "install Slurm's client commands, or correct PATH"
            )
        try:
            with (
                _in_memory(stdin) as source,
                _in_memory() as out,
                _in_memory() as err,
                anyio.fail_after(self.deadline_s),
            ):
                # One that is cancelled while it starts would be ended by nobody.
                with anyio.CancelScope(shield=True):
                    process = await anyio.open_process(
                        [there, *words[1:]],
                        stdin=source,
                        stdout=out,
                        stderr=err,
                        env={**self._environment, **environment},
                    )
                async with process:
                    status = await process.wait()
                return Answer(name, status, _content(out), _content(err))
        except TimeoutError as error:
            raise SlurmUnknownError(
                f"{name} gave no answer within {self.deadline_s:g} s", "look at `scontrol ping`"
            ) from error
        except OSError as error:
            raise SlurmUnknownError(f"{name} cannot be run ({error.strerror})", "try it") from error

    async def text(
        self, words: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a command that must succeed, and return its output.

        Raises:
            SlurmUnknownError: it did not, or has complained: its output may lack something.
        """
        answer = await self.run(words, environment=environment)
        if answer.status != 0 or "error:" in answer.err:
            raise answer.unknown()
        return answer.out


@contextmanager
def _in_memory(text: str = "") -> Iterator[int]:
    """Return a file in memory.

    A pipe would break where a command ends before it has read all.
    """
    descriptor = os.memfd_create("slurm")
    try:
        os.write(descriptor, text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> str:
    """Return what is in a file as text; a job may have any bytes in its name."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read().decode("utf-8", errors="backslashreplace")
