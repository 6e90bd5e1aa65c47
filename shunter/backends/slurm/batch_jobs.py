"""A batch job of ours as Slurm is told of it: a pilot, or an attempt that is a job of its own."""

import math
import shlex
from collections.abc import Sequence

from shunter.backends.slurm.records import QueuedJob
from shunter.backends.slurm.settings import SlurmSettings

END_LEAD_S = 120
"""A job is told so long before its time limit that it is about to end."""
NOTICE_LEAD_MOST_S = END_LEAD_S + 65.0
"""Slurm tells it up to a minute too early, by a clock of its own; before that it is no limit."""


def job_name(cluster_id: str, name: str) -> str:
    """Return the name of a Slurm job, by which it is known.

    Slurm uses ids again; names of ours are not.
    """
    return f"shunter:{cluster_id}:{name}"


def name_in(cluster_id: str, user: str, job: QueuedJob) -> str | None:
    """Return what a Slurm job of a cluster is called in it; None if it is none.

    Anybody may give a job such a name: only those of the user who submits them count.
    """
    head = job_name(cluster_id, "")
    is_ours = job.user == user and job.name.startswith(head)
    return job.name.removeprefix(head) if is_ours else None


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
        signal: what tells the script of the end, `END_LEAD_S` before.
    """
    options = [
        f"--job-name={job_name(settings.cluster_id, name)}",
        f"--partition={settings.partition}",
        f"--time={max(1, math.ceil(limit_s / 60))}",
        f"--signal=B:{signal}@{min(END_LEAD_S, int(limit_s / 4))}",
        "--no-requeue",
        "--open-mode=append",
        f"--output={output}",
        "--chdir=/",
        "--export=NIL",
    ]
    if settings.account:
        options.append(f"--account={settings.account}")
    if settings.qos:
        options.append(f"--qos={settings.qos}")
    return options
