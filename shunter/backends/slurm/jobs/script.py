"""What an attempt is, as Slurm is told: a batch script and the options of sbatch."""

import math
from collections.abc import Sequence

from shunter.backends.agents.orders import Order
from shunter.backends.node.messages.attempt_records import number_of
from shunter.backends.slurm.records import QueuedJob
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.errors import BackendError

__all__ = ["Key", "job_name", "job_options", "job_script", "key_in"]

LEAVE_LEAD_S = 120
MILLI = 1000
Key = tuple[str, int]


def job_name(cluster_id: str, job: str, attempt: int) -> str:
    """Return the name of an attempt's Slurm job, by which it is known.

    Slurm uses ids again; names of ours are not.
    """
    return f"shunter:{cluster_id}:{job}.a{attempt}"


def key_in(cluster_id: str, user: str, job: QueuedJob) -> Key | None:
    """Return which attempt of a cluster a Slurm job is; None if it is none.

    Anybody may give a job such a name: only those of the user who submits them count.
    """
    head = f"shunter:{cluster_id}:"
    name, _, attempt = job.name.removeprefix(head).rpartition(".a")
    number = number_of(attempt)
    if number is None or job.user != user or not job.name.startswith(head):
        return None
    return name, number


def job_script(python: str, agent: str, root: str, job: str, attempt: int) -> str:
    """Return the script, which names the order of an attempt and holds none of it.

    Signals that come before the program can handle them do nothing.
    """
    words = (python, "-I", "-S", agent, "batch", root, job, str(attempt))
    return "#!/bin/sh\ntrap '' USR1 USR2\nexec " + " ".join(map(_quoted, words)) + "\n"


def job_options(
    settings: SlurmSettings, order: Order, folder: str, longest_s: float | None = None
) -> list[str]:
    """Return the options of sbatch: the nodes, GPUs, CPUs, memory and time of a plan.

    An attempt without a time limit gets that of the cluster's jobs. One with a limit is ended by
    the scheduler; Slurm's is somewhat later. What is ended by Slurm saves first, and goes on.

    Args:
        settings: of the cluster.
        order: what is to run.
        folder: of the attempt, where Slurm puts what the script itself prints.
        longest_s: how long Slurm lets jobs run on these nodes; 0 and None: as long as they may.

    Raises:
        BackendError: Slurm has no way to say what its nodes are given.
    """
    servers = {str(server.name): server for server in settings.nodes}
    shares = [(servers[node], mask.bit_count()) for node, mask in order.placement]
    limit_s = settings.time_limit_s
    if order.time_limit_s is not None:
        limit_s = order.time_limit_s + LEAVE_LEAD_S
    limit_s = min(limit_s, longest_s or limit_s)
    cpus = max(
        len(rank.cpus) if rank.pinned else _fair_cpus(server, gpus)
        for rank, (server, gpus) in zip(order.ranks, shares, strict=True)
    )
    options = [
        f"--job-name={job_name(settings.cluster_id, order.job, order.attempt)}",
        f"--partition={settings.partition}",
        f"--nodelist={','.join(server.name for server, _ in shares)}",
        f"--nodes={len(shares)}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
        f"--time={max(1, math.ceil(limit_s / 60))}",
        f"--signal=B:USR2@{min(LEAVE_LEAD_S, int(limit_s / 4))}",
        "--no-requeue",
        "--open-mode=append",
        f"--output={folder}/slurm.out",
        "--chdir=/",
        "--export=NIL",
        *_gpu_options(shares),
    ]
    if order.memory_mb:
        options.append(f"--mem={math.ceil(order.memory_mb / len(shares))}M")
    if settings.account:
        options.append(f"--account={settings.account}")
    if settings.qos:
        options.append(f"--qos={settings.qos}")
    return [*options, *settings.options]


def _fair_cpus(server: SlurmServer, gpus: int) -> int:
    """Return the CPUs of a rank that asked for none: its GPUs' part of the node's."""
    return max(1, len(server.cpus) * gpus // max(1, len(server.gpus)))


def _gpu_options(shares: Sequence[tuple[SlurmServer, int]]) -> list[str]:
    """Return how GPUs are asked for: as many on each node, or so many in all."""
    counts = {gpus for _, gpus in shares}
    if counts == {0}:
        return []
    heads = {server.gres.rpartition(":")[0] for server, _ in shares}
    if len(heads) > 1:
        raise BackendError("Slurm gives a job GPUs of one type, and it was planned on several")
    head = heads.pop()
    if len(counts) == 1:
        return [f"--gres={head}:{counts.pop()}"]
    total, of_type = sum(gpus for _, gpus in shares), head.partition(":")[2]
    return [f"--gpus={of_type}:{total}" if of_type else f"--gpus={total}"]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
