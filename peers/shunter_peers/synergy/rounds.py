"""Rounds of 300 s as the public Synergy simulator plays them: sort, reset, allocate, credit.

All iterations of a lease are credited as it is given, the rest of the round is lost, and a job that
has done its last one ends with the round. A round without a job is the last one: who arrives later
is never looked at (section 5.1 of the description, its fault 6, points C3, C7, C13 and C15).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Final

from shunter.events import JobId
from shunter_peers.synergy.jobs import PlayedJob, Server
from shunter_peers.synergy.mechanisms import (
    Counts,
    Mechanism,
    place_fairly,
    place_greedily,
    place_tuned,
)
from shunter_peers.synergy.optimum import Solver, place_optimally
from shunter_peers.synergy.orders import Order, ordered
from shunter_peers.synergy.servers import Placed, Servers

ROUND_S: Final = 300
STARVED_S: Final = 1000 * 3600
STATIC_START_S: Final = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """What is played, how GPUs are picked, and how floats are compared."""

    order: Order = "fifo"
    mechanism: Mechanism = "tune"
    is_packed: bool = False
    tolerance: float = 1e-9
    solver: Solver = "highs"


@dataclass(frozen=True, slots=True)
class Seat:
    """What a job has in a round: cores and GB with each GPU, and its speed.

    `parts` are its GPUs by server; without them they are anywhere.
    """

    gpus: int
    cpus: float
    memory_gb: float
    speedup: float
    parts: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Rounds:
    """The simulator at the end of a round.

    `jobs` are in the order of the last round, then those that came since, as they came.
    The next one is played at `next_s`; None: no job has come yet, or all is over. `ending` are the
    jobs that end then, `seats` what each job has had since the last one. `over_s` is when it was
    over.
    """

    count: int
    server: Server
    jobs: dict[JobId, PlayedJob] = field(default_factory=dict)
    next_s: int | None = None
    over_s: int | None = None
    seats: dict[JobId, Seat] = field(default_factory=dict)
    ending: list[JobId] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return self.count * self.server.gpus

    def arrive(self, job: PlayedJob) -> None:
        """Let a job, no wider than the cluster, be tried from the next round on."""
        self.jobs[job.job_id] = job
        if self.next_s is None and self.over_s is None:
            self.next_s = first_round_s(job.arrival_s)

    def leave(self, job_id: JobId) -> None:
        """Forget a job that has ended otherwise."""
        self.jobs.pop(job_id, None)
        self.seats.pop(job_id, None)
        if job_id in self.ending:
            self.ending.remove(job_id)

    def play(self, rules: Rules) -> None:
        """Play the round that is due: those end that are done, and leases are given anew.

        Raises:
            PlanError: the simulator would have exited.
        """
        now_s = self.next_s
        assert now_s is not None, "a round is played when it is due"
        for job_id in self.ending:
            del self.jobs[job_id]
        self.counts.rounds += 1
        self.seats, self.ending = {}, []
        if not self.jobs:
            self.next_s, self.over_s = None, now_s
            return
        self.next_s = now_s + ROUND_S
        for placed in self._placed(rules, now_s):
            self._credit(placed, is_fair=rules.mechanism == "proportional")
        if rules.order != "fifo":
            for job in self.jobs.values():
                if now_s - job.idle_since_s > STARVED_S and job.job_id not in self.seats:
                    job.is_urgent = True

    def _placed(self, rules: Rules, now_s: int) -> list[Placed]:
        """Sort, reset speedups, and allocate."""
        server, count = self.server, self.count
        totals = self.gpus, count * server.cpus, count * server.memory_gb
        is_fair = rules.mechanism == "proportional"
        jobs = ordered(self.jobs.values(), rules.order, now_s, totals, is_fair=is_fair)
        self.jobs = {job.job_id: job for job in jobs}  # sorted in place: ties stay as they are now
        for job in jobs:
            job.speedup = job.best_speedup
        if rules.order == "las" or rules.mechanism == "opt":
            jobs = _selected(jobs, totals[0])
        if rules.mechanism == "opt":
            return place_optimally(jobs, totals, server, rules.solver)
        servers = Servers.empty(count, server, rules.tolerance, is_packed=rules.is_packed)
        if is_fair:
            return place_fairly(jobs, servers)
        if rules.mechanism == "greedy":
            return place_greedily(jobs, servers)
        if rules.order == "las":
            jobs.sort(key=lambda job: -job.gpus)
        return place_tuned(jobs, servers, self.counts)

    def _credit(self, placed: Placed, *, is_fair: bool) -> None:
        """Count the iterations of a lease, and give it."""
        job = placed.job
        step_s = job.iter_s if is_fair else job.iter_s / placed.speedup
        job.left -= min(job.left, floor(ROUND_S / step_s))
        job.attained_s += ROUND_S
        assert self.next_s is not None, "a lease has an end"
        job.idle_since_s = self.next_s
        job_id = job.job_id
        self.seats[job_id] = Seat(
            job.gpus, placed.cpus, placed.memory_gb, placed.speedup, tuple(placed.parts)
        )
        if not job.left:
            self.ending.append(job_id)


def first_round_s(arrival_s: float) -> int:
    """Return when the first round is played, by the first arrival."""
    return ceil(arrival_s / ROUND_S) * ROUND_S or STATIC_START_S


def _selected(jobs: Sequence[PlayedJob], gpus: int) -> list[PlayedJob]:
    """Return the jobs for which GPUs are left, in order (C1)."""
    found: list[PlayedJob] = []
    for job in jobs:
        if job.gpus <= gpus:
            gpus -= job.gpus
            found.append(job)
    return found
