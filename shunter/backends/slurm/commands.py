"""The port to a Slurm cluster: one bulk question for each kind of thing, and two orders.

Everything goes through Slurm's own commands, as any user runs them. Whatever goes wrong on the way
means that nothing is known (SlurmUnknownError), never that a job is gone or was not submitted;
only what Slurm itself refuses is a refusal (SlurmRefusedError).

The queue is asked for as a whole: a question for each job would cost the controller as much each
time, and `--json` takes a hundred times as long.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from shunter import clock
from shunter.backends.slurm.answers import (
    ACCOUNTING_FIELDS,
    NetworkSwitch,
    Partition,
    QueuedJob,
    Reservation,
    SlurmJob,
    SlurmNode,
    duration,
    past_jobs,
    queue_format,
    queued_jobs,
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
    read_switches,
)
from shunter.errors import SlurmRefusedError, SlurmUnknownError

# Limits in words. Slurm has about 150 reasons of few parts: whose limit, over what, for whom. One
# with an unknown part stays as it is. Source: Slurm's documentation, "Job Reason Codes".

_WORD: Final = re.compile(
    r"(QOS|Assoc)?(Grp|Max|Min)([A-Za-z]+?)(RunMinutes|Minutes)?"
    r"(?:Per(User|Account|Job|Node))?(?:Limit)?"
)
_OVER: Final = {
    "gres": "GPUs (GRES)",
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "jobs": "jobs that run",
    "submitjob": "jobs submitted",
    "submitjobs": "jobs submitted",
    "wall": "run time",
    "wallduration": "run time",
    "billing": "billing units",
    "license": "licences",
    "energy": "energy",
    "bb": "burst buffers",
}
_FOR: Final = {
    "Grp": "all its jobs together",
    "Min": "one job",
    "User": "each user",
    "Account": "each account",
    "Job": "one job",
    "Node": "one job on each node",
}
_OTHERS: Final = {
    "QOSJobLimit": "a limit of the QOS on jobs",
    "QOSResourceLimit": "a limit of the QOS on resources",
    "QOSTimeLimit": "a limit of the QOS on run time",
    "QOSUsageThreshold": "the QOS wants less use of the cluster before",
    "QOSNotAllowed": "the partition does not take this QOS",
    "InvalidQOS": "there is no such QOS for this account",
    "InvalidAccount": "there is no such account for this user",
    "AccountNotAllowed": "the partition does not take this account",
    "AssociationJobLimit": "a limit of the account on jobs",
    "AssociationResourceLimit": "a limit of the account on resources",
    "AssociationTimeLimit": "a limit of the account on run time",
    "PartitionTimeLimit": "a limit of the partition on run time",
    "PartitionNodeLimit": "a limit of the partition on nodes, or they are down",
}
_SUBMITS: Final = re.compile(r"\b((?:QOS|Assoc)?(?:Grp|Max)SubmitJobs?(?:Per\w+?)?(?:Limit)?)\b")


def reason_in_words(reason: str) -> str:
    """Return why a job waits, in Slurm's word, and what that means if it is a limit."""
    said = _OTHERS.get(reason) or _limit(reason)
    return f"{reason}: {said}" if said else reason


def wait_in_words(wait_s: float, reason: str) -> str:
    """Return since when a job waits, in seconds, and why: 12 min ago (Resources)."""
    return f"{duration(wait_s)} ago" + (f" ({reason_in_words(reason)})" if reason else "")


def submit_limit_in(said: str) -> str:
    """Return the word for a limit on jobs submitted; nothing if there is none.

    What is refused for that is taken later, when other jobs have ended.
    """
    found = _SUBMITS.search(said)
    return found[1] if found else ""


def _limit(reason: str) -> str:
    """Return what limit a word means; nothing if it means none, or an unknown one."""
    read = _WORD.fullmatch(reason)
    if read is None:
        return ""
    whose, scope, over, minutes, per = read.groups()
    what = _OVER.get(over.lower())
    if what is None or not (whose or per):
        return ""
    what += {"Minutes": " x minutes", "RunMinutes": " x minutes of running jobs"}.get(minutes, "")
    of = "the account" if whose == "Assoc" else "the QOS"
    for_whom = _FOR.get(per or scope, "each user")
    return f"a limit of {of} on {what}, for {for_whom}"


# Slurm's commands, without the settings of an operator: SQUEUE_USERS would hide jobs.

DEADLINE_S: Final = 20.0
"""While the controller is down, clients of Slurm give up after some nine seconds."""

_DROPPED: Final = ("SACCT_", "SBATCH_", "SCANCEL_", "SCONTROL_", "SINFO_", "SLURM_", "SQUEUE_")
_KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY"})
_DOWN: Final = ("Unable to contact", "timed out", "Connection refused", "Zero Bytes were")


@dataclass(frozen=True, slots=True)
class CommandAnswer:
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

    def whole_text(self) -> str:
        """Return the output of a command that had to succeed.

        Raises:
            SlurmUnknownError: it did not, or has complained: its output may lack something.
        """
        if self.status != 0 or "error:" in self.err:
            raise self.unknown()
        return self.out


SILENT_S: Final = 10.0
"""One command may fail: people learn that Slurm is silent after some seconds of it."""
REFUSALS: Final = (
    *("Access/permission denied", "Invalid ", "Job violates", "invalid "),
    *("Memory required by task is not available", "Memory specification can not be satisfied"),
    *(
        "More processors requested",
        "Node count specification invalid",
        "Nodes required for job are",
    ),
    *("Requested GRES option unsupported", "Requested node configuration is not available"),
    *("Requested node is not", "Requested nodes are", "Requested partition configuration"),
    *("Requested time limit is invalid", "Requested operation not supported"),
    *("User's group not permitted", "Unrecognized option", "unrecognized option", "Job size"),
    *("CPU count per node can not be satisfied", "Job cannot be", "Required node not available"),
    *("Too many tasks", "Batch script is empty", "This does not look like a batch script"),
)
"""What sbatch says when the controller has decided: the job was not taken, and will not be."""

DECIDED: Final = "Batch job submission failed: "


class Slurm:
    """A cluster, by Slurm's own commands.

    What asks or orders raises SlurmUnknownError where a command is not there, fails, has no answer
    in time, or answers in part: nothing is known then, and an order may have been carried out.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S, conf: str | None = None) -> None:
        """Take how long a command may take, and a slurm.conf that is not the usual one."""
        self._deadline_s = deadline_s
        self._silent_since_s: float | None = None  # since when no command has had an answer
        self._complaint = ""  # what became of the last command
        self._environment = {
            name: text
            for name, text in os.environ.items()
            if name in _KEPT or not name.startswith(_DROPPED)
        }
        self._environment["SLURM_TIME_FORMAT"] = "%s"
        if conf is not None:
            self._environment["SLURM_CONF"] = conf

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        since_s = self._silent_since_s
        silent_s = 0.0 if since_s is None else clock.monotonic_s() - since_s
        if silent_s < SILENT_S:
            return ""
        return f"Slurm has not answered for {duration(silent_s)}: {self._complaint}"

    async def version(self) -> str:
        """Return the version of the commands, such as 22.05.8."""
        return (await self._text(["sinfo", "--version"])).split()[-1]

    async def ping(self) -> None:
        """Return once the controller has answered."""
        answer = await self.run(["scontrol", "ping"])
        if " is UP" not in answer.out:
            said = " ".join(answer.out.split()) or answer.complaint
            raise SlurmUnknownError(f"slurmctld does not answer ({said})", "ask its administrator")

    async def queue(self) -> tuple[QueuedJob, ...]:
        """Return all jobs that the controller knows, also those that have just ended.

        Where a site hides the jobs of other users (PrivateData=jobs), only one's own.
        """
        word = f"~{secrets.token_hex(8)}~"
        text = await self._text(
            ["squeue", "--all", "--local", "--noheader", "--states=all"],
            environment={"SQUEUE_FORMAT2": queue_format(word)},
        )
        return queued_jobs(text, word)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """Return all nodes."""
        return read_nodes(await self._shown("node", "--details"))

    async def partitions(self) -> tuple[Partition, ...]:
        """Return all partitions, also those hidden from this user."""
        return read_partitions(await self._shown("partition"))

    async def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, of now and of later."""
        return read_reservations(await self._shown("reservation"))

    async def switches(self) -> tuple[NetworkSwitch, ...]:
        """Return the switches or blocks of the network; none where Slurm knows none."""
        answer = await self.run(["scontrol", "show", "topology"])
        if "No topology information" in answer.err:
            return ()
        return read_switches(answer.whole_text())

    async def settings(self) -> dict[str, str]:
        """Return what slurm.conf says, as the controller has read it."""
        return read_settings(await self._text(["scontrol", "show", "config"]))

    async def submit(self, script: str, options: Sequence[str]) -> int:
        """Submit a batch script, which is never in a file; return the id of its job.

        The id is used again if the controller crashes at once.

        Raises:
            SlurmRefusedError: the controller has refused it: there is no such job.
        """
        answer = await self.run(["sbatch", "--parsable", *options], stdin=script)
        if answer.status != 0:
            raise _refusal(answer)
        number = answer.out.strip().partition(";")[0]
        if not number.isdigit():
            raise SlurmUnknownError(
                f"sbatch answers {answer.out[:60]!r}, expected a job id", "look for it in the queue"
            )
        return int(number)

    async def would_take(self, options: Sequence[str]) -> str:
        """Return when and where a job could start; none is submitted.

        Raises:
            SlurmRefusedError: it would be refused.
        """
        answer = await self.run(
            ["sbatch", "--test-only", *options],
            stdin="#!/bin/sh\nexit 0\n",
            environment={"SLURM_TIME_FORMAT": "standard"},  # for people
        )
        if answer.status != 0:
            raise _refusal(answer)
        return answer.err.strip().removeprefix("sbatch: ")

    async def cancel(
        self,
        jobs: Sequence[int],
        *,
        name: str = "",
        signal: str = "",
        batch_only: bool = False,
    ) -> None:
        """End jobs, or send them a signal; of a job that is not there Slurm says nothing.

        With a name only jobs that are called so: an id may be that of another job by now. Without
        `batch_only` a signal reaches only what srun has started.
        """
        if not jobs:
            return
        chosen = [f"--name={name}"] if name else []
        chosen += [f"--signal={signal}"] if signal else []
        chosen += ["--batch"] if batch_only else []
        await self._text(["scancel", *chosen, *(str(job) for job in jobs)])

    async def suspend(self, jobs: Sequence[int]) -> None:
        """Suspend jobs: they stop, and others get their CPUs, but no GPUs.

        Raises:
            SlurmRefusedError: it needs the rights of an operator, or cannot be done.
        """
        await self._controlled("suspend", jobs)

    async def resume(self, jobs: Sequence[int]) -> None:
        """Let suspended jobs go on.

        Raises:
            SlurmRefusedError: none of them is suspended, or this user may not.
        """
        await self._controlled("resume", jobs)

    async def history(self, since_s: int, names: Sequence[str] = ()) -> tuple[SlurmJob, ...]:
        """Return the jobs that accounting knows, since an instant in seconds since 1970.

        With names, in which there is no comma, only jobs that are called so. A site without
        accounting answers with an error.
        """
        word = f"~{secrets.token_hex(8)}~"
        command = ["sacct", "--allusers", "--allocations", "--duplicates", "--parsable2"]
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))  # sacct's own zone
        asked = [f"--delimiter={word}", f"--format={ACCOUNTING_FIELDS}", f"--starttime={since}"]
        asked += [f"--name={','.join(names)}"] if names else []
        return past_jobs(await self._text([*command, *asked]), word)

    async def run(
        self, words: Sequence[str], *, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> CommandAnswer:
        """Run a command, and return what it says, whatever its exit code."""
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
        """Note whether a command had an answer; without a complaint it had."""
        since_s = began_s if self._silent_since_s is None else self._silent_since_s
        self._silent_since_s, self._complaint = since_s if complaint else None, complaint

    async def _run(
        self, words: Sequence[str], stdin: str, environment: Mapping[str, str]
    ) -> CommandAnswer:
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
                anyio.fail_after(self._deadline_s),
            ):
                # One that is cancelled while it starts would run on.
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
                return CommandAnswer(name, status, _content(out), _content(err))
        except TimeoutError as error:
            raise SlurmUnknownError(
                f"{name} gave no answer within {self._deadline_s:g} s", "look at `scontrol ping`"
            ) from error
        except OSError as error:
            raise SlurmUnknownError(f"{name} cannot be run ({error.strerror})", "try it") from error

    async def _text(
        self, words: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> str:
        return (await self.run(words, environment=environment)).whole_text()

    async def _shown(self, kind: str, *options: str) -> str:
        return await self._text(["scontrol", "show", kind, "--oneliner", "--all", *options])

    async def _controlled(self, verb: str, jobs: Sequence[int]) -> None:
        answer = await self.run(["scontrol", verb, ",".join(map(str, jobs))])
        if answer.status != 0 and not answer.is_out_of_reach:
            raise SlurmRefusedError(f"scontrol {verb}: {answer.complaint}")
        if answer.status != 0:
            raise answer.unknown()


def _refusal(answer: CommandAnswer) -> SlurmRefusedError | SlurmUnknownError:
    if answer.is_out_of_reach:
        return answer.unknown()
    if limit := submit_limit_in(answer.err):
        return SlurmRefusedError(f"Slurm refuses the job: {reason_in_words(limit)}")
    # A word for another limit comes in a line of its own, before the one that says it is refused.
    said = [line.strip().removeprefix("sbatch: error: ") for line in answer.err.splitlines()]
    first = answer.complaint.removeprefix("sbatch: error: ")
    reasons = [first, *(line for line in said if line.startswith(DECIDED))]
    if any(word in reason for word in REFUSALS for reason in reasons):
        limits = [words for word in said if (words := reason_in_words(word)) != word]
        return SlurmRefusedError(f"Slurm refuses the job: {(limits or [first])[0]}")
    return answer.unknown()


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
