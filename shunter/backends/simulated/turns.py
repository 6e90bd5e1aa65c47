"""Jobs that take turns on the GPUs of a server: who has them when, on the virtual clock.

The rule is that of live servers (`backends/node/rotation`). At the end of a quantum those whose
turn is over work on to their next mini-batch boundary, the last of them says when all GPUs change
hands. That takes `switch_us` and what copying memory takes, in which nobody works on what changes.
A gang gets and leaves all its GPUs of a server at once, over several servers by a timetable, and
works while it has all of them. Jobs that are packed have their turns together.
GPUs of a job that ends or leaves go to who waits at that instant.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from shunter.backends.node import Member, Rotation
from shunter.backends.simulated.work import Run, Work, transfer_us
from shunter.backends.turn_timetables import timetables
from shunter.core import Tenant
from shunter.core.speeds import FactorTable
from shunter.events import Allocation, JobId, NodeName, Share, Sharing, TurnEnded, TurnStarted, fact


@fact
class Slicing:
    """How jobs take turns, in microseconds.

    `quantum_us` is the length of a turn while others wait, `switch_us` that of a change of hands,
    and after `wait_most_us` without a turn a job goes first (None: never for that alone). Memory of
    GPUs is copied at `copy_mb_s` (None: in no time). Turns end at mini-batch boundaries, up to
    `boundary_most_us` late (None: as late as these are), or without `at_boundary` wherever a job
    is. With `keeps_homes` a job works on its own GPUs only, as live ones do, but for those that
    are `moving`.
    """

    quantum_us: int = 60_000_000
    switch_us: int = 0
    wait_most_us: int | None = None
    copy_mb_s: float | None = None
    at_boundary: bool = True
    boundary_most_us: int | None = None
    keeps_homes: bool = False
    moving: frozenset[JobId] = frozenset()

    def keeps_home(self, job_id: JobId) -> bool:
        """Say whether a job works on its own GPUs only."""
        return self.keeps_homes and job_id not in self.moving


NO_SLICING: Final = Slicing(0)


class ServerTurns:
    """The rotation of a server, and what is foreseen there.

    `leaving` are the turns of the next quantum while boundaries of this one are awaited; `coming`
    those that begin once hands are changed, `packing` who is to be packed with whom once they are.
    `called_us` is when turns were chosen last for a timetable.
    """

    __slots__ = ("called_us", "coming", "leaving", "packing", "rotation", "step")

    def __init__(self, rotation: Rotation) -> None:
        self.rotation = rotation
        self.step = 0
        self.called_us: int | None = None
        self.leaving: dict[str, int] | None = None
        self.coming: dict[str, int] | None = None
        self.packing: list[tuple[JobId, JobId]] = []

    def jobs(self, turns: dict[str, int]) -> dict[JobId, int]:
        """Return the masks of all jobs that have some turns, given by member."""
        members = self.rotation.members
        return {
            JobId(each): mask
            for name, mask in turns.items()
            if name in members
            for each in members[name].names
        }

    def inherit(self, name: str, heir: str) -> None:
        """Let another job have the turns of one that has left."""
        for turns in (self.leaving, self.coming):
            if turns is not None and name in turns:
                turns[heir] = turns.pop(name)

    @property
    def is_changing(self) -> bool:
        """Whether GPUs are about to change hands, so that nobody else gets any."""
        return self.leaving is not None or self.coming is not None


# GPU memory copied out and in when GPUs change hands: the least at a mini-batch boundary, up to 77
# times as much within one (Gandiva, OSDI 2018, slides). The GPUs of a server copy at the same time,
# one direction after the other.

Name = TypeVar("Name", bound=str)


class MemoryMoves:
    """What jobs without a turn have in the memory of their server, by job."""

    __slots__ = ("_copy_mb_s", "_factors", "_out_mb")

    def __init__(self, factors: FactorTable, copy_mb_s: float) -> None:
        self._factors = factors
        self._copy_mb_s = copy_mb_s
        self._out_mb: dict[str, int] = {}

    def leaves(self, name: str, model: str, since_us: int, batch_us: int | None) -> None:
        """Copy out what a job holds.

        Args:
            name: the job.
            model: its model.
            since_us: how long it has worked since it was at a mini-batch boundary.
            batch_us: how long a mini-batch of it takes, if that is known.
        """
        factors = self._factors.of(model)
        if factors is not None and factors.memory_cycle is not None:
            self._out_mb[name] = factors.memory_cycle.at_mb(since_us, batch_us)

    def forget(self, name: str) -> None:
        """Forget a job that takes no more turns."""
        self._out_mb.pop(name, None)

    def change_us(self, leaving: Mapping[Name, int], coming: Mapping[Name, int]) -> int:
        """Return how long it takes until those that come have their memory back.

        Args:
            leaving: masks of GPUs by job that `leaves` was told of.
            coming: masks of GPUs by job.
        """
        moved = [
            (mask, self._out_mb.get(name, 0))
            for masks in (leaving, coming)
            for name, mask in masks.items()
        ]
        gpus = max((mask.bit_length() for mask, _ in moved), default=0)
        on_gpu_mb = (sum(mb for mask, mb in moved if mask >> gpu & 1) for gpu in range(gpus))
        return transfer_us(max(on_gpu_mb, default=0), self._copy_mb_s)


class GangTurns:
    """The gangs that take turns, and where it is theirs; one works if on all."""

    __slots__ = ("_is_stale", "_on", "_quantum_us")

    def __init__(self, quantum_us: int) -> None:
        self._quantum_us = quantum_us
        self._on: dict[JobId, list[NodeName]] = {}
        self._is_stale = False

    def join(self, job_id: JobId) -> None:
        """Let a gang take turns from now on."""
        self._on[job_id] = []
        self._is_stale = True

    def leave(self, job_id: JobId) -> None:
        """Forget a gang, if it is one."""
        self._is_stale |= self._on.pop(job_id, None) is not None

    def nodes(self, job_id: JobId) -> tuple[NodeName, ...]:
        """Return the servers on which it is a gang's turn."""
        return tuple(self._on.get(job_id, ()))

    def begin(self, job_id: JobId, node: NodeName, run: Run) -> bool:
        """Give a gang its turn on a server; say whether it has that on all by now."""
        self._on[job_id].append(node)
        return len(self._on[job_id]) == len(run.allocation.shares)

    def end(self, job_id: JobId, node: NodeName, run: Run) -> bool:
        """End the turn of a gang on a server; say whether it had that on all of them."""
        was_on = len(self._on[job_id]) == len(run.allocation.shares)
        self._on[job_id].remove(node)
        return was_on

    def retimed(
        self, servers: Mapping[NodeName, ServerTurns], nodes: Iterable[NodeName]
    ) -> list[NodeName]:
        """Make the timetables anew if they may be others, as who shares some servers is.

        Returns:
            the servers on which one has changed.
        """
        if not self._on and not self._is_stale:
            return []
        there = {node: server for node, server in servers.items() if self._has_gang(server)}
        if not self._is_stale and there.keys().isdisjoint(nodes):
            return []
        self._is_stale = False
        shares: dict[JobId, list[Share]] = {}
        weights: dict[JobId, float] = {}
        for node, server in there.items():
            for member in server.rotation.members.values():
                for each in (member, *member.packed):
                    job_id = JobId(each.name)
                    shares.setdefault(job_id, []).append(Share(node, each.home))
                    weights[job_id] = each.weight
        tenants = {job_id: Tenant(tuple(had), weights[job_id]) for job_id, had in shares.items()}
        found = timetables(tenants, self._quantum_us)
        changed = []
        for node, server in there.items():
            for name, member in server.rotation.members.items():
                if name in self._on and member.timetable != found.get(JobId(name)):
                    member.timetable = found.get(JobId(name))
                    changed.append(node)
        return changed

    def _has_gang(self, server: ServerTurns) -> bool:
        return not self._on.keys().isdisjoint(server.rotation.members)


_SLICED = Sharing.sliced
BEFORE_ALL, AFTER_ALL = -1, 1 << 62
"""Places within an instant, before and behind those of all jobs."""


@fact
class TurnDue:
    """Something is due in the rotation of a server, unless `step` is an old one."""

    node: NodeName
    step: int


@fact
class Ready:
    """An attempt has started, and takes turns from now on."""

    attempt: int


class Foreseeing(Protocol):
    """What the turns need of the simulated backend."""

    def enter(self, at_us: int, job_id: JobId, what: Any, place: int | None = None) -> None:
        """Foresee something of a job, maybe at another place of an instant than its own."""

    def changed_hands(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let others go at the speed that the coming or going of a job leaves."""

    def works_again(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Foresee the end and the next sample of a job that has its turn."""


class Turns:
    """All rotations of a simulated world."""

    __slots__ = ("_gangs", "_memory", "_servers", "_slicing", "_work", "_world")

    def __init__(
        self, slicing: Slicing, work: Work, world: Foreseeing, factors: FactorTable | None
    ) -> None:
        copy_mb_s = slicing.copy_mb_s
        self._memory: MemoryMoves | None = None
        if factors is not None and copy_mb_s is not None:
            self._memory = MemoryMoves(factors, copy_mb_s)
        self._slicing = slicing
        self._work = work
        self._world = world
        self._servers: dict[NodeName, ServerTurns] = {}
        self._gangs = GangTurns(slicing.quantum_us)

    def launched(self, job_id: JobId, run: Run) -> bool:
        """Let a new attempt wait for its first turn; say whether it takes turns."""
        if run.allocation.sharing is not _SLICED:
            return False
        self._work.stop(job_id, run.began_us)
        self._world.enter(run.began_us, job_id, Ready(run.attempt))
        return True

    def ready(self, job_id: JobId, now_us: int) -> None:
        """Let an attempt that has started take turns."""
        run = self._work.runs[job_id]
        if run.allocation.is_spread:
            self._gangs.join(job_id)
        for share in run.allocation.shares:
            server = self._servers.get(share.node)
            if server is None:
                rotation = Rotation(self._slicing.quantum_us, self._slicing.wait_most_us)
                server = self._servers[share.node] = ServerTurns(rotation)
            stays = run.allocation.is_spread or self._slicing.keeps_home(job_id)
            member = Member(job_id, share.gpu_mask, run.task.weight, is_fixed=stays)
            server.rotation.join(member, now_us)
        self._settle_all([share.node for share in run.allocation.shares], now_us)

    def left(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Take a job out that ends, leaves or stands still; who waits gets its GPUs."""
        if run.allocation.sharing is not _SLICED:
            return
        nodes = self._nodes(job_id, run)
        if not nodes:
            return
        if self._memory is not None:
            self._memory.forget(job_id)
        self._gangs.leave(job_id)
        for node in nodes:
            server = self._servers[node]
            heir = server.rotation.leave(job_id, now_us)
            if heir is not None:
                server.inherit(job_id, heir)
            if not server.rotation.members:
                del self._servers[node]
        self._settle_all(nodes, now_us)

    def rehomed(self, job_id: JobId, where: Allocation, now_us: int) -> bool:
        """Let a job have other GPUs of its own; say whether it takes turns."""
        run = self._work.runs.get(job_id)
        if run is None or run.allocation.sharing is not _SLICED:
            return False
        (share,) = where.shares
        if self._nodes(job_id, run):
            server = self._servers[share.node]
            server.rotation.rehome(job_id, share.gpu_mask)
            self._settle_all([share.node], now_us)
        elif run.is_stopped:
            run.allocation = where  # it takes turns there once it has started, or goes on
        return True

    def weighed(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let a job have another part of the turns, that of its task, from now on."""
        if run.allocation.sharing is _SLICED:
            nodes = self._nodes(job_id, run)
            for node in nodes:
                self._servers[node].rotation.weigh(job_id, run.task.weight, now_us)
            for node in self._gangs.retimed(self._servers, nodes):
                self._settle(node, self._servers[node], now_us)

    def packed(self, job_id: JobId, run: Run, beside: tuple[JobId, ...], now_us: int) -> None:
        """Let a job have its turns together with others, or with nobody any more."""
        node = run.allocation.shares[0].node
        server = self._servers.get(node)
        if server is None:
            return
        if beside:
            server.packing += [(job_id, other) for other in beside]
        else:
            self._part(node, server, job_id, now_us)
        self._settle_all([node], now_us)

    def stopped(self, job_id: JobId, run: Run, now_us: int) -> bool:
        """Take a job out that is to stand still; say whether it took turns.

        If it is its turn, that ends.
        """
        if run.allocation.sharing is not _SLICED or not self._nodes(job_id, run):
            return False
        on = self._gangs.nodes(job_id) if run.allocation.is_spread else self._nodes(job_id, run)
        for node in on if run.allocation.is_spread or not run.is_stopped else ():
            self._end(node, [job_id], now_us)
        self.left(job_id, run, now_us)
        return True

    def continued(self, job_id: JobId, run: Run, now_us: int) -> bool:
        """Let a job take turns again that stood still; say whether it did."""
        if self._nodes(job_id, run):
            return False
        self._world.enter(now_us, job_id, Ready(run.attempt))
        return True

    def _nodes(self, job_id: JobId, run: Run) -> list[NodeName]:
        """Return the servers on which a job takes turns."""
        there = [(share.node, self._servers.get(share.node)) for share in run.allocation.shares]
        return [
            node for node, server in there if server is not None and server.rotation.has(job_id)
        ]

    def lost(self, node: NodeName) -> None:
        """Forget the rotation of a server that died."""
        self._servers.pop(node, None)

    def due(self, what: TurnDue, now_us: int) -> None:
        """Do what was foreseen of a server."""
        server = self._servers.get(what.node)
        if server is None or server.step != what.step:
            return
        if server.leaving is not None:
            self._change_hands(what.node, server, server.leaving, now_us)
        elif server.coming is not None:
            coming, server.coming = server.coming, None
            self._pack_all(server, now_us)  # while those that come have not begun
            self._begin(what.node, server.jobs(coming), now_us)
            self._settle(what.node, server, now_us)
        else:
            self._end_quantum(what.node, server, now_us)

    def _end_quantum(self, node: NodeName, server: ServerTurns, now_us: int) -> None:
        """Choose who has the next turn; wait until who has none of it is at a boundary."""
        turns = server.rotation.next_turns(now_us)
        leaving = [
            JobId(name)
            for member in server.rotation.members.values()
            if member.mask and turns.get(member.name, 0) != member.mask
            for name in member.names
        ]
        if not leaving:  # a gang whose turn comes gets GPUs that were idle as all do, and begins
            stays = {each.name: each.mask for each in server.rotation.members.values()}
            server.rotation.switch(stays, now_us)
            self._settle(node, server, now_us)
            return
        server.leaving = turns
        self._foresee(node, server, max(self._boundary_us(job_id, now_us) for job_id in leaving))

    def _change_hands(
        self, node: NodeName, server: ServerTurns, turns: dict[str, int], now_us: int
    ) -> None:
        """End the turns that are over, and begin the others once hands are changed."""
        before = {member.name: member.mask for member in server.rotation.members.values()}
        server.leaving = None
        leaving = server.jobs(
            {name: mask for name, mask in before.items() if mask and turns.get(name, 0) != mask}
        )
        self._end(node, leaving, now_us)
        coming = {name: mask for name, mask in turns.items() if before.get(name, mask) != mask}
        switch_us = self._switch_us(leaving, server.jobs(coming))
        server.rotation.switch(turns, now_us, switch_us)
        self._begin_later(node, server, coming, now_us, switch_us)
        self._settle(node, server, now_us)

    def _begin_later(
        self,
        node: NodeName,
        server: ServerTurns,
        turns: dict[str, int],
        now_us: int,
        switch_us: int,
    ) -> bool:
        """Begin turns once hands are changed; say whether that is later."""
        if not turns or not switch_us:
            self._begin(node, server.jobs(turns), now_us)
            return False
        server.coming = turns
        self._foresee(node, server, now_us + switch_us)
        return True

    def _switch_us(self, leaving: Mapping[JobId, int], coming: Mapping[JobId, int]) -> int:
        """Return what a change of hands takes, by masks of GPUs."""
        copied_us = 0 if self._memory is None else self._memory.change_us(leaving, coming)
        return self._slicing.switch_us + copied_us

    def _had_a_turn(self, name: str) -> bool:
        run = self._work.runs.get(JobId(name))
        return run is not None and run.stops > 1

    def _settle_all(self, nodes: Sequence[NodeName], now_us: int) -> None:
        """Do so where somebody comes or goes, and where that changes timetables."""
        for node in dict.fromkeys([*nodes, *self._gangs.retimed(self._servers, nodes)]):
            server = self._servers.get(node)
            if server is not None:
                self._settle(node, server, now_us)

    def _settle(self, node: NodeName, server: ServerTurns, now_us: int) -> None:
        """Give away what is free, and foresee the end of the quantum."""
        if server.is_changing:
            return
        self._pack_all(server, now_us)
        begun = server.rotation.fill(now_us)
        first = {each.name: each.mask for each in begun if not self._had_a_turn(each.name)}
        self._begin(node, server.jobs(first), now_us)
        again = {each.name: each.mask for each in begun if each.name not in first}
        switch_us = self._switch_us({}, server.jobs(again))
        if self._begin_later(node, server, again, now_us, switch_us):
            return
        due_us = [server.rotation.ends_us, server.rotation.calls_us(now_us)]
        if server.rotation.is_called(now_us) and server.called_us != now_us:
            server.called_us = now_us
            due_us.append(now_us)
        next_us = min([at_us for at_us in due_us if at_us is not None], default=None)
        if next_us is not None:
            self._foresee(node, server, max(next_us, now_us))

    def _foresee(self, node: NodeName, server: ServerTurns, at_us: int) -> None:
        server.step += 1
        self._world.enter(at_us, JobId(""), TurnDue(node, server.step), AFTER_ALL + 1)

    def _begin(self, node: NodeName, begun: Mapping[JobId, int], now_us: int) -> None:
        """Begin the turns of some jobs, all at once, on GPUs by mask."""
        begun = {
            job_id: mask for job_id, mask in begun.items() if self._goes_on(job_id, node, now_us)
        }
        for job_id, mask in begun.items():
            run = self._work.runs[job_id]
            if run.allocation.is_spread:
                self._work.go_on(job_id, now_us, run.allocation)
                continue
            (home,) = run.allocation.shares
            share = Share(node, mask, home.cpus_milli, home.memory_mb)
            self._work.go_on(job_id, now_us, Allocation((share,), _SLICED))
        for job_id in begun:
            if self._work.partners(job_id, self._work.runs[job_id].allocation):
                self._work.paced_anew(job_id, now_us)
        for job_id in begun:
            run = self._work.runs[job_id]
            shares, moves = self._told_of(run, node), job_id in self._slicing.moving
            speed = run.step_rate.speed
            started = TurnStarted(now_us, job_id, run.attempt, shares, speed, can_move=moves)
            self._world.enter(now_us, job_id, started, AFTER_ALL)
            self._world.changed_hands(job_id, run, now_us)
            self._world.works_again(job_id, self._work.runs[job_id], now_us)

    def _goes_on(self, job_id: JobId, node: NodeName, now_us: int) -> bool:
        """Say whether a job works with its turn; tell it of a gang that does not."""
        run = self._work.runs[job_id]
        if not run.allocation.is_spread or self._gangs.begin(job_id, node, run):
            return True
        part = TurnStarted(now_us, job_id, run.attempt, self._told_of(run, node))
        self._world.enter(now_us, job_id, part, AFTER_ALL)
        return False

    @staticmethod
    def _told_of(run: Run, node: NodeName) -> tuple[Share, ...]:
        """Return what a server tells of a turn: its own part."""
        return tuple([share for share in run.allocation.shares if share.node == node])

    def _end(self, node: NodeName, jobs: Iterable[JobId], now_us: int) -> None:
        """End the turns of some jobs on a server, all at once."""
        ended = {}
        for job_id in jobs:
            run = self._work.runs[job_id]
            nodes = (node,) if run.allocation.is_spread else ()
            if not nodes or self._gangs.end(job_id, node, run):
                ended[job_id] = run
            what = TurnEnded(now_us, job_id, run.attempt, nodes=nodes)
            self._world.enter(now_us, job_id, what, BEFORE_ALL)
        for job_id, run in ended.items():
            if self._memory is not None:
                batch_us, most_us = self._batch_us(job_id, run), self._slicing.boundary_most_us
                is_in_time = most_us is None or batch_us is None or batch_us <= most_us
                is_at_boundary = self._slicing.at_boundary and is_in_time
                since_us = 0 if is_at_boundary else now_us - run.works_from_us
                self._memory.leaves(job_id, run.task.spec.model, since_us, batch_us)
            self._work.stop(job_id, now_us)
        for job_id, run in ended.items():
            self._world.changed_hands(job_id, run, now_us)

    def _pack_all(self, server: ServerTurns, now_us: int) -> None:
        while server.packing:
            self._pack(server, *server.packing.pop(0), now_us)

    def _pack(self, server: ServerTurns, job_id: JobId, beside: JobId, now_us: int) -> None:
        """Let a job go to the GPUs of another, if both still take turns."""
        rotation = server.rotation
        one, other = rotation.members.get(job_id), rotation.members.get(beside)
        if one is None or other is None:
            return
        if one.mask and not other.mask:
            one, other = other, one
        node = self._work.runs[job_id].allocation.shares[0].node
        joining = [JobId(name) for name in one.names]
        runs = self._work.runs
        if not runs[joining[0]].is_stopped:
            self._end(node, joining, now_us)
        rotation.pack(one.name, other.name, now_us)
        if not runs[JobId(other.name)].is_stopped:
            self._begin(node, dict.fromkeys(joining, other.mask), now_us)

    def _part(self, node: NodeName, server: ServerTurns, job_id: JobId, now_us: int) -> None:
        """Let all have turns of their own again that a job is packed with."""
        server.packing = [each for each in server.packing if job_id not in each]
        for member in list(server.rotation.members.values()):
            parting = [JobId(each.name) for each in member.packed]
            if job_id in member.names and parting:
                is_on = not self._work.runs[parting[0]].is_stopped
                self._end(node, parting if is_on else (), now_us)
                for name in parting:
                    server.rotation.part(name, now_us)

    def _boundary_us(self, job_id: JobId, now_us: int) -> int:
        """Return the next mini-batch boundary of a job, or the end of its work."""
        run = self._work.runs[job_id]
        batch_us = self._batch_us(job_id, run) if self._slicing.at_boundary else None
        boundary_us = now_us
        if batch_us is not None and not run.is_stopped:
            done = -(-(now_us - run.works_from_us) // batch_us)
            boundary_us = run.works_from_us + done * batch_us
            if self._slicing.boundary_most_us is not None:
                boundary_us = min(boundary_us, now_us + self._slicing.boundary_most_us)
        return boundary_us if run.end_us is None else max(now_us, min(boundary_us, run.end_us))

    def _batch_us(self, job_id: JobId, run: Run) -> int | None:
        batch_s = self._work.batch_s(job_id, run)
        return None if batch_s is None else max(1, round(batch_s * 1e6))
