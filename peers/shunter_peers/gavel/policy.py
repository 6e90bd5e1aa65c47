"""The port between Shunter's events and the rounds of the public Gavel simulator.

Jobs that come wait for the end of the round; then the round is played to its end, fractions are
computed if they are due, and the next round is begun. A gang that moves is suspended and started
in one plan, because gangs may change places in a circle. Needs rounds that end with the last gang,
whole steps, a table of throughputs, and servers that stay.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from shunter.core import EMPTY_PLAN, Change, Job, Observers, Pack, Plan, Rng, Start, Suspend, View
from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError, PlanError, extra_hint
from shunter.events import (
    DERIVED,
    Allocation,
    AllocationChanged,
    Because,
    GpuType,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobSubmitted,
    NodeName,
    Share,
    Sharing,
    Target,
    TargetsSet,
)
from shunter.policies import Extra
from shunter.policies.gavel import Fractions, Gang, Targets
from shunter_peers.gavel.mersenne_twister import MersenneTwister
from shunter_peers.gavel.objectives import Allox, CentredFinishTimes, RandomPairs, StaleFifo
from shunter_peers.gavel.played_jobs import PeerJob
from shunter_peers.gavel.policy_table import POLICY_TABLE, PolicyEntry
from shunter_peers.gavel.rounds import PeerRounds, RoundRun
from shunter_peers.gavel.seating import Seat

Solver = Literal["ecos", "centred"]

SECOND_US = 1_000_000
_ENDED = (JobFailed, JobCancelled)


@dataclass(slots=True)
class PeerMemory:
    """The simulator, and what has happened since its round began.

    An objective stands here where it remembers anything. `places` are the server and GPU behind
    each number of the simulator. `gone` are those that left otherwise than by finishing. `vacated`
    says that the last plan took somebody off. `asks` says that fractions are due and not yet there;
    an objective that remembers and solves nothing has its `answer` ready then.
    """

    fifo: StaleFifo | None = None
    allox: Allox | None = None
    finish_times: CentredFinishTimes | None = None
    pairing: RandomPairs | None = None
    rounds: PeerRounds = field(default_factory=lambda: PeerRounds.of({}))
    places: list[tuple[NodeName, int]] = field(default_factory=list)
    queued: list[PeerJob] = field(default_factory=list)
    gone: list[JobId] = field(default_factory=list)
    finished: list[JobId] = field(default_factory=list)
    planned_us: int = 0
    vacated: bool = False
    asks: bool = False
    answer: Fractions = field(default_factory=dict)
    allocations: dict[Gang, tuple[Seat, Allocation]] = field(
        default_factory=dict, compare=False, metadata=DERIVED
    )

    def allocation(self, run: RoundRun) -> Allocation:
        """Return the allocation of a gang; made once as long as it keeps its seat."""
        known = self.allocations.get(run.gang)
        if known is not None and known[0] is run.seat:
            return known[1]
        masks: dict[NodeName, int] = {}
        for number in sorted(run.seat.gpus):
            node, gpu = self.places[number]
            masks[node] = masks.get(node, 0) | 1 << gpu
        sharing = Sharing.packed if len(run.gang) > 1 else Sharing.exclusive
        made = Allocation(tuple(Share(node, mask) for node, mask in masks.items()), sharing)
        if len(self.allocations) > 2 * len(self.places):
            self.allocations.clear()  # most of them have ended
        self.allocations[run.gang] = run.seat, made
        return made


@dataclass(frozen=True)
class PeerRoundsPolicy:
    """Plays one policy of the simulator.

    Its fractions are recorded in full, because the last digits decide who goes first there. From a
    log they are taken as they stand. `solver` is who computes them where they are an optimum.
    """

    name: str
    policy: str
    seed: int = 0
    prices: dict[GpuType, float] = field(default_factory=dict)
    solver: Solver = "ecos"
    table: ThroughputTable | None = None
    version: str = "3"
    oracle: bool = False
    remembers: bool = True

    def knowing(self, table: ThroughputTable) -> "PeerRoundsPolicy":
        """Return the policy with the table it counts steps by."""
        return replace(self, table=table)

    def start(self, view: View) -> PeerMemory:
        """Return the simulator at its beginning, with the jobs that are there."""
        memory, objective = PeerMemory(), self._made()
        if isinstance(objective, StaleFifo):
            memory.fifo = objective
        elif isinstance(objective, Allox):
            memory.allox = objective
        elif isinstance(objective, CentredFinishTimes):
            memory.finish_times = objective
        elif isinstance(objective, RandomPairs):
            memory.pairing = objective
        memory.queued = [_peer_job(job, self._known) for job in view.jobs.values()]
        return memory

    def observers(self, memory: PeerMemory) -> Observers:
        """Note who comes and who goes; the end of the round looks at them."""

        def submitted(event: JobSubmitted, view: View) -> None:
            memory.queued.append(_peer_job(view.jobs[event.job_id], self._known))

        def ended(event: Any, view: View) -> None:
            memory.gone.append(event.job_id)

        def finished(event: JobFinished, view: View) -> None:
            memory.finished.append(event.job_id)

        def changed(event: AllocationChanged, view: View) -> None:
            memory.vacated = memory.vacated or not event.allocation.shares

        def given(event: TargetsSet, view: View) -> None:
            rounds, memory.asks, memory.answer = memory.rounds, False, {}
            rounds.ledger.reset(_fractions(event.targets), rounds.now_s)
            rounds.plan()

        return {
            JobSubmitted: submitted,
            TargetsSet: given,
            AllocationChanged: changed,
            JobFinished: finished,
            **dict.fromkeys(_ENDED, ended),
        }

    def advance(self, memory: PeerMemory, view: View) -> None:
        """Play the round that is over; begin the next if no new fractions are due."""
        memory.asks = False
        if not memory.places:
            self._settle_in(memory, view)
        elif view.now_us == memory.planned_us and (memory.rounds.runs or memory.vacated):
            memory.vacated = False
            return  # everybody has left at once, which ends a round of the backend in between
        memory.planned_us, memory.vacated = view.now_us, False
        rounds, queued = memory.rounds, memory.queued
        if not rounds.runs and queued:
            rounds.now_s = queued[0].arrival_s
        elif not rounds.runs:
            rounds.ledger.forget_reset()  # nobody runs and nobody comes: the world's end
        rounds.finish()
        self._compare_books(memory, view)
        while queued and queued[0].arrival_s <= rounds.now_s:
            rounds.arrive(queued.pop(0), self._known)
        for job_id in memory.gone:
            if job_id in rounds.jobs.known:
                rounds.leave(job_id)
        memory.gone.clear()
        memory.asks = rounds.ledger.is_due(rounds.now_s)
        if memory.asks:
            self._note(memory)
        else:
            rounds.plan()

    def target(self, memory: PeerMemory, view: View) -> tuple[Target, ...] | None:
        """Return new fractions if they are due."""
        if not memory.asks:
            return None
        if self._remembering(memory) is not None:
            return _targets(memory.answer)
        demands, form = memory.rounds.demands(self._known), self._play.form
        if form is not None and self.solver == "ecos":
            from shunter_peers.gavel.conic.answers import answer

            return _targets(answer(form, demands, self.prices, memory.finish_times))
        objective = memory.finish_times or self._made()
        return _targets(objective.fractions(demands))

    def plan(self, memory: PeerMemory, view: View, rng: Rng) -> Plan:
        """Seat everybody as the simulator does."""
        demands: dict[JobId, tuple[Allocation, RoundRun]] = {}
        for run in memory.rounds.runs:
            where = memory.allocation(run)
            for job_id in run.gang:
                demands[job_id] = where, run
        changes = self._changes(memory, view, demands)
        return Plan(tuple(changes)) if changes else EMPTY_PLAN

    def wake_at(self, memory: PeerMemory) -> int | None:
        """The backend's rounds are the only time to decide."""
        return None

    def settled(self, memory: PeerMemory) -> bool:
        """Every round may change everything."""
        return False

    @property
    def extra(self) -> Extra | None:
        """What must be installed for new targets; what is recorded needs nothing."""
        if self._play.form is None or self.solver != "ecos":
            return None
        return Extra(
            "ecos",
            "_ecos",
            extra_hint("ecos", "shunter-peers"),
            "it is for Python up to 3.12 on x86-64, elsewhere pip install ecos compiles it; "
            f"without, policy.params.{self.name}.solver = 'centred' is our own method, which "
            "gives the public code's averages over many jobs nearly, and not its schedules",
        )

    @property
    def _known(self) -> ThroughputTable:
        if self.table is None:
            raise ConfigError(f"policy {self.name} needs a table: set workload.throughputs")
        return self.table

    @property
    def _play(self) -> PolicyEntry:
        return POLICY_TABLE[self.policy]

    def _made(self) -> Targets:
        return self._play.make(self.seed, self.prices)

    def _remembering(self, memory: PeerMemory) -> Targets | None:
        """Return the objective that remembers and solves nothing, if that is the one."""
        return memory.fifo or memory.allox or memory.pairing

    def _compare_books(self, memory: PeerMemory, view: View) -> None:
        """Hold the simulator's ends of the last round against those that were observed.

        Raises:
            PlanError: a job has ended by one book and not by the other.
        """
        rounds = memory.rounds
        for job_id, ended_s in rounds.ended_s.items():
            if ended_s is not None and job_id in view.jobs:
                raise PlanError(
                    f"job {job_id} has done all its steps by the book of {self.name}, and works on "
                    "in the cluster: both must count by the same table and the same whole steps"
                )
        for job_id in memory.finished:
            if job_id in rounds.jobs.known:
                left = rounds.jobs.known[job_id].left
                raise PlanError(
                    f"job {job_id} has finished in the cluster, and has {left} steps left by the "
                    f"book of {self.name}: both must count by the same table and the same whole "
                    "steps"
                )
        memory.finished.clear()

    def _note(self, memory: PeerMemory) -> None:
        """Let objectives remember; those that solve are asked for their answer later."""
        demands = memory.rounds.demands(self._known)
        remembering = self._remembering(memory)
        if remembering is not None:
            memory.answer = remembering.fractions(demands)
        elif memory.finish_times is not None:
            memory.finish_times.note(demands)

    def _changes(
        self, memory: PeerMemory, view: View, demands: dict[JobId, tuple[Allocation, RoundRun]]
    ) -> list[Change]:
        """Return what leads from where jobs are to where they shall be: leavers first."""
        leaving: list[Change] = []
        staying: list[Change] = []
        for job in view.jobs.values():
            here = job.allocation
            if not here.shares:
                continue
            place = demands.get(job.job_id)
            if place is None or (place[0] is not here and place[0].shares != here.shares):
                leaving.append(Suspend(job.job_id, Because("share_met")))
                continue
            del demands[job.job_id]
            if place[0].sharing is Sharing.packed and here.sharing is Sharing.exclusive:
                because = self._because(memory, job.job_id, place[1])
                staying.append(Pack(job.job_id, place[0], because))
        starting = [
            Start(job_id, there, self._because(memory, job_id, run))
            for job_id, (there, run) in demands.items()
        ]
        return [*leaving, *staying, *starting]

    def _because(self, memory: PeerMemory, job_id: JobId, run: RoundRun) -> Because:
        """Return a gang's target and received share, and who shares its GPUs."""
        ledger, gpu_type = memory.rounds.ledger, run.seat.gpu_type
        scores = ledger.target(run.gang, gpu_type), ledger.share(run.gang, gpu_type)
        partners = tuple(other for other in run.gang if other != job_id)
        return Because(f"{self.name}_beside" if partners else self.name, scores, partners)

    def _settle_in(self, memory: PeerMemory, view: View) -> None:
        """Number the GPUs, type by type in the order of their names."""
        numbers: dict[GpuType, list[int]] = {}
        for name, pool in sorted(view.pools.items()):
            for server in pool.servers:
                for gpu in range(server.configuration.gpus):
                    numbers.setdefault(GpuType(name), []).append(len(memory.places))
                    memory.places.append((server.name, gpu))
        play = self._play
        shuffler = MersenneTwister.seeded(self.seed + 5) if play.shuffles else None
        memory.rounds = PeerRounds.of(
            numbers, shuffler, pairs_too=play.pairs_too, needs_claim=play.needs_claim
        )


def _peer_job(job: Job, table: ThroughputTable) -> PeerJob:
    kind = table.kind_of(job.spec)
    if kind is None or job.spec.total_steps is None:
        raise ConfigError(f"job {job.job_id}: its model is not in the table, or it has no steps")
    arrival_s = job.submitted_us / SECOND_US
    left, weight, due_us = job.spec.total_steps, job.spec.weight, job.spec.deadline_us
    return PeerJob(
        job.job_id,
        job.ordinal,
        kind.model,
        kind.gpus,
        left,
        arrival_s,
        weight,
        deadline_s=None if due_us is None else due_us / SECOND_US,
    )


def _targets(fractions: Fractions) -> tuple[Target, ...]:
    """Return fractions in full; of a gang with none, a 0 for one type: it is known."""
    found: list[Target] = []
    for gang, row in fractions.items():
        parts = [(name, part) for name, part in row.items() if part > 0] or [*row.items()][:1]
        found += [Target(gang, name, part) for name, part in parts]
    return tuple(found)


def _fractions(targets: tuple[Target, ...]) -> Fractions:
    found: Fractions = {}
    for target in targets:
        found.setdefault(target.jobs, {})[target.gpu_type] = target.fraction
    return found
