"""What an attempt is, as Slurm is told: a batch script and the options of sbatch."""

import math
from collections.abc import Sequence

from shunter.backends.agents.orders import Order
from shunter.backends.node.messages.attempt_records import number_of
from shunter.backends.slurm import batch_jobs
from shunter.backends.slurm.batch_jobs import END_LEAD_S, batch_script, name_in, usual_options
from shunter.backends.slurm.records import QueuedJob
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.errors import BackendError

__all__ = ["Key", "job_name", "job_options", "job_script", "key_in"]

Key = tuple[str, int]


def job_name(cluster_id: str, job: str, attempt: int) -> str:
    """Return the name of an attempt's Slurm job."""
    return batch_jobs.job_name(cluster_id, f"{job}.a{attempt}")


def key_in(cluster_id: str, user: str, job: QueuedJob) -> Key | None:
    """Return which attempt of a cluster a Slurm job is; None if it is none."""
    name, _, attempt = (name_in(cluster_id, user, job) or "").rpartition(".a")
    number = number_of(attempt)
    return None if number is None else (name, number)


def job_script(python: str, agent: str, root: str, job: str, attempt: int) -> str:
    """Return the script, which names the order of an attempt and holds none of it.

    Signals that come before the program can handle them do nothing.
    """
    words = (python, "-I", "-S", agent, "batch", root, job, str(attempt))
    return batch_script(words, "trap '' USR1 USR2")


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
        limit_s = order.time_limit_s + END_LEAD_S
    limit_s = min(limit_s, longest_s or limit_s)
    cpus = max(
        len(rank.cpus) if rank.pinned else _fair_cpus(server, gpus)
        for rank, (server, gpus) in zip(order.ranks, shares, strict=True)
    )
    name = f"{order.job}.a{order.attempt}"
    options = [
        *usual_options(settings, name, f"{folder}/slurm.out", limit_s, "USR2"),
        f"--nodelist={','.join(server.name for server, _ in shares)}",
        f"--nodes={len(shares)}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
        *_gpu_options(shares),
    ]
    memory_mb = math.ceil(order.memory_mb / len(shares))
    memory_mb = memory_mb or max(_fair_memory_mb(server, gpus, cpus) for server, gpus in shares)
    if memory_mb:
        options.append(f"--mem={memory_mb}M")
    return [*options, *settings.options]


def _fair_memory_mb(server: SlurmServer, gpus: int, cpus: int) -> int:
    """Return the memory on a node of an attempt that asked for none.

    It is its GPUs' part of the node's, or its CPUs' if it has no GPUs; 0: nobody knows what the
    node has. Where a site sets no default, Slurm would give it all of it.
    """
    part, whole = (gpus, len(server.gpus)) if gpus else (cpus, len(server.cpus))
    return server.memory_mb * min(part, whole) // max(1, whole)


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
