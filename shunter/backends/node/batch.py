"""A batch job that runs one attempt: it claims it, and stays with its supervisor.

    exec python3 -I -S PROGRAM batch ROOT JOB ATTEMPT        the last line of the job's script

ROOT is on a folder that all nodes share. The supervisor is the same as everywhere. Its scheduler,
which may be on another machine, adds orders to a file that this process hands on: at SIGUSR1, or at
the next look. SIGUSR2 (from --signal=B:USR2@SECONDS) and SIGTERM mean that Slurm is about to end
the job: it is asked to save and leave. What is left of it is killed when this process is; so once
Slurm says that the job is over, nothing of the attempt runs.

It exits with what the attempt ended with, 75 if it was suspended, and 77 if it did not begin.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.host.accounts import at_home
from shunter.backends.node.host.checkpoint_folders import open_shared_checkpoints
from shunter.backends.node.messages import Order, StartAnswer, status_in
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    count_in,
    create_private,
    folder_of,
    get,
    put,
    reap_children,
    signal_pipe,
    tell,
)
from shunter.backends.node.supervision import note_leaving, start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shunter.backends.node.messages import Rank


EXIT_NOT_BEGUN = 77
POLL_S = 5.0  # between looks at a file on the shared folder
RETRY_S = 0.2
COMMAND_S = 30.0
LEAVE_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


def batch(root: str, job: str, attempt: str) -> dict[str, object]:
    """Run an attempt to its end, unless it is somebody else's; then exit."""
    folder, inbox = folder_of(root, job, int(attempt)), _Signals()
    cause = _begun(root, folder)
    if cause:
        sys.stderr.write(f"attempt {attempt} of job {job} is not begun: {cause}\n")
        sys.exit(EXIT_NOT_BEGUN)
    _follow(root, folder, inbox)
    status = status_in(folder)
    sys.exit(EXIT_NOT_BEGUN if status is None else status.code)


def _begun(root: str, folder: str) -> str:
    """Claim an attempt and start its supervisor; return why it is not begun."""
    try:
        number = os.environ.get("SLURM_JOB_ID", "")
        when = {"wall_ns": time.time_ns(), "at_ns": time.monotonic_ns()}
        if not take_claim(folder, BEGUN, slurm_job=number, **when):
            return "it has begun elsewhere, or was withdrawn"
        order = get(f"{folder}/order")
        if order is None:
            answer = StartAnswer(answer="failed", cause="its order is gone")
        else:
            answer = _started(root, Order.decoded(order))
    except (OSError, ValueError, KeyError) as error:
        answer = StartAnswer(answer="failed", cause=str(error))
    if answer.answer == "started":
        return ""
    cause = answer.cause or "its supervisor did not start"
    with suppress(OSError):
        put(f"{folder}/refusal", {"cause": cause})
    return cause


def _started(root: str, order: Order) -> StartAnswer:
    """Start the supervisor of an attempt where Slurm has put it."""
    order = placed(at_home(order), os.environ)
    # A scheduler that came after the one that asked for it goes on with what that one asked for.
    order.term = max(order.term, count_in(f"{root}/term", "term"))
    order.is_bound = True
    open_shared_checkpoints(order.checkpoints, order.user)
    return start(root, order, is_new=True)


def _follow(root: str, folder: str, inbox: _Signals) -> None:
    """Hand orders to the supervisor until it and all that it started have ended."""
    taken, was_told_to_leave = 0, False
    while not reap_children():
        is_owed = False
        for line in commands_after(folder, taken):
            is_owed = not tell(f"{folder}/orders", line)
            if is_owed:
                break
            taken += len(line)
        if inbox.leaves_by and not was_told_to_leave:
            note_leaving(folder, inbox.leaves_by)
            order = {"do": "suspend", "term": count_in(f"{root}/term", "term")}
            was_told_to_leave = tell(f"{folder}/orders", json.dumps(order).encode() + b"\n")
            is_owed |= not was_told_to_leave
        inbox.wait(RETRY_S if is_owed else POLL_S)


class _Signals:
    """The signals that this process gets; `leaves_by` is the first to end the job."""

    def __init__(self) -> None:
        self.leaves_by = ""
        self._reader = signal_pipe()
        for number in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in LEAVE_SIGNALS:
            signal.signal(number, lambda number, _: self._leave(number))

    def wait(self, limit_s: float) -> None:
        """Wait for a signal, or so long."""
        select.select([self._reader], [], [], limit_s)
        with suppress(BlockingIOError):
            os.read(self._reader, 512)

    def _leave(self, number: int) -> None:
        self.leaves_by = self.leaves_by or signal.Signals(number).name


# The claim of an attempt. Slurm may start a job twice, or long after it was given up, so the first
# act of its script is to link the file `claim`, which only one can do (atomic over NFS too).
#
#     order       what the supervisor runs; only we can read it
#     claim       who has it: a batch job, or a scheduler that withdrew it
#     refusal     why its supervisor did not begin
#     commands    orders to its supervisor, a line each
#     leaving     the signal by which Slurm ended it, and when

WITHDRAWN = "scheduler"
BEGUN = "batch"


def take_claim(folder: str, by: str, **about: object) -> bool:
    """Take an attempt, for good; False if somebody has it.

    Raises:
        OSError: the folder is gone, or cannot be written.
    """
    fresh = f"{folder}/claim.{os.urandom(8).hex()}"
    with create_private(fresh) as file:
        json.dump({"by": by, **about}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, f"{folder}/claim")
    except FileExistsError:
        return False
    except OSError:
        # A lost answer of a file server: the link may be there all the same.
        if os.stat(fresh).st_nlink != 2:
            raise
    finally:
        os.unlink(fresh)
    return True


def begun_at(folder: str) -> tuple[int, int] | None:
    """Return when a batch job has claimed an attempt, by both clocks of its node.

    That is in nanoseconds since 1970, and of the monotonic clock; None: not known.
    """
    claim = get(f"{folder}/claim") or {}
    wall_ns, at_ns = claim.get("wall_ns"), claim.get("at_ns")
    if not isinstance(wall_ns, int) or not isinstance(at_ns, int):
        return None
    return wall_ns, at_ns


def claimed_by(folder: str) -> str:
    """Return who has an attempt: `BEGUN`, `WITHDRAWN`, or nobody."""
    if not os.path.exists(f"{folder}/claim"):
        return ""
    return WITHDRAWN if (get(f"{folder}/claim") or {}).get("by") == WITHDRAWN else BEGUN


def withdraw(folder: str) -> bool:
    """Let an attempt never begin; False if it has, or may have."""
    if take_claim(folder, WITHDRAWN):
        with suppress(OSError):  # values in it are secrets, and nobody will need them
            os.unlink(f"{folder}/order")
        return True
    return claimed_by(folder) == WITHDRAWN


def add_command(folder: str, command: Mapping[str, object]) -> None:
    """Add an order for the supervisor of an attempt.

    Raises:
        OSError: it cannot be written.
    """
    line = json.dumps(command).encode() + b"\n"
    assert len(line) <= LINE_BYTES_MAX, "a supervisor reads no longer lines"
    file = os.open(f"{folder}/commands", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def commands_after(folder: str, offset: int) -> list[bytes]:
    """Return the whole lines of commands from an offset on, with their ends."""
    try:
        with open(f"{folder}/commands", "rb") as file:
            file.seek(offset)
            return [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    except OSError:
        return []


def told_to_leave_by(folder: str) -> tuple[str, float | None]:
    """Return the signal that told an attempt to end, nothing if none did, and when.

    That is in seconds since 1970; None: not known.
    """
    found = get(f"{folder}/leaving") or {}
    wall_ns = found.get("wall_ns")
    return str(found.get("signal", "")), wall_ns / 1e9 if isinstance(wall_ns, int) else None


# Slurm chooses GPUs, and maybe other nodes, when a job starts: the order gets those of the job's
# environment. srun starts ranks on other nodes; no rank sees anything of Slurm.

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
    here = given.get("SLURMD_NODENAME") or order.placement[0][0]
    if len(order.placement) == 1:
        gpus = {here: indices_in(given.get("SLURM_JOB_GPUS", ""))}
    else:
        gpus = _shares(_output_of(["scontrol", "show", "job", "-d", "-o", given["SLURM_JOB_ID"]]))
    planned = [node for node, _ in order.placement]
    nodes = planned if set(planned) == set(gpus) else sorted(gpus, key=lambda node: node != here)
    if len(nodes) != len(planned):
        raise ValueError(f"Slurm gave {len(nodes)} nodes, expected {len(planned)}")
    split, wanted = _split(gpus[node] for node in nodes), _split(_planned_gpus(order))
    if len(nodes) > 1 and split != wanted:
        raise ValueError(f"Slurm gave {split} GPUs, expected {wanted}")
    master, component = _address(nodes[0], here), _components(given)
    ranks = []
    for number, node in enumerate(nodes):
        own = _on_node(order.ranks[number], node, gpus[node], master)
        step = Step(node, len(gpus[node]), component.get(node, ""))
        ranks.append(own if node == here else _by_srun(own, step, given))
    return order.replaced(
        placement=tuple([(node, sum(1 << gpu for gpu in gpus[node])) for node in nodes]),
        gpus=tuple([str(gpu) for node in nodes for gpu in gpus[node]]),
        ranks=tuple(ranks),
    )


def indices_in(text: str) -> list[int]:
    """Return the numbers in a list such as 0,2-3; other names of GPUs are left out."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last if last.isdigit() else first) + 1)
    return found


def _on_node(rank: Rank, node: str, gpus: list[int], master: str) -> Rank:
    env = {**rank.env, "SHUNTER_NODE": node, "MASTER_ADDR": master}
    # Where Slurm shows a job its own devices only, they count from 0: it has said how.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    env["CUDA_VISIBLE_DEVICES"] = visible or ",".join(map(str, gpus))
    names = tuple(map(str, gpus))
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    return rank.replaced(env=env, gpus=names, cpus=cpus, pinned=False)


class Step(NamedTuple):
    """Where a rank is started; `component`: of a heterogeneous job, or empty."""

    node: str
    gpus: int
    component: str


def _by_srun(rank: Rank, step: Step, given: Mapping[str, str]) -> Rank:
    """Return a rank that srun starts on another node of the job."""
    slurm = {name: text for name, text in given.items() if name.startswith("SLURM")}
    words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={step.node}", "--export=ALL"]
    words += ["--unbuffered", "--mpi=none", f"--chdir={rank.directory}", "--input=none"]
    words += [f"--gpus-per-node={step.gpus}"] if step.gpus else []
    words += [f"--het-group={step.component}"] if step.component else []
    suffix = f"_HET_GROUP_{step.component}" if step.component else ""
    cpus = given.get(f"SLURM_CPUS_PER_TASK{suffix}")
    words += [f"--cpus-per-task={cpus}"] if cpus else []
    env = {**rank.env, **slurm}  # srun reads them, whatever the submitter exported
    env.pop("CUDA_VISIBLE_DEVICES")  # Slurm sets that of its node
    return rank.replaced(argv=(*words, *_WITHOUT_SLURM, *rank.argv), env=env)


def _components(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the component of each node of a heterogeneous job, if it is one."""
    found = {}
    for number in range(int(given.get("SLURM_HET_SIZE", "0"))):
        nodes = given[f"SLURM_JOB_NODELIST_HET_GROUP_{number}"]
        found.update(dict.fromkeys(_hostnames(nodes), str(number)))
    return found


def _planned_gpus(order: Order) -> Iterator[list[int]]:
    """Return the GPUs of each rank, as planned."""
    for _, mask in order.placement:
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
    return _output_of(["scontrol", "show", "hostnames", nodes]).split()


def _output_of(words: list[str]) -> str:
    """Return what a command prints."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} gave no answer within {COMMAND_S:g} s") from error
    if done.returncode:
        raise OSError(f"{words[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
    return done.stdout.decode("utf-8", "replace")
