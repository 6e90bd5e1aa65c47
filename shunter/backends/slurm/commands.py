"""The port to a Slurm cluster: one bulk question for each kind of thing, and two orders.

Everything goes through Slurm's own commands, as any user runs them. Whatever goes wrong on the way
means that nothing is known (SlurmUnknownError), never that a job is gone or was not submitted;
only what Slurm itself refuses is a refusal (SlurmRefusedError).

The queue is asked for as a whole: a question for each job would cost the controller as much each
time, and `--json` takes a hundred times as long.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shunter import clock
from shunter.backends.slurm import listings
from shunter.backends.slurm.accounting_text import ACCOUNTING_FIELDS, past_jobs
from shunter.backends.slurm.limit_reasons import reason_in_words, submit_limit_in
from shunter.backends.slurm.process import DEADLINE_S, Answer, CommandRunner
from shunter.backends.slurm.quantities import duration
from shunter.backends.slurm.queue_text import queue_format, queued_jobs
from shunter.backends.slurm.records import (
    Partition,
    PastJob,
    QueuedJob,
    Reservation,
    SlurmNode,
    Switch,
)
from shunter.errors import SlurmRefusedError, SlurmUnknownError

SILENT_S: Final = 10.0
"""One command may fail: what is told of Slurm is told after some seconds without an answer."""
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


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that Slurm has taken.

    Its id is used again if the controller crashes at once.
    """

    id: int
    cluster: str = ""


class Slurm:
    """A cluster, by Slurm's own commands."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, conf: str | None = None) -> None:
        """Take how long a command may take, and a slurm.conf that is not the usual one."""
        self._commands = CommandRunner(deadline_s=deadline_s, conf=conf)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        since_s = self._commands.silent_since_s
        silent_s = 0.0 if since_s is None else clock.monotonic_s() - since_s
        if silent_s < SILENT_S:
            return ""
        return f"Slurm has not answered for {duration(silent_s)}: {self._commands.complaint}"

    async def version(self) -> str:
        """Return the version of the commands, such as 22.05.8.

        Raises:
            SlurmUnknownError: there is none.
        """
        return (await self._commands.text(["sinfo", "--version"])).split()[-1]

    async def ping(self) -> None:
        """Return once the controller has answered.

        Raises:
            SlurmUnknownError: none of them does.
        """
        answer = await self._commands.run(["scontrol", "ping"])
        if " is UP" not in answer.out:
            said = " ".join(answer.out.split()) or answer.complaint
            raise SlurmUnknownError(f"slurmctld does not answer ({said})", "ask its administrator")

    async def queue(self) -> tuple[QueuedJob, ...]:
        """Return all jobs that the controller knows, also those that have just ended.

        Where a site hides the jobs of other users (PrivateData=jobs), only one's own.

        Raises:
            SlurmUnknownError: the answer failed, or is not whole.
        """
        word = f"~{secrets.token_hex(8)}~"
        text = await self._commands.text(
            ["squeue", "--all", "--local", "--noheader", "--states=all"],
            environment={"SQUEUE_FORMAT2": queue_format(word)},
        )
        return queued_jobs(text, word)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """Return all nodes.

        Raises:
            SlurmUnknownError: the answer failed.
        """
        return listings.nodes(await self._shown("node", "--details"))

    async def partitions(self) -> tuple[Partition, ...]:
        """Return all partitions, also those hidden from this user.

        Raises:
            SlurmUnknownError: the answer failed.
        """
        return listings.partitions(await self._shown("partition"))

    async def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations, of now and of later.

        Raises:
            SlurmUnknownError: the answer failed.
        """
        return listings.reservations(await self._shown("reservation"))

    async def switches(self) -> tuple[Switch, ...]:
        """Return the switches or blocks of the network; none where Slurm is told of none.

        Raises:
            SlurmUnknownError: the answer failed.
        """
        answer = await self._commands.run(["scontrol", "show", "topology"])
        if "No topology information" in answer.err:
            return ()
        if answer.status != 0 or "error:" in answer.err:
            raise answer.unknown()
        return listings.switches(answer.out)

    async def settings(self) -> dict[str, str]:
        """Return what slurm.conf says, as the controller has read it.

        Raises:
            SlurmUnknownError: the answer failed.
        """
        return listings.settings(await self._commands.text(["scontrol", "show", "config"]))

    async def submit(
        self, script: str, options: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Submitted:
        """Submit a batch script, which never stands in a file.

        Args:
            script: what the job runs; it begins with #!.
            options: those of sbatch.
            environment: set for sbatch besides ours. Slurm gives all of that to the job, unless
                options say --export=NONE or name what it is to get.
        Raises:
            SlurmRefusedError: the controller has refused it: there is no such job.
            SlurmUnknownError: whether there is one is not known.
        """
        answer = await self._commands.run(
            ["sbatch", "--parsable", *options], stdin=script, environment=environment
        )
        if answer.status != 0:
            raise _refusal(answer)
        number, _, cluster = answer.out.strip().partition(";")
        if not number.isdigit():
            raise SlurmUnknownError(
                f"sbatch answers {answer.out[:60]!r}, expected a job id", "look for it in the queue"
            )
        return Submitted(int(number), cluster)

    async def would_take(self, options: Sequence[str]) -> str:
        """Return when and where a job could start; none is submitted.

        Raises:
            SlurmRefusedError: it would be refused.
            SlurmUnknownError: nothing is known of it.
        """
        answer = await self._commands.run(
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

        With a name only jobs that are called so: an id may be somebody else's by now. Without
        `batch_only` a signal reaches only what srun has started.

        Raises:
            SlurmUnknownError: whether it was done is not known.
        """
        if not jobs:
            return
        chosen = [f"--name={name}"] if name else []
        chosen += [f"--signal={signal}"] if signal else []
        chosen += ["--batch"] if batch_only else []
        await self._commands.text(["scancel", *chosen, *(str(job) for job in jobs)])

    async def suspend(self, jobs: Sequence[int]) -> None:
        """Suspend jobs: they stand still, and others get their CPUs, but no GPUs.

        Raises:
            SlurmRefusedError: it needs the rights of an operator, or cannot be done.
            SlurmUnknownError: whether it was done is not known.
        """
        await self._controlled("suspend", jobs)

    async def resume(self, jobs: Sequence[int]) -> None:
        """Let suspended jobs go on.

        Raises:
            SlurmRefusedError: none of them is suspended, or this user may not.
            SlurmUnknownError: whether it was done is not known.
        """
        await self._controlled("resume", jobs)

    async def history(self, since_s: int, names: Sequence[str] = ()) -> tuple[PastJob, ...]:
        """Return the jobs that accounting knows, since an instant in seconds since 1970.

        With names, in which there is no comma, only jobs that are called so.

        Raises:
            SlurmUnknownError: the answer failed, or the site keeps no accounting.
        """
        word = f"~{secrets.token_hex(8)}~"
        command = ["sacct", "--allusers", "--allocations", "--duplicates", "--parsable2"]
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))  # sacct's own zone
        asked = [f"--delimiter={word}", f"--format={ACCOUNTING_FIELDS}", f"--starttime={since}"]
        asked += [f"--name={','.join(names)}"] if names else []
        return past_jobs(await self._commands.text([*command, *asked]), word)

    async def _controlled(self, verb: str, jobs: Sequence[int]) -> None:
        answer = await self._commands.run(["scontrol", verb, ",".join(map(str, jobs))])
        if answer.status != 0 and not answer.is_out_of_reach:
            raise SlurmRefusedError(f"scontrol {verb}: {answer.complaint}")
        if answer.status != 0:
            raise answer.unknown()

    async def _shown(self, kind: str, *options: str) -> str:
        command = ["scontrol", "show", kind, "--oneliner", "--all", *options]
        return await self._commands.text(command)


def _refusal(answer: Answer) -> SlurmRefusedError | SlurmUnknownError:
    if answer.is_out_of_reach:
        return answer.unknown()
    if limit := submit_limit_in(answer.err):
        return SlurmRefusedError(f"Slurm refuses the job: {reason_in_words(limit)}")
    # A word for another limit comes in a line of its own, before the one that says it is refused.
    said = [line.strip().removeprefix("sbatch: error: ") for line in answer.err.splitlines()]
    first = answer.complaint.removeprefix("sbatch: error: ")
    reasons = [first, *(line for line in said if line.startswith(DECIDED))]
    if any(word in reason for word in REFUSALS for reason in reasons):
        limits = [told for word in said if (told := reason_in_words(word)) != word]
        return SlurmRefusedError(f"Slurm refuses the job: {(limits or [first])[0]}")
    return answer.unknown()
