"""Rounds as the public simulator counts them: in float seconds, until the last gang is done.

Every operation on floats is done in its order, because priorities of equal jobs differ by their
rounding only, and that decides who goes first. What is odd is the simulator's: a gang's time in a
round counts from the end of the last round in which anybody ran, so idle time is booked as well; a
round in which a worker of a gang would have no step to do is a failure, and five of them in a row
drop the job; jobs that end early are gone only when the round is over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shunter.core import steps_in
from shunter.core.speeds import ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, Gang, JobRequest
from shunter_peers.gavel.ledger import Ledger
from shunter_peers.gavel.mersenne_twister import MersenneTwister
from shunter_peers.gavel.played_jobs import Jobs, PeerJob
from shunter_peers.gavel.seating import Seat, seat
from shunter_peers.gavel.selection import select

ROUND_US: Final = 360_000_000
FAILURES_MOST: Final = 5
FASTEST_FIRST: Final = (GpuType("v100"), GpuType("p100"), GpuType("k80"))


@dataclass(slots=True)
class RoundRun:
    """What a gang does in the current round."""

    gang: Gang
    seat: Seat
    steps: tuple[int, ...]
    finish_s: float


@dataclass(slots=True)
class PeerRounds:
    """The simulator between two rounds, and the stints of the current one.

    `numbers` are the GPUs of each type in the order in which they are taken. `shuffler` is None
    where the fastest type is always filled first. `ended_s` tells when each job of the last round
    ended; None: it was dropped.
    """

    numbers: dict[GpuType, tuple[int, ...]]
    ledger: Ledger
    shuffler: MersenneTwister | None = None
    pairs_too: bool = False
    needs_claim: bool = False
    now_s: float = 0.0
    began_s: float = 0.0
    over_s: float = 0.0
    jobs: Jobs = field(default_factory=Jobs)
    runs: list[RoundRun] = field(default_factory=list)
    seats: dict[Gang, Seat] = field(default_factory=dict)
    ended_s: dict[JobId, float | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        numbers: Mapping[GpuType, Sequence[int]],
        shuffler: MersenneTwister | None = None,
        *,
        pairs_too: bool = False,
        needs_claim: bool = False,
    ) -> "PeerRounds":
        """Return an empty simulator of these GPUs."""
        gpus = {name: tuple(numbers[name]) for name in numbers}
        return cls(gpus, Ledger(list(gpus)), shuffler, pairs_too, needs_claim)

    def arrive(self, job: PeerJob, table: ThroughputTable) -> None:
        """Let a job be known from the next plan on."""
        if job.deadline_s is not None:
            job.deadline_s += self.now_s - job.arrival_s
        for gang in self.jobs.add(job, table, self.numbers, pairs_too=self.pairs_too):
            self.ledger.add(gang)

    def leave(self, job_id: JobId) -> None:
        """Forget a job."""
        self.jobs.remove(job_id)
        self.ledger.remove(job_id)

    def finish(self) -> None:
        """End the current round: credit everybody, let those go who are done."""
        self.ended_s.clear()
        if not self.runs:
            return
        self.began_s = self.over_s
        self.over_s = self.now_s = max(run.finish_s for run in self.runs)
        known = self.jobs.known
        order = {run.gang: tuple(known[job_id].ordinal for job_id in run.gang) for run in self.runs}
        runs, self.runs = self.runs, []
        for run in sorted(runs, key=lambda s: (-s.finish_s, len(s.gang), order[s.gang])):
            self._complete(run)

    def demands(self, table: ThroughputTable) -> Demands:
        """Return what an objective is to divide."""
        requests = [
            JobRequest(
                job.job_id,
                job.kind,
                job.left,
                self.now_s - job.arrival_s,
                job.weight,
                None if job.deadline_s is None else job.deadline_s - self.now_s,
            )
            for job in self.jobs.known.values()
        ]
        room = {name: len(gpus) for name, gpus in self.numbers.items()}
        return Demands(tuple(requests), room, table)

    def plan(self) -> dict[Gang, Seat]:
        """Choose and seat the gangs of the next round, and begin it."""
        order = [name for name in FASTEST_FIRST if name in self.numbers]
        if self.shuffler is not None:
            self.shuffler.shuffle(order)
        room = {name: len(gpus) for name, gpus in self.numbers.items()}
        chosen = select(self.ledger, self.jobs, order, room, needs_claim=self.needs_claim)
        planned = self.ledger.fractions
        self.seats = seat(chosen, self.jobs, self.numbers, self.seats, planned)
        self.runs = [self._begin(gang, where) for gang, where in self.seats.items()]
        return self.seats

    def _begin(self, gang: Gang, where: Seat) -> RoundRun:
        rates, known = self.jobs.rates[gang][where.gpu_type], self.jobs.known
        steps = tuple(
            min(steps_in(ROUND_US, rate), known[job_id].left)
            for job_id, rate in zip(gang, rates, strict=True)
        )
        lasts_s = max(many / rate for many, rate in zip(steps, rates, strict=True))
        return RoundRun(gang, where, steps, self.now_s + lasts_s)

    def _complete(self, run: RoundRun) -> None:
        gang, workers = run.gang, len(run.seat.gpus)
        time_s = run.finish_s - self.began_s
        # Each worker does the same number of steps, the last one the rest as well.
        if time_s <= 0 or any(many // workers <= 0 for many in run.steps):
            self._fail(gang)
            return
        self.ledger.credit(gang, run.seat.gpu_type, time_s)
        for job_id, many in zip(gang, run.steps, strict=True):
            job = self.jobs.known[job_id]
            job.left -= many
            job.failures = 0
            if job.left <= 0:
                self.ended_s[job_id] = run.finish_s
                self.leave(job_id)

    def _fail(self, gang: Gang) -> None:
        self.ledger.is_dirty = True
        for job_id in gang:
            job = self.jobs.known[job_id]
            job.failures += 1
            if job.failures >= FAILURES_MOST:
                self.ended_s[job_id] = None
                self.leave(job_id)
