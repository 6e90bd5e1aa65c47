"""`shunter init --slurm`: a config for a partition that was asked what it has."""

import json
from collections.abc import Sequence

import anyio
from ClusterShell.NodeSet import (  # type: ignore[import-untyped]  # it has no stubs
    RESOLVER_NOGROUP,
    NodeSet,
)

from shunter.backends.slurm import Partition, Slurm
from shunter.errors import SlurmUnknownError, UnreachableError
from shunter.ops.first_config import LOG, POLICY
from shunter.ops.slurm.discovery import Discovered, ServerKind, discovered, inventory

DAY_S = 86_400
HEAD = """\
# Partition {partition} of cluster {cluster} (Slurm {version}), as it was found.
# `shunter doctor FILE` looks at it again, docs/reference/config.md lists every key.

"""
TAIL = f"""
{POLICY}
[backend]
kind = "slurm"
[backend.slurm]
partition = {{partition}}
mode = "pilot"                    # hold nodes, and run jobs inside; "per-job": one sbatch each
root = {{root}}  # all nodes and this machine share it, under the same path
time_limit = "{{time_limit}}"               # how long Slurm is asked for a node; {{longest}}
idle_release = "10m"              # a node that runs nothing is given back after that
# pilots_max = 8                  # no more nodes than that at once
{{account}}
# qos = "normal"                  # the quality of service
# options = ["--constraint=nvlink"]  # further options of sbatch
keep = "90d"                      # output of jobs that ended longer ago goes; checkpoints stay

{LOG}"""


def slurm_config(
    slurm: Slurm, partition: str, *, root: str, account: str = ""
) -> tuple[str, list[str]]:
    """Return a config for a partition, and what is to be said about it.

    Args:
        slurm: the cluster to ask.
        partition: its name.
        root: a folder that all nodes and this machine share.
        account: whom the jobs are charged to; the user's usual one if empty.
    Raises:
        UnreachableError: Slurm does not answer.
        UsageError: there is no such partition, or nothing in it that a config could hold.
    """
    try:
        found = anyio.run(inventory, slurm)
    except SlurmUnknownError as error:
        raise UnreachableError(f"init --slurm: {error}") from error
    chosen = found.partition(partition)
    servers = discovered(found, chosen)
    cluster = found.settings["ClusterName"]
    head = HEAD.format(partition=partition, cluster=cluster, version=found.version)
    groups = [_group(kind, names, servers.features[kind]) for kind, names in servers.kinds.items()]
    return head + "\n".join(groups) + _tail(chosen, root, account), _notes(chosen, servers)


def _notes(partition: Partition, servers: Discovered) -> list[str]:
    notes = list(servers.notes)
    if partition.state != "UP":
        notes.append(f"partition {partition.name} is {partition.state}: nothing starts there now")
    if any(kind.sockets > 1 for kind in servers.kinds):
        notes.append(
            "GPUs are taken to be divided evenly among the sockets, in order; Slurm does not tell"
        )
    return notes


def _group(kind: ServerKind, names: Sequence[str], features: Sequence[str]) -> str:
    folded = str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    lines = [
        "[[cluster.nodes]]",
        f"name = {json.dumps(folded)}" + (f"  # {','.join(features)}" if features else ""),
        f"gpus = {kind.gpus}",
        f"type = {json.dumps(kind.gpu_type)}",
        f"cpus = {kind.cpus}",
        f"memory_gb = {kind.memory_gb}",
    ]
    if kind.rack:
        lines.append(f"rack = {json.dumps(kind.rack)}")
    if kind.domain:
        lines.append(f"domain = {json.dumps(kind.domain)}")
    if kind.sockets > 1:
        lines.append(f"sockets = {kind.sockets}")
    return "\n".join(lines) + "\n"


def _tail(partition: Partition, root: str, account: str) -> str:
    longest_s = partition.time_limit_s
    longest = "the partition has no limit" if longest_s is None else f"at most {_span(longest_s)}"
    return TAIL.format(
        partition=json.dumps(partition.name),
        root=json.dumps(root),
        time_limit=_span(DAY_S if longest_s is None else min(longest_s, DAY_S)),
        longest=longest,
        account=(
            f"account = {json.dumps(account)}"
            if account
            else '# account = "lab"                 # whom the jobs are charged to'
        ),
    )


def _span(seconds: int) -> str:
    """Return a duration as configs write it, such as 1d or 90m."""
    for unit, size in (("d", DAY_S), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
