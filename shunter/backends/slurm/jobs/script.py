"""What an attempt is, as Slurm is told: a batch script and the options of sbatch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from shunter.backends.agents.orders import Order
from shunter.backends.node.messages.attempt_records import number_of
from shunter.backends.slurm import batch_jobs
from shunter.backends.slurm.batch_jobs import END_LEAD_S, batch_script, name_in, usual_options
from shunter.backends.slurm.records import QueuedJob
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.events.values.ids import NodeName

Key = tuple[str, int]
LIMIT_SIGNAL = "SIGUSR2"
"""What tells the program of an attempt that its time limit is near, and nothing else."""


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

    Slurm gives each node of a job as much, or splits a total as it likes. So a plan that gives its
    nodes unequal parts is a heterogeneous job, with a component for each run of equal ones; the
    first is where the script runs.

    Args:
        settings: of the cluster.
        order: what is to run.
        folder: of the attempt, where Slurm puts what the script itself prints.
        longest_s: how long Slurm lets jobs run on these nodes; None: as long as they may.
    """
    limit_s = settings.time_limit_s
    if order.time_limit_s is not None:
        limit_s = order.time_limit_s + END_LEAD_S
    limit_s = limit_s if longest_s is None else min(limit_s, longest_s)
    name, output = f"{order.job}.a{order.attempt}", f"{folder}/slurm.out"
    usual = usual_options(settings, name, output, limit_s, LIMIT_SIGNAL.removeprefix("SIG"))
    words: list[str] = []
    for part, equal in groupby(_parts(settings, order), key=attrgetter("asked")):
        nodes = [each.node for each in equal]
        where = [f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", "--ntasks-per-node=1"]
        words += [":"] if words else []
        words += [*usual, *where, *part, *settings.options]
    return words


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node gives: `asked` are the options of sbatch for it."""

    node: NodeName
    asked: tuple[str, ...]


def _parts(settings: SlurmSettings, order: Order) -> Iterator[_Part]:
    """Return what an attempt is to be given, node by node in the order of its ranks."""
    servers = {str(server.name): server for server in settings.nodes}
    shares = [(servers[node], mask.bit_count()) for node, mask in order.placement]
    all_gpus = sum(gpus for _, gpus in shares)
    for rank, (server, gpus) in zip(order.ranks, shares, strict=True):
        cpus = len(rank.cpus) if rank.pinned else _fair_cpus(server, gpus)
        of, whole = (gpus, all_gpus) if all_gpus else (1, len(shares))
        memory_mb = math.ceil(order.memory_mb * of / whole) or _fair_memory_mb(server, gpus, cpus)
        asked = [f"--cpus-per-task={cpus}"]
        asked += [f"--gres={server.gres.rpartition(':')[0]}:{gpus}"] if gpus else []
        asked += [f"--mem={memory_mb}M"] if memory_mb else []
        yield _Part(server.name, tuple(asked))


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
