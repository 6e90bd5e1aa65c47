"""Settings of the Slurm backends: the partition, its nodes, and how batch jobs are asked for."""

import math
import os
import pwd
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from shunter.backends.live import Limits, Owner, Socket
from shunter.backends.slurm.answers import QueuedJob
from shunter.events import NodeName


@dataclass(frozen=True, slots=True)
class SlurmServer:
    """A node of the partition, under the name that Slurm knows it by.

    Slurm binds its jobs to CPUs, so it has no `sockets` here.
    `gres` is what a pilot asks for to have all its GPUs, such as `gpu:v100:4`.
    """

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...]
    gpu_type: str
    gres: str
    memory_mb: int
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmSettings(Limits):
    """A partition of a Slurm cluster, used as any user of it may.

    `root` is a folder that this machine and all nodes share under the same path. `addresses` are
    what pilots dial, `listen` is where they are awaited ("": at all addresses). A pilot is asked
    for `time_limit_s`, and given back after `idle_s` without jobs; `options` are further ones of
    sbatch. Where attempts are jobs of their own, their records are looked at every `look_s`, and
    what has changed there or in the queue is known everywhere `settle_s` later; with
    `is_suspended_in_slurm` one that is stopped is suspended there as well.
    """

    root: str
    nodes: tuple[SlurmServer, ...]
    cluster_id: str
    term: int
    holder: str
    partition: str
    addresses: tuple[str, ...]
    listen: str = ""
    account: str = ""
    qos: str = ""
    time_limit_s: float = 86_400.0
    idle_s: float = 600.0
    pilots_max: int | None = None
    poll_s: float = 5.0
    look_s: float = 1.0
    settle_s: float = 15.0
    command_s: float = 20.0
    is_suspended_in_slurm: bool = False
    python: str = "python3"
    options: tuple[str, ...] = ()
    conf: str | None = None

    @property
    def owner(self) -> Owner:
        """Who schedules there."""
        return Owner(self.cluster_id, self.term, self.holder, self.root)


# A batch job of ours: a pilot, or an attempt of its own.

END_LEAD_S = 120
"""So long before its time limit a job gets a signal that it is about to end."""
NOTICE_LEAD_MOST_S = END_LEAD_S + 65.0
"""Slurm sends it up to a minute too early, by a clock of its own; before that it is no limit."""


def slurm_job_name(cluster_id: str, name: str) -> str:
    """Return the name of a Slurm job, by which it is known.

    Slurm uses ids again; names of ours are not.
    """
    return f"shunter:{cluster_id}:{name}"


def name_in(cluster_id: str, user: str, job: QueuedJob) -> str | None:
    """Return what a Slurm job of a cluster is called in it; None if it is none.

    Anybody may give a job such a name: only those of the user who submits them count.
    """
    head = slurm_job_name(cluster_id, "")
    is_ours = job.user == user and job.name.startswith(head)
    return job.name.removeprefix(head) if is_ours else None


def own_user() -> str:
    """Return the name of the user who submits."""
    return pwd.getpwuid(os.geteuid()).pw_name


def batch_script(words: Sequence[str], *first: str) -> str:
    """Return a script that becomes a program, after some lines of shell."""
    return "\n".join(("#!/bin/sh", *first, f"exec {shlex.join(words)}", ""))


def usual_options(
    settings: SlurmSettings, name: str, output: str, limit_s: float, signal: str
) -> list[str]:
    """Return the options of sbatch that say nothing of what a job is given.

    Args:
        settings: of the cluster.
        name: what the job is called in it.
        output: the file for what the script itself prints.
        limit_s: how long it may run, in seconds; Slurm counts in minutes.
        signal: what the script gets `END_LEAD_S` before its end.
    """
    return [
        f"--job-name={slurm_job_name(settings.cluster_id, name)}",
        *queue_options(settings.partition, settings.account, settings.qos, limit_s),
        f"--signal=B:{signal}@{min(END_LEAD_S, int(limit_s / 4))}",
        "--no-requeue",
        "--open-mode=append",
        f"--output={output}",
        "--chdir=/",
        "--export=NIL",
    ]


def queue_options(partition: str, account: str, qos: str, limit_s: float) -> list[str]:
    """Return the options of sbatch for where a job waits, and how long it runs."""
    options = [f"--partition={partition}", f"--time={max(1, math.ceil(limit_s / 60))}"]
    options += [f"--account={account}"] if account else []
    return options + ([f"--qos={qos}"] if qos else [])


def share_options(cpus: int, gres: str, memory_mb: int) -> list[str]:
    """Return the options of sbatch for what a job is given of each of its nodes."""
    options = [f"--cpus-per-task={cpus}"]
    options += [f"--gres={gres}"] if gres else []
    return options + ([f"--mem={memory_mb}M"] if memory_mb else [])
