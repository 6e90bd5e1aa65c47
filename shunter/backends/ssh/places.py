"""Where attempts have run: what their hosts remember, found at the start and noted since.

A job's newest checkpoints lie where its last attempt ran, its output where each one did, and what
runs somewhere though nobody watches it must be found to be ended.
"""

from collections.abc import Mapping
from typing import Any

from shunter.backends.ssh.connecting import UnreachedError
from shunter.backends.ssh.link import Link
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName

__all__ = ["Places"]

Record = dict[str, Any]


class Places:
    """The hosts of each attempt, in order of rank."""

    def __init__(self, links: Mapping[NodeName, Link]) -> None:
        self._links = links
        self._places: dict[JobId, dict[int, tuple[NodeName, ...]]] = {}
        self._found: dict[NodeName, list[Record]] = {}
        self._written_off: set[tuple[JobId, int, NodeName]] = set()

    def note(self, job_id: JobId, attempt: int, nodes: tuple[NodeName, ...]) -> None:
        """Note where an attempt runs."""
        self._places.setdefault(job_id, {})[attempt] = nodes

    def of(self, job_id: JobId, attempt: int) -> tuple[NodeName, ...]:
        """Return the hosts of an attempt; none if nobody knows of it."""
        return self._places.get(job_id, {}).get(attempt, ())

    def before(self, job_id: JobId, attempt: int) -> list[tuple[NodeName, ...]]:
        """Return the hosts of earlier attempts, the newest first."""
        known = self._places.get(job_id, {})
        return [known[number] for number in sorted(known, reverse=True) if number < attempt]

    def up_to(self, job_id: JobId, attempt: int) -> list[NodeName]:
        """Return all hosts on which attempts up to one have run."""
        known = self._places.get(job_id, {})
        nodes = [node for number in sorted(known) if number <= attempt for node in known[number]]
        return list(dict.fromkeys(nodes))

    async def of_rank(self, job_id: JobId, attempt: int, rank: int) -> NodeName | None:
        """Return where a rank of an attempt ran, of a job that ended long ago too.

        None if no host knows of it.

        Raises:
            BackendError: a host that may know does not answer.
        """
        if not self.of(job_id, attempt):
            silent = []
            for node, link in self._links.items():
                if link.is_up:
                    self._note_all(node, (await link.ask("inventory", jobs=[job_id]))["attempts"])
                else:
                    silent.append(link.cause)
            if silent and not self.of(job_id, attempt):
                raise BackendError(silent[0], retryable=True)
        nodes = self.of(job_id, attempt)
        return nodes[rank] if rank < len(nodes) else None

    def write_off(self, job_id: JobId, attempt: int, node: NodeName) -> None:
        """Note that an attempt counts as lost with its host, whatever is found later."""
        self._written_off.add((job_id, attempt, node))

    async def survey(self) -> None:
        """Ask every host that answers what it knows."""
        for node, link in self._links.items():
            if link.is_up:
                try:
                    self._found[node] = (await link.ask("inventory"))["attempts"]
                except UnreachedError:
                    continue
                self._note_all(node, self._found[node])

    async def resurvey(self, link: Link) -> None:
        """End what runs on a host that came back and has been given up."""
        node = link.host.name
        for key in sorted(self._written_off):
            if key[2] == node:
                try:
                    await link.ask("fence", job=key[0], attempt=key[1])
                except BackendError:
                    return
                self._written_off.discard(key)

    async def inventory(self) -> list[Record]:
        """Return what all hosts know, one record an attempt."""
        await self.survey()
        found: dict[tuple[str, int], dict[NodeName, Record]] = {}
        for node, records in self._found.items():
            for record in records:
                found.setdefault((record["job"], record["attempt"]), {})[node] = record
        return [
            {"job": job, "attempt": attempt, "state": self._state(JobId(job), attempt, parts)}
            | _records(parts)
            for (job, attempt), parts in sorted(found.items())
        ]

    def _state(self, job_id: JobId, attempt: int, parts: Mapping[NodeName, Record]) -> str:
        nodes = self.of(job_id, attempt) or tuple(parts)
        if any(not self._links[node].is_up for node in nodes if node in self._links):
            return "running"
        states = [parts[node]["state"] if node in parts else "absent" for node in nodes]
        order = ("running", "starting", "absent", "lost", "ended")
        return min(states, key=order.index)

    def _note_all(self, node: NodeName, records: list[Record]) -> None:
        for record in records:
            started = record["started"]
            nodes = [name for name, _ in started["placement"]] if started else [node]
            if started or not self.of(record["job"], record["attempt"]):
                self.note(record["job"], record["attempt"], tuple(nodes))


def _records(parts: Mapping[NodeName, Record]) -> Record:
    first = next(iter(parts.values()))
    return {name: first[name] for name in ("folder", "started", "status")}
