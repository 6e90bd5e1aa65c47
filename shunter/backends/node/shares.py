"""What holds attempts to their CPUs and memory on this machine, and is changed while they run.

CPU time is held by quotas of control groups (version 2 or 1), in parts of a CPU. Without a group of
ours attempts are bound to whole CPUs (affinity), and memory is not held. What holds now is read
from the kernel, so a change may be repeated.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from shunter.backends.node.attempts import is_held, pids_of, probe
from shunter.backends.node.cgroups import (
    LIMIT,
    QUOTA,
    change_group,
    close_group,
    divisible,
    divisible_v1,
    has_quota,
    held_to,
    is_handed,
    is_of_session,
    joined,
)
from shunter.backends.node.messages import ReshapeAnswer, a_job, number_of
from shunter.backends.node.records import folder_of, processes
from shunter.backends.node.shapes import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shunter.backends.node.messages import Key, Order, Shares

K = TypeVar("K")
BIND_TRIES = 20
MEND = "name one that was handed over: [backend.ssh.hosts.NAME] cgroup"


class Means(NamedTuple):
    """Below which folders groups of attempts are made; nothing where none are."""

    cpus: str = ""
    memory: str = ""

    @property
    def words(self) -> str:
        """What holds what, for people."""
        cpus = "affinity, whole ones only"
        if self.cpus:
            cpus = f"quotas of control groups (version {_version(self.cpus, QUOTA)})"
        memory = "memory is not held"
        if self.memory:
            memory = f"memory by control groups (version {_version(self.memory, LIMIT)})"
        return f"CPUs by {cpus}; {memory}"


def means_of(group: str, *, is_divided: bool = True) -> Means:
    """Return what this machine has beside the group that we may divide, if any.

    Args:
        group: its folder, of version 2.
        is_divided: it hands on by now what groups below it can hold.
    """
    with_cpus = bool(group) and is_handed(group, "cpu", is_divided=is_divided)
    cpus = group if with_cpus else divisible_v1("cpu", QUOTA)
    return Means(cpus, group or divisible_v1("memory", LIMIT))


def memory_group(group: str, *, prepare: bool, with_cpus: bool = False) -> tuple[str, str]:
    """Return the group of version 2 for those of attempts, or why there is none.

    The one of a session is ours to divide only while nobody else is in it.
    """
    return divisible(
        prepare=prepare, mend=MEND, group=group, may_move=is_of_session, with_cpus=with_cpus
    )


class Enforcement:
    """The groups of the attempts below one root, and the CPUs that they are bound to.

    Args:
        root: of the attempts.
        cluster: whose they are; nothing where a machine has only one.
        group: the group of version 2 that is handed over; None: the one we are in.
        is_limited: attempts are held to the shares in their orders, and these may change.
    """

    def __init__(self, root: str, cluster: str, group: str | None, *, is_limited: bool) -> None:
        if cluster:
            divided = memory_group(group or "", prepare=True, with_cpus=is_limited)[0]
        elif group is None:
            divided = divisible(prepare=True, mend="", with_cpus=is_limited)[0]
        else:
            divided = group
        self._root, self._is_limited = root, is_limited
        self._allowed: dict[Key, list[int]] = {}
        self.means = means_of(divided) if is_limited else Means("", divided)
        self._plain = f"shunter-{cluster}-" if cluster else "shunter-"
        # In version 1 all roots of a machine may have the same group above theirs.
        self._limited = f"shunter-{blake2b(root.encode(), digest_size=4).hexdigest()}-"

    @property
    def words(self) -> str:
        """What holds attempts to their shares; nothing if these are not held."""
        return self.means.words if self._is_limited else ""

    def placed(self, order: Order, running: Iterable[Key]) -> Order:
        """Return an order with its groups, or with CPUs of its own where there are none.

        Args:
            order: of an attempt that is about to start.
            running: the attempts that run here.
        """
        name, shares = f"{order.job}.{order.attempt}", order.shares
        if not self._is_limited or not shares:
            memory = self.means.memory if order.memory_mb else ""
            return order.replaced(cgroup=f"{memory}/{self._plain}{name}" if memory else None)
        parents = [parent for parent in self.means if parent]
        group = joined([f"{parent}/{self._limited}{name}" for parent in parents]) or None
        if self.means.cpus or not shares.cpus_milli:
            return order.replaced(cgroup=group)
        cpus = self._rebound((order.job, order.attempt), shares, running)
        ranks = [rank.replaced(cpus=tuple(cpus), pinned=True) for rank in order.ranks]
        return order.replaced(cgroup=group, ranks=tuple(ranks))

    def change(self, key: Key, shares: Shares, running: Iterable[Key]) -> ReshapeAnswer:
        """Hold an attempt to other shares; return what it has now, and why not these."""
        known = probe(folder_of(self._root, *key))
        started = known.started
        if known.state != "running" or started is None:
            return ReshapeAnswer(
                cpus_milli=0, memory_mb=0, cause=f"it is not running, but {known.state}"
            )
        group, cause, cpus = started.cgroup or "", "", []
        try:
            if group:
                change_group(group, shares.cpus_milli, shares.memory_mb)
            if not has_quota(group) and shares.cpus_milli:
                cpus = self._rebound(key, shares, running)
            elif shares.cpus:
                begun = sorted({cpu for rank in started.ranks for cpu in rank.cpus})
                self._allowed = {
                    each: self._allowed[each] for each in running if each in self._allowed
                }
                self._follow(key, shares.cpus, begun)
        except OSError as error:
            cause = error.strerror or str(error)
        has = held_to(group) if group else (0, 0)
        return ReshapeAnswer(
            cpus_milli=has[0] or 1000 * len(cpus), memory_mb=has[1], cpus=tuple(cpus), cause=cause
        )

    def tidy(self) -> None:
        """Remove the groups of attempts that do not run: their supervisors were killed."""
        for parent in dict.fromkeys(each for each in self.means if each):
            names = sorted(os.listdir(parent)) if self._is_limited else []
            for name in names:
                job, _, number = name[len(self._limited) :].rpartition(".")
                attempt = number_of(number)
                if not name.startswith(self._limited) or attempt is None:
                    continue
                folder = folder_of(self._root, job, attempt)
                if checked(job, a_job) is None or not is_held(f"{folder}/lock"):
                    close_group(f"{parent}/{name}")

    def _follow(self, key: Key, cpus: Sequence[int], begun: Sequence[int]) -> None:
        """Bind an attempt that has a quota to the CPUs it may use now.

        Where they are the same, what a job has bound to some of them by itself stays.
        """
        wanted = [cpu for cpu in cpus if cpu in os.sched_getaffinity(0)]
        if wanted and sorted(cpus) != self._allowed.get(key, begun):
            _bind(self._root, key, wanted)
            self._allowed[key] = sorted(cpus)

    def _rebound(self, key: Key, shares: Shares, running: Iterable[Key]) -> list[int]:
        """Bind an attempt to as many CPUs as its share; others may be moved for it."""
        parents = processes()
        keys = sorted(dict.fromkeys([*running, key]))
        pids = {each: pids_of(self._root, each, parents) for each in keys}
        bound = {each: _bound(own) for each, own in pids.items() if own or each == key}
        ours = sorted(os.sched_getaffinity(0))
        cpus = [cpu for cpu in shares.cpus if cpu in ours] or ours
        counts = {each: len(own) for each, own in bound.items()}
        counts[key] = -(-shares.cpus_milli // 1000)
        # Who has CPUs of other sockets too is not moved to these.
        stays = [each for each, own in bound.items() if each != key and not {*own} <= {*cpus}]
        taken = [cpu for each in stays for cpu in bound.pop(each)]
        given = spread(bound, counts, cpus, taken)
        for each, own in given.items():
            if each != key and own != bound[each]:
                with suppress(OSError):
                    _bind(self._root, each, own)
        if pids[key]:
            _bind(self._root, key, given[key])
        return given[key]


def spread(
    bound: Mapping[K, Sequence[int]],
    counts: Mapping[K, int],
    cpus: Sequence[int],
    taken: Sequence[int] = (),
) -> dict[K, list[int]]:
    """Return so many CPUs for each, different ones as far as there are.

    In order each takes those that the fewest before it have, and of these first its own.

    Args:
        bound: the CPUs that each has.
        counts: how many each is to have; all there are, if that is more.
        cpus: what there is to choose from.
        taken: those of others, who stay; one that several of them have stands there several times.
    """
    tenants = {cpu: taken.count(cpu) for cpu in cpus}
    given: dict[K, list[int]] = {}
    for key, own in bound.items():
        order = sorted((tenants[cpu], cpu not in own, cpu) for cpu in cpus)
        given[key] = sorted(cpu for _, _, cpu in order[: counts[key]])
        for cpu in given[key]:
            tenants[cpu] += 1
    return given


def _version(folder: str, file: str) -> int:
    return 1 if os.path.exists(f"{folder}/{file}") else 2


def _bound(pids: Iterable[int]) -> list[int]:
    """Return the CPUs to which the first of some processes is bound."""
    for pid in pids:
        with suppress(OSError):
            return sorted(os.sched_getaffinity(pid))
    return []


def _bind(root: str, key: Key, cpus: Sequence[int]) -> None:
    """Bind all threads of an attempt, and again those that began meanwhile."""
    strange: list[int] = []
    for _ in range(BIND_TRIES):
        strange = []
        for pid in pids_of(root, key, processes()):
            with suppress(OSError):  # it has ended
                threads = map(int, sorted(os.listdir(f"/proc/{pid}/task")))
                strange += [each for each in threads if _bound([each]) not in ([], list(cpus))]
        if not strange:
            return
        for thread in strange:
            with suppress(OSError):
                os.sched_setaffinity(thread, cpus)
    raise OSError(f"thread {strange[0]} cannot be bound to CPUs {', '.join(map(str, cpus))}")
