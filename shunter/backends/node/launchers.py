"""Launchers of an attempt, and the ranks that they start: who is asked to leave by a signal.

torchrun, `accelerate launch`, deepspeed and mpirun stand between a supervisor and what trains. A
signal to one of them ends it, or cuts the time that its ranks have to save short, or is passed on,
or is not (docs/reference/launchers.md). So ranks are signalled themselves wherever they can be told
apart, and their launcher is spared for as long as one of them lives.

They are told apart by their environment: a launcher gives each process that it starts a variable of
`MARKS` that it has not itself, or with another value. A process that starts local ranks but none
with number 0 is rank 0 itself, as under Lightning's own launcher. And a launcher is one by its
command line (`NAMES`): a trainer that starts a helper with such a variable is asked as any program,
and so is a Python program above a launcher that handles the signal. Ranks that are forked and never
execute a program have the environment of their parent, and are not told apart. Nor are those of
other machines, to which the launcher passes on what it is told.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.records import below, catches, kill, processes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

OWN_END_S = 5.0
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")
MARKS = (*LOCAL_RANKS, "GROUP_RANK", "CROSS_RANK", "ACCELERATE_MIXED_PRECISION")
"""By mpirun (Open MPI; MPICH), by all others; by torchrun, by deepspeed, by accelerate."""


NAMES = frozenset(
    (
        *("torchrun", "accelerate", "accelerate-launch", "deepspeed", "horovodrun", "colossalai"),
        *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun"),
    )
)
MODULES = ("torch.distributed", "accelerate.commands", "deepspeed.launcher", "horovod.runner")
"""The programs that are launchers, and what is in the words that Python is given in their place."""


class Launched(NamedTuple):
    """The ranks that launchers have started, and the launchers.

    Of each rank it is the first process. `launchers` are those, and all above them. `family` are
    the ranks and all that they have started. `above` are the Python programs above launchers.
    """

    ranks: tuple[int, ...] = ()
    launchers: tuple[int, ...] = ()
    family: tuple[int, ...] = ()
    above: tuple[int, ...] = ()


def launched(supervisor: int, parents: Mapping[int, int], proc: str = "/proc") -> Launched:
    """Return what launchers below a supervisor have started.

    Args:
        supervisor: a process.
        parents: of all processes (`records.processes`).
        proc: where the kernel tells of them.
    """
    ours = below(supervisor, parents)
    marks = {pid: _marks(pid, proc) for pid in ours}
    begun: dict[int, list[int]] = {}
    for pid in ours:
        parent = parents[pid]
        if parent in marks and not marks[pid].items() <= marks[parent].items():
            begun.setdefault(parent, []).append(pid)
    ranks = {
        pid
        for parent, children in begun.items()
        if is_launcher(_command(parent, proc))
        if any(_local_rank(marks[child]) == "0" for child in children)
        for pid in children
    }
    launchers = {above for pid in ranks for above in _above(pid, parents) if above in marks}
    ranks -= launchers  # of one launcher below another, those of the inner one train
    family = {*ranks, *(each for pid in ranks for each in below(pid, parents))}
    commands = {pid: _command(pid, proc) for pid in sorted(launchers)}
    above = [pid for pid, each in commands.items() if is_python(each) and not is_launcher(each)]
    return Launched(
        tuple(sorted(ranks)), tuple(sorted(launchers)), tuple(sorted(family)), tuple(above)
    )


def is_launcher(command: Sequence[str]) -> bool:
    """Say whether a command line is that of a launcher of `NAMES`."""
    if not is_python(command):
        return bool(command) and os.path.basename(command[0]) in NAMES
    words = list(command[1:])
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-m", "-c"):
            return any(name in word for word in words[:1] for name in MODULES)
        if option in ("-W", "-X"):
            del words[:1]
    return bool(words) and os.path.basename(words[0]) in NAMES


def is_python(command: Sequence[str]) -> bool:
    """Say whether a command line is that of a Python program."""
    return bool(command) and os.path.basename(command[0]).startswith("python")


def _command(pid: int, proc: str) -> list[str]:
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _marks(pid: int, proc: str) -> dict[str, str]:
    """Return the marks of a process, with which it began; none: it is gone."""
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            said = file.read().decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (each.partition("=") for each in said.split("\0"))
    return {name: value for name, _, value in pairs if name in MARKS}


def _local_rank(marks: Mapping[str, str]) -> str:
    return next((marks[name] for name in LOCAL_RANKS if name in marks), "0")


def _above(pid: int, parents: Mapping[int, int]) -> list[int]:
    found = []
    while pid in parents and parents[pid] not in found:
        pid = parents[pid]
        found.append(pid)
    return found


class Asking:
    """Who of an attempt was asked by a signal to leave, and who is still to be.

    A launcher may start its ranks again when one leaves (`torchrun --max-restarts`): whoever looks
    asks those as well. If none has lived for a while, what is left is asked as where there is no
    launcher: not at once, since mpirun crashes of a signal while it ends by itself.
    """

    def __init__(self) -> None:
        self.is_below_launcher = False
        self._alone_since_s: float | None = None  # the launcher, without ranks that were asked
        self._asked: set[tuple[int, int]] = set()  # process and signal
        self._has_asked_all = False
        self._handlers: tuple[int, ...] = ()

    def forget(self) -> None:
        """Begin a stage: it asks again."""
        self._asked.clear()
        self._has_asked_all = False
        self._alone_since_s = None

    def signal(self, number: int) -> bool:
        """Send a signal to those that handle it; say whether any does.

        Others would die of it: Python at its end, when it drops its handlers. What a handler's
        process has forked has the same handler without having asked for it (workers of a loader).
        """
        parents, found = self._look()
        candidates = (*found.family, *found.above) or below(os.getpid(), parents)
        listeners = {pid for pid in candidates if catches(pid, number)}
        for pid in sorted(listeners):
            if not (parents[pid] in listeners and _is_fork_of(parents[pid], pid)):
                self._ask(pid, number)
        return bool(listeners)

    def terminate(self, living: Iterable[int]) -> None:
        """Send SIGTERM to all processes of ranks; where there is none, to groups.

        Args:
            living: the first processes of the attempt, each the leader of a group.
        """
        parents, found = self._look()
        if found.ranks:
            above = [pid for pid in found.above if catches(pid, signal.SIGTERM)]
            handlers = [pid for pid in found.family if catches(pid, signal.SIGTERM)]
            self._handlers = (*handlers, *above)
            self._alone_since_s = None
            for pid in (*found.family, *above):
                self._ask(pid, signal.SIGTERM)
        elif not self._has_asked_all and not self._may_end_by_itself():
            self._has_asked_all = True
            groups = set(living)
            members = [pid for pid in below(os.getpid(), parents) if _group(pid) in groups]
            self._handlers += tuple(pid for pid in members if catches(pid, signal.SIGTERM))
            for pid in sorted(groups):
                if not kill(-pid, signal.SIGTERM):
                    kill(pid, signal.SIGTERM)  # it has no session of its own yet

    def _may_end_by_itself(self) -> bool:
        """Say whether ranks have gone so lately that their launcher may follow."""
        if not self._asked:
            return False
        now_s = time.monotonic()
        if self._alone_since_s is None:
            self._alone_since_s = now_s
        return now_s < self._alone_since_s + OWN_END_S

    def is_awaited(self) -> bool:
        """Say whether one that handles SIGTERM and was sent it is still at that.

        Its shell or launcher may have died of the same signal at once.
        """
        if not self._handlers:
            return False
        alive = {*below(os.getpid(), processes())}
        return any(pid in alive and catches(pid, signal.SIGTERM) for pid in self._handlers)

    def without_launchers(self, pids: Collection[int]) -> Collection[int]:
        """Return who of some processes is asked to stand still: ranks, or all."""
        _, found = self._look()
        return found.family or pids

    def _look(self) -> tuple[dict[int, int], Launched]:
        parents = processes()
        found = launched(os.getpid(), parents)
        self.is_below_launcher = self.is_below_launcher or bool(found.ranks)
        return parents, found

    def _ask(self, pid: int, number: int) -> None:
        if (pid, number) not in self._asked:
            self._asked.add((pid, number))
            kill(pid, number)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _is_fork_of(parent: int, pid: int) -> bool:
    """Say whether a process has executed no other program than its parent."""
    try:
        one, other = (_read(f"/proc/{each}/cmdline") for each in (parent, pid))
    except OSError:
        return False
    return one == other


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
