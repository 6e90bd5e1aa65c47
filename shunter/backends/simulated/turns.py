"""Jobs that take turns on the GPUs of a server: who has them when, on the virtual clock.

The rule is that of live servers (`backends/node/rotation.py`). At the end of a quantum those whose
turn is over work on to their next mini-batch boundary, the last of them says when all GPUs change
hands. That takes `switch_us` and what copying memory takes, in which nobody works on what changes.
A gang gets and leaves all its GPUs at once. GPUs of a job that ends or leaves go to who waits at
that instant.
"""

from typing import Any, Final, Protocol

from shunter.backends.node.rotation import Member, Rotation
from shunter.backends.simulated.memory_moves import MemoryMoves
from shunter.backends.simulated.work import Run, Work
from shunter.core.performance.model_factors import FactorTable
from shunter.events.facts.execution import TurnEnded, TurnStarted
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.fact import fact
from shunter.events.values.ids import JobId, NodeName

__all__ = ["NO_SLICING", "Ready", "Slicing", "TurnDue", "Turns"]

_SLICED = Sharing.sliced
BEFORE_ALL, AFTER_ALL = -1, 1 << 62
"""Places within an instant, before and behind those of all jobs."""


@fact
class Slicing:
    """How jobs take turns, in microseconds.

    `quantum_us` is the length of a turn while others wait, `switch_us` that of a change of hands,
    and after `wait_most_us` without a turn a job goes first (None: never for that alone). Memory of
    GPUs is copied at `copy_mb_s` (None: in no time). Turns end at mini-batch boundaries, or without
    `at_boundary` wherever a job is.
    """

    quantum_us: int = 60_000_000
    switch_us: int = 0
    wait_most_us: int | None = None
    copy_mb_s: float | None = None
    at_boundary: bool = True


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


class ServerTurns:
    """The rotation of a server, and what is foreseen there.

    `leaving` are the turns of the next quantum while boundaries of this one are awaited; `coming`
    those that begin once hands are changed.
    """

    __slots__ = ("coming", "leaving", "rotation", "step")

    def __init__(self, rotation: Rotation) -> None:
        self.rotation = rotation
        self.step = 0
        self.leaving: dict[str, int] | None = None
        self.coming: dict[str, int] | None = None

    @property
    def is_changing(self) -> bool:
        """Whether GPUs are about to change hands, so that nobody else gets any."""
        return self.leaving is not None or self.coming is not None


class Turns:
    """All rotations of a simulated world."""

    __slots__ = ("_memory", "_servers", "_slicing", "_work", "_world")

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
        (share,) = run.allocation.shares
        server = self._servers.get(share.node)
        if server is None:
            rotation = Rotation(self._slicing.quantum_us, self._slicing.wait_most_us)
            server = self._servers[share.node] = ServerTurns(rotation)
        member = Member(job_id, share.gpu_mask, run.task.weight, is_fixed=False)
        server.rotation.join(member, now_us)
        self._settle(share.node, server, now_us)

    def left(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Take a job out that ends, leaves or stands still; who waits gets its GPUs."""
        if run.allocation.sharing is not _SLICED:
            return
        node = run.allocation.shares[0].node
        if not self._is_member(job_id, run):
            return
        server = self._servers[node]
        if self._memory is not None:
            self._memory.forget(job_id)
        server.rotation.leave(job_id, now_us)
        if server.rotation.members:
            self._settle(node, server, now_us)
        else:
            del self._servers[node]

    def rehomed(self, job_id: JobId, where: Allocation, now_us: int) -> bool:
        """Let a job have other GPUs of its own; say whether it takes turns."""
        run = self._work.runs.get(job_id)
        if run is None or run.allocation.sharing is not _SLICED:
            return False
        (share,) = where.shares
        if self._is_member(job_id, run):
            server = self._servers[share.node]
            server.rotation.rehome(job_id, share.gpu_mask)
            self._settle(share.node, server, now_us)
        elif run.is_stopped:
            run.allocation = where  # it takes turns there once it has started, or goes on
        return True

    def weighed(self, job_id: JobId, run: Run, now_us: int) -> None:
        """Let a job have another part of the turns, that of its task, from now on."""
        if run.allocation.sharing is _SLICED and self._is_member(job_id, run):
            rotation = self._servers[run.allocation.shares[0].node].rotation
            rotation.weigh(job_id, run.task.weight, now_us)

    def stopped(self, job_id: JobId, run: Run, now_us: int) -> bool:
        """Take a job out that is to stand still; say whether it took turns.

        If it is its turn, that ends.
        """
        if run.allocation.sharing is not _SLICED or not self._is_member(job_id, run):
            return False
        if not run.is_stopped:
            self._end(job_id, now_us)
        self.left(job_id, run, now_us)
        return True

    def continued(self, job_id: JobId, run: Run, now_us: int) -> bool:
        """Let a job take turns again that stood still; say whether it did."""
        if self._is_member(job_id, run):
            return False
        self._world.enter(now_us, job_id, Ready(run.attempt))
        return True

    def _is_member(self, job_id: JobId, run: Run) -> bool:
        server = self._servers.get(run.allocation.shares[0].node)
        return server is not None and job_id in server.rotation.members

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
            self._begin(what.node, server, coming, now_us)
            self._settle(what.node, server, now_us)
        else:
            self._end_quantum(what.node, server, now_us)

    def _end_quantum(self, node: NodeName, server: ServerTurns, now_us: int) -> None:
        """Choose who has the next turn; wait until who has none of it is at a boundary."""
        turns = server.rotation.next_turns(now_us)
        leaving = [
            JobId(member.name)
            for member in server.rotation.members.values()
            if member.mask and turns.get(member.name, 0) != member.mask
        ]
        if not leaving:
            server.rotation.switch(turns, now_us)
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
        leaving = {n: mask for n, mask in before.items() if mask and turns.get(n, 0) != mask}
        for name in leaving:
            self._end(JobId(name), now_us)
        coming = {name: mask for name, mask in turns.items() if before.get(name, mask) != mask}
        switch_us = self._switch_us(leaving, coming)
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
            self._begin(node, server, turns, now_us)
            return False
        server.coming = turns
        self._foresee(node, server, now_us + switch_us)
        return True

    def _switch_us(self, leaving: dict[str, int], coming: dict[str, int]) -> int:
        """Return what a change of hands takes, by masks of GPUs."""
        copied_us = 0 if self._memory is None else self._memory.change_us(leaving, coming)
        return self._slicing.switch_us + copied_us

    def _had_a_turn(self, name: str) -> bool:
        run = self._work.runs.get(JobId(name))
        return run is not None and run.stops > 1

    def _settle(self, node: NodeName, server: ServerTurns, now_us: int) -> None:
        """Give away what is free, and foresee the end of the quantum."""
        if server.is_changing:
            return
        begun = server.rotation.fill(now_us)
        first = {each.name: each.mask for each in begun if not self._had_a_turn(each.name)}
        self._begin(node, server, first, now_us)
        again = {each.name: each.mask for each in begun if each.name not in first}
        switch_us = self._switch_us({}, again)
        if self._begin_later(node, server, again, now_us, switch_us):
            return
        ends_us = server.rotation.ends_us
        if ends_us is not None:
            self._foresee(node, server, max(ends_us, now_us))

    def _foresee(self, node: NodeName, server: ServerTurns, at_us: int) -> None:
        server.step += 1
        self._world.enter(at_us, JobId(""), TurnDue(node, server.step), AFTER_ALL + 1)

    def _begin(
        self, node: NodeName, server: ServerTurns, turns: dict[str, int], now_us: int
    ) -> None:
        for name, mask in turns.items():
            job_id = JobId(name)
            if name not in server.rotation.members:
                continue  # it has left while hands were changed
            (home,) = self._work.runs[job_id].allocation.shares
            share = Share(node, mask, home.cpus_milli, home.memory_mb)
            run = self._work.go_on(job_id, now_us, Allocation((share,), _SLICED))
            speed = run.step_rate.speed
            started = TurnStarted(now_us, job_id, run.attempt, (share,), speed)
            self._world.enter(now_us, job_id, started, AFTER_ALL)
            self._world.changed_hands(job_id, run, now_us)
            self._world.works_again(job_id, run, now_us)

    def _end(self, job_id: JobId, now_us: int) -> None:
        run = self._work.runs[job_id]
        if self._memory is not None:
            since_us = 0 if self._slicing.at_boundary else now_us - run.works_from_us
            batch_us = self._batch_us(job_id, run)
            self._memory.leaves(job_id, run.task.spec.model, since_us, batch_us)
        self._work.stop(job_id, now_us)
        self._world.enter(now_us, job_id, TurnEnded(now_us, job_id, run.attempt), BEFORE_ALL)
        self._world.changed_hands(job_id, run, now_us)

    def _boundary_us(self, job_id: JobId, now_us: int) -> int:
        """Return the next mini-batch boundary of a job, or the end of its work."""
        run = self._work.runs[job_id]
        batch_us = self._batch_us(job_id, run) if self._slicing.at_boundary else None
        boundary_us = now_us
        if batch_us is not None:
            done = -(-(now_us - run.works_from_us) // batch_us)
            boundary_us = run.works_from_us + done * batch_us
        return boundary_us if run.end_us is None else max(now_us, min(boundary_us, run.end_us))

    def _batch_us(self, job_id: JobId, run: Run) -> int | None:
        batch_s = self._work.batch_s(job_id, run)
        return None if batch_s is None else max(1, round(batch_s * 1e6))


NO_SLICING: Final = Slicing(0)
