"""Where a batch system has put an attempt: read from its environment, written into the order.

A plan names nodes and GPUs. Slurm hands out GPUs when a job starts, and may choose other nodes, so
the order that a supervisor runs by names what the job was given. A rank on another node than the
batch script is started there by srun; it sees nothing of Slurm, as the first one does. Only the
standard library of Python 3.8 or later.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shunter.backends.node.messages.wire import Order, Rank

COMMAND_S = 30.0
_INDICES = re.compile(r"IDX:([0-9,-]*)")
_WITHOUT_SLURM = (
    "/bin/sh",
    "-c",
    "unset SRUN_DEBUG $(env | sed -n 's/^\\(SLURM[A-Za-z0-9_]*\\)=.*/\\1/p'); exec \"$@\"",
    "sh",
)
"""Runs a program without what srun says of its step: libraries would take that for the gang's."""
_NODE_SHARE = re.compile(r"\bNodes=(\S+)(.*?)(?=\bNodes=|$)")


def placed(order: Order, given: Mapping[str, str]) -> Order:
    """Return an order for the nodes, GPUs and CPUs that Slurm has given this job.

    Args:
        order: as it was planned.
        given: the environment of the batch script.

    Raises:
        OSError: Slurm does not say which nodes they are.
        ValueError: they, or their GPUs, are not as many as was planned.
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
    split, wanted = _split(gpus[node] for node in nodes), _split(_planned_gpus(order))
    if len(nodes) > 1 and split != wanted:
        raise ValueError(f"Slurm gave {split} GPUs, expected {wanted}")
    master, component = _address(nodes[0], here), _components(given)
    ranks = []
    for number, node in enumerate(nodes):
        own = _on_node(order["ranks"][number], node, gpus[node], master)
        step = Step(node, len(gpus[node]), component.get(node, ""))
        ranks.append(own if node == here else _by_srun(own, step, given))
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


class Step(NamedTuple):
    """Where a rank is started; `component`: of a heterogeneous job, or empty."""

    node: str
    gpus: int
    component: str


def _by_srun(rank: Rank, step: Step, given: Mapping[str, str]) -> Rank:
    """Return a rank that srun starts on another node of the job."""
    slurm = {name: text for name, text in given.items() if name.startswith("SLURM")}
    words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={step.node}", "--export=ALL"]
    words += ["--unbuffered", "--mpi=none", f"--chdir={rank['directory']}", "--input=none"]
    words += [f"--gpus-per-node={step.gpus}"] if step.gpus else []
    words += [f"--het-group={step.component}"] if step.component else []
    suffix = f"_HET_GROUP_{step.component}" if step.component else ""
    cpus = given.get(f"SLURM_CPUS_PER_TASK{suffix}")
    words += [f"--cpus-per-task={cpus}"] if cpus else []
    env = {**rank["env"], **slurm}  # srun reads them, whatever the submitter exported
    env.pop("CUDA_VISIBLE_DEVICES")  # Slurm sets that of its node
    return {**rank, "argv": [*words, *_WITHOUT_SLURM, *rank["argv"]], "env": env}


def _components(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the component of each node of a heterogeneous job, if it is one."""
    found = {}
    for number in range(int(given.get("SLURM_HET_SIZE", "0"))):
        nodes = given[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"]
        found.update(dict.fromkeys(_hostnames(nodes), str(number)))
    return found


def _planned_gpus(order: Order) -> Iterator[list[int]]:
    """Return the GPUs of each rank, as planned."""
    for _, mask in order["placement"]:
        yield [gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1]


def _split(gpus: Iterable[list[int]]) -> str:
    """Return how many GPUs each rank has, such as 4+2."""
    return "+".join(str(len(each)) for each in gpus)


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
    for job in told.split("\n"):  # one for each component
        for nodes, about in _NODE_SHARE.findall(job):
            gpus = [gpu for found in _INDICES.findall(about) for gpu in indices_in(found)]
            for node in _hostnames(nodes):
                shares[node] = gpus
    return shares


def _hostnames(nodes: str) -> list[str]:
    return _told(["scontrol", "show", "hostnames", nodes]).split()


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
