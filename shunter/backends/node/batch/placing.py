"""Where a batch system has put an attempt: read from its environment, written into the order.

A plan names nodes and GPUs. Slurm hands out GPUs when a job starts, and may choose other nodes, so
the order that a supervisor runs by names what the job was given. A rank on another node than the
batch script is started there by srun. Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Order, Rank

COMMAND_S = 30.0
_INDICES = re.compile(r"IDX:([0-9,-]*)")
_NODE_SHARE = re.compile(r"\bNodes=(\S+)(.*?)(?=\bNodes=|$)")


def placed(order: Order, given: Mapping[str, str]) -> Order:
    """Return an order for the nodes, GPUs and CPUs that Slurm has given this job.

    Args:
        order: as it was planned.
        given: the environment of the batch script.

    Raises:
        OSError: Slurm does not say which nodes they are.
        ValueError: they are not as many as was planned.
    """
    here = given.get("SLURMD_NODENAME") or order["placement"][0][0]
    if len(order["placement"]) == 1:
        gpus = {here: indices_in(given.get("SLURM_JOB_GPUS", ""))}
    else:
        gpus = _shares(_told(["scontrol", "show", "job", "-d", "-o", given["SLURM_JOB_ID"]]))
    planned = [node for node, _ in order["placement"]]
    nodes = planned if set(planned) == set(gpus) else sorted(gpus, key=lambda node: node != here)
    if len(nodes) != len(planned):
        raise ValueError(f"Slurm gave {len(nodes)} nodes, expected {len(planned)}")
    master = _address(nodes[0], here)
    ranks = []
    for number, node in enumerate(nodes):
        own = _on_node(order["ranks"][number], node, gpus[node], master)
        ranks.append(own if node == here else _by_srun(own, node, len(gpus[node]), given))
    return {
        **order,
        "placement": [(node, sum(1 << gpu for gpu in gpus[node])) for node in nodes],
        "gpus": [str(gpu) for node in nodes for gpu in gpus[node]],
        "ranks": ranks,
    }


def indices_in(text: str) -> list[int]:
    """Return the numbers in a list such as 0,2-3; other names of GPUs are left out."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last if last.isdigit() else first) + 1)
    return found


def _on_node(rank: Rank, node: str, gpus: list[int], master: str) -> Rank:
    env = {**rank["env"], "SHUNTER_NODE": node, "MASTER_ADDR": master}
    # Where Slurm shows a job its own devices only, they count from 0: it has said how.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    env["CUDA_VISIBLE_DEVICES"] = visible or ",".join(map(str, gpus))
    names = [str(gpu) for gpu in gpus]
    cpus = sorted(os.sched_getaffinity(0))
    return {**rank, "env": env, "gpus": names, "cpus": cpus, "pinned": False}


def _by_srun(rank: Rank, node: str, gpus: int, given: Mapping[str, str]) -> Rank:
    """Return a rank that srun starts on another node of the job."""
    slurm = {name: text for name, text in given.items() if name.startswith("SLURM")}
    words = [
        "srun",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--export=ALL",
        "--unbuffered",
    ]
    words += [f"--chdir={rank['directory']}", "--input=none"]
    words += [f"--gpus-per-node={gpus}"] if gpus else []
    cpus = given.get("SLURM_CPUS_PER_TASK")
    words += [f"--cpus-per-task={cpus}"] if cpus else []
    env = {**slurm, **rank["env"]}
    env.pop("CUDA_VISIBLE_DEVICES")  # Slurm sets that of its node
    return {**rank, "argv": [*words, *rank["argv"]], "env": env}


def _address(node: str, here: str) -> str:
    """Return what the ranks of a job call the node of the first of them."""
    try:
        socket.getaddrinfo(node, None)
    except OSError:  # a name that only Slurm knows
        return socket.gethostname() if node == here else node
    return node


def _shares(told: str) -> dict[str, list[int]]:
    """Return the GPUs of a job by node, from what scontrol shows of it in detail."""
    shares: dict[str, list[int]] = {}
    for nodes, about in _NODE_SHARE.findall(told):
        gpus = [gpu for found in _INDICES.findall(about) for gpu in indices_in(found)]
        for node in _told(["scontrol", "show", "hostnames", nodes]).split():
            shares[node] = gpus
    return shares


def _told(words: list[str]) -> str:
    """Return what a command prints.

    Raises:
        OSError: it failed, or took too long.
    """
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} gave no answer within {COMMAND_S:g} s") from error
    if done.returncode:
        raise OSError(f"{words[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
    return done.stdout.decode("utf-8", "replace")
