"""The servers within a round: what is free on each, and the walk that takes it.

A job holds the same part of its demand with each of its GPUs, on whatever servers they are. GPUs of
a server are alike, so servers count them. Two floats are compared with a tolerance, because parts
such as 24/7 are not exact; the simulator compares them as they are (C8), which is tolerance 0.
"""

from dataclasses import dataclass, field

from shunter_peers.synergy.jobs import PlayedJob, Server

Parts = list[tuple[int, int]]
"""Servers by number, each with the GPUs taken there; no server stands there twice."""


@dataclass(slots=True)
class Placed:
    """A job with what it holds in this round, for each GPU, and its progress."""

    job: PlayedJob
    cpus: float
    memory_gb: float
    speedup: float
    parts: Parts

    def gpus_on(self, server: int) -> int:
        """Return how many GPUs it has on a server."""
        return sum([gpus for number, gpus in self.parts if number == server])


@dataclass(slots=True)
class Servers:
    """What is free on each server, and who was placed there in this round, in order."""

    gpus: list[int]
    cpus: list[float]
    memory_gb: list[float]
    tolerance: float
    is_packed: bool
    free: int
    tenants: list[list[Placed]] = field(default_factory=list)

    @classmethod
    def empty(cls, count: int, each: Server, tolerance: float, *, is_packed: bool) -> "Servers":
        """Return so many servers without jobs; `is_packed` is the simulator's `place`."""
        return cls(
            [each.gpus] * count,
            [each.cpus] * count,
            [each.memory_gb] * count,
            tolerance,
            is_packed,
            count * each.gpus,
            [[] for _ in range(count)],
        )

    def take(self, gpus: int, cpus: float, memory_gb: float) -> Parts | None:
        """Take GPUs, each with so much beside it; None: they do not fit."""
        if self.is_packed:
            return self._taken_packed(gpus, cpus, memory_gb)
        need_cpus, need_gb = cpus - self.tolerance, memory_gb - self.tolerance
        free, free_cpus, free_gb = self.gpus, self.cpus, self.memory_gb
        if gpus == 1:
            for number, count in enumerate(free):
                if count and free_cpus[number] >= need_cpus and free_gb[number] >= need_gb:
                    self.put([(number, 1)], cpus, memory_gb)
                    return [(number, 1)]
            return None
        parts: Parts = []
        for number in range(len(free)):
            taken = self._fitting(number, gpus, cpus, memory_gb)
            if taken:
                parts.append((number, taken))
                gpus -= taken
                if not gpus:
                    self.put(parts, cpus, memory_gb)
                    return parts
        return None

    def put(self, parts: Parts, cpus: float, memory_gb: float) -> None:
        """Take GPUs on these servers, each with so much beside it."""
        for number, gpus in parts:
            for _ in range(gpus):
                self.cpus[number] -= cpus
                self.memory_gb[number] -= memory_gb
            self.gpus[number] -= gpus
            self.free -= gpus

    def give(self, parts: Parts, cpus: float, memory_gb: float) -> None:
        """Give GPUs back, and what was taken with each."""
        for number, gpus in parts:
            for _ in range(gpus):
                self.cpus[number] += cpus
                self.memory_gb[number] += memory_gb
            self.gpus[number] += gpus
            self.free += gpus

    def seat(self, placed: Placed) -> None:
        """Note where a job is."""
        for number, _ in placed.parts:
            self.tenants[number].append(placed)

    def roomiest(self, gpus: int) -> Parts:
        """Choose GPUs whatever CPU and memory there is beside them (C9).

        For several the first server that has as many; otherwise those with the fewest free GPUs.
        """
        free = self.gpus
        if gpus > 1:
            for number, count in enumerate(free):
                if count >= gpus:
                    return [(number, gpus)]
        parts: Parts = []
        for count, number in sorted((count, number) for number, count in enumerate(free) if count):
            taken = min(gpus, count)
            parts.append((number, taken))
            gpus -= taken
            if not gpus:
                break
        return parts

    def _fitting(self, number: int, most: int, cpus: float, memory_gb: float) -> int:
        """Return how many GPUs of a server can be had, one after the other."""
        free_cpus, free_gb = self.cpus[number], self.memory_gb[number]
        need_cpus, need_gb = cpus - self.tolerance, memory_gb - self.tolerance
        taken, most = 0, min(most, self.gpus[number])
        while taken < most and free_cpus >= need_cpus and free_gb >= need_gb:
            free_cpus -= cpus
            free_gb -= memory_gb
            taken += 1
        return taken

    def _taken_packed(self, gpus: int, cpus: float, memory_gb: float) -> Parts | None:
        """Take GPUs of the fullest server with room for all, or one by one (C18)."""
        if gpus > 1:
            rooms = [
                (self.gpus[number], number)
                for number in range(len(self.gpus))
                if self.gpus[number] >= gpus and self._has(number, cpus * gpus, memory_gb * gpus)
            ]
            if rooms:
                parts = [(min(rooms)[1], gpus)]
                self.put(parts, cpus, memory_gb)
                return parts
        taken: dict[int, int] = {}
        dropped = [not count for count in self.gpus]
        left = gpus
        while left:
            rooms = [(self.gpus[n], n) for n, is_out in enumerate(dropped) if not is_out]
            if not rooms:
                self.give(list(taken.items()), cpus, memory_gb)
                return None
            number = min(rooms)[1]
            if not self._has(number, cpus, memory_gb):
                dropped[number] = True
                continue
            self.put([(number, 1)], cpus, memory_gb)
            taken[number] = taken.get(number, 0) + 1
            dropped[number] = not self.gpus[number]
            left -= 1
        return list(taken.items())

    def _has(self, number: int, cpus: float, memory_gb: float) -> bool:
        """Say whether a server has so much CPU and memory free."""
        tolerance = self.tolerance
        return (
            self.cpus[number] >= cpus - tolerance
            and self.memory_gb[number] >= memory_gb - tolerance
        )
