"""Gangs over several servers that take turns: which of these have given them theirs."""

from collections.abc import Iterable, Mapping

from shunter.backends.simulated.turning.server_turns import ServerTurns
from shunter.backends.simulated.work import Run
from shunter.backends.timetables import timetables
from shunter.core.performance.gang_slots import Tenant
from shunter.events.values.allocation import Share
from shunter.events.values.ids import JobId, NodeName


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
