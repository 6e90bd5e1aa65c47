"""What a pilot is, as Slurm is told: a batch script and the options of sbatch."""

import math

from shunter.backends.slurm.records import QueuedJob
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings

__all__ = ["job_name", "name_in", "pilot_options", "pilot_script"]

DRAIN_LEAD_S = 120


def job_name(cluster_id: str, pilot: str) -> str:
    """Return the name of a pilot's Slurm job, by which it is known.

    Slurm uses ids again; names of ours are not.
    """
    return f"shunter:{cluster_id}:{pilot}"


def name_in(cluster_id: str, user: str, job: QueuedJob) -> str | None:
    """Return which pilot of a cluster a Slurm job is; None if it is none.

    Anybody may give a job such a name: only those of the user who asks for pilots count.
    """
    head = job_name(cluster_id, "")
    is_ours = job.user == user and job.name.startswith(head)
    return job.name.removeprefix(head) if is_ours else None


def pilot_script(python: str, agent: str, file: str, folder: str) -> str:
    """Return the script, which says where the pilot's secret lies, not what it is."""
    words = (python, "-I", "-S", agent, "pilot", file, folder)
    return "#!/bin/sh\nexec " + " ".join(map(_quoted, words)) + "\n"


def pilot_options(
    settings: SlurmSettings, server: SlurmServer, pilot: str, limit_s: float
) -> list[str]:
    """Return the options of sbatch: one node, all its GPUs, CPUs and memory."""
    lead_s = min(DRAIN_LEAD_S, int(limit_s / 4))
    options = [
        f"--job-name={job_name(settings.cluster_id, pilot)}",
        f"--partition={settings.partition}",
        f"--nodelist={server.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={max(1, len(server.cpus))}",
        f"--time={max(1, math.ceil(limit_s / 60))}",
        f"--signal=B:USR1@{lead_s}",
        "--no-requeue",
        "--open-mode=append",
        f"--output={settings.root}/pilots/{pilot}.out",
        "--chdir=/",
        "--export=NIL",
    ]
    if server.gres:
        options.append(f"--gres={server.gres}")
    if server.memory_mb:
        options.append(f"--mem={server.memory_mb}M")
    if settings.account:
        options.append(f"--account={settings.account}")
    if settings.qos:
        options.append(f"--qos={settings.qos}")
    return [*options, *settings.options]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
