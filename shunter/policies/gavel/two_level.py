"""Fairness across users, queues or groups, and any index policy inside each.

At every plan GPUs are given away one job at a time: the next one goes to the first job, by the
index inside, of the entity with the fewest GPUs for its weight; among equals, of the one with the
least GPU time for it. That is weighted max-min fairness in whole jobs (progressive filling,
Bertsekas and Gallager, Data Networks, section 6.5.2); GPUs that do not divide evenly go round from
turn to turn.

Deviation: OSDI 2020, section 4.3 divides throughput across entities; here it is GPUs, so that it
needs no throughputs. `hierarchical` divides throughput.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from shunter.core import EMPTY_PLAN, REPLAN_AFTER, Job, Observers, Plan, Rng, View, both, sooner
from shunter.core.planning import Extended, Placement, ProposalMemory, RoomMemory, at_load
from shunter.core.ranking import Measure, RankedPolicy, Ranking, drift
from shunter.errors import PlanError
from shunter.events import JOB_ENDS, Because, GpuType, JobId, Reason, Wait, facts
from shunter.policies.gavel.changes import changes_of, known_reasons
from shunter.policies.gavel.requests import EntityBy, gpu_type_of, wants
from shunter.policies.gavel.seating import (
    Candidate,
    Choice,
    Gathered,
    Placements,
    as_placed,
    cpu_starts,
    may_leave,
    room_among,
    seat_together,
)
from shunter.policies.params import Duration, PolicyParams

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(slots=True)
class TwoLevelMemory:
    """The ranking inside, and what each group has had, in GPU-microseconds.

    `counted` is the service of each job that stands in it already. `turn` is the number of the
    present turn, `turns` whether it has just begun; `stale` says that something has happened.
    """

    inside: Ranking = field(default_factory=Ranking)
    service_gpu_us: dict[str, int] = field(default_factory=dict)
    counted: dict[JobId, int] = field(default_factory=dict)
    told: dict[JobId, Reason] = field(default_factory=dict)
    turn: int = -1
    turns: bool = False
    stale: bool = True
    places: RoomMemory | None = None
    proposals: ProposalMemory | None = None

    def count(self, group: str, job: Job, now_us: int) -> None:
        """Count the service of a job up to now."""
        service, counted = job.service_us(now_us), self.counted.get(job.job_id, 0)
        if service != counted:
            self.service_gpu_us[group] = self.service_gpu_us.get(group, 0) + service - counted
            self.counted[job.job_id] = service


@dataclass(frozen=True)
class _Teller:
    """Tells what a group has for its weight, before and after."""

    gpus: Mapping[str, int]
    by: EntityBy

    def placed(self, job: Job, gpu_type: GpuType) -> Because:
        return Because("group_share", (self.gpus.get(getattr(job.spec, self.by), 0),))

    def left(self, job: Job, gpu_type: GpuType, gainers: tuple[JobId, ...]) -> Because:
        has = self.gpus.get(getattr(job.spec, self.by), 0)
        return Because(str(Reason.outranked), (has,), gainers)


@dataclass(frozen=True)
class TwoLevelPolicy(Extended):
    """Divides GPUs across groups, and inside each by an index policy."""

    inside_name: str
    inside_params: Mapping[str, Any]
    by: EntityBy
    weights: Mapping[str, float]
    turn_us: int
    placement: Placement
    inside: RankedPolicy | None = None
    name: str = "two_level"
    version: str = "1"
    remembers: bool = True

    @property
    def oracle(self) -> bool:
        """Whether the policy inside sees how long jobs will run."""
        return self.inside is not None and self.inside.oracle

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the score of a decision counts: GPUs of the job's user, queue or group."""
        return (Measure(f"{self.by}_gpus"),)

    def around(self, inside: RankedPolicy) -> "TwoLevelPolicy":
        """Return the policy with the index policy inside."""
        return replace(self, inside=inside)

    def start(self, view: View) -> TwoLevelMemory:
        """Return the memory for a cluster as it is; nobody has had anything."""
        memory = TwoLevelMemory(self._index.start(view))
        memory.counted = {job.job_id: job.service_us(view.now_us) for job in view.jobs.values()}
        self.extensions.start(memory, view)
        return memory

    def observers(self, memory: TwoLevelMemory) -> Observers:
        """Keep the ranking up to date, and note what groups have had."""

        def changed(event: Any, view: View) -> None:
            memory.stale = True

        def ended(event: Any, view: View) -> None:
            job = view.departed
            assert job is not None, "the job whose end was told"
            memory.count(getattr(job.spec, self.by), job, event.at_us)
            memory.counted.pop(job.job_id, None)
            memory.told.pop(job.job_id, None)
            memory.stale = True

        def moved(event: facts.AllocationChanged, view: View) -> None:
            memory.told.pop(event.job_id, None)
            if not event.allocation.shares and event.because.rule in Reason.__members__:
                memory.told[event.job_id] = Reason(event.because.rule)

        def planned(event: facts.RoundPlanned, view: View) -> None:
            memory.stale = False

        def waits(event: facts.WaitReasonChanged, view: View) -> None:
            memory.told[event.job_id] = event.wait.reason

        told: dict[Any, Any] = dict.fromkeys((*REPLAN_AFTER, facts.AllocationLearned), changed)
        told.update(dict.fromkeys(JOB_ENDS, ended))
        told.update(
            {
                facts.AllocationChanged: moved,
                facts.RoundPlanned: planned,
                facts.WaitReasonChanged: waits,
            }
        )
        ranked = both(self._index.observers(memory.inside), told)
        return self.extensions.observers(ranked, memory)

    def advance(self, memory: TwoLevelMemory, view: View) -> None:
        """Rank anew who has changed rank by itself, and count what groups have had."""
        changes_us = self._index.wake_at(memory.inside)
        if changes_us is not None and changes_us <= view.now_us:
            memory.stale = True  # somebody stands elsewhere in the order inside
        self._index.advance(memory.inside, view)
        for job in view.jobs.values():
            memory.count(getattr(job.spec, self.by), job, view.now_us)
        turn = view.now_us // self.turn_us
        memory.turns, memory.turn = turn > memory.turn, turn

    def target(self, memory: TwoLevelMemory, view: View) -> tuple[facts.Target, ...] | None:
        """It has no targets: it divides what there is at each plan."""
        return None

    def plan(self, memory: TwoLevelMemory, view: View, rng: Rng) -> Plan:
        """Fill group by group, and say why; or let job schedulers propose where."""
        placement = at_load(self.placement, memory.inside.packing)
        plan = self._centrally(memory, view, placement)
        plan = self.extensions.with_room_made(plan, memory, view, placement)
        needs = Gathered(placement, view)
        return self.extensions.proposed(plan, memory, view, placement, rng, needs)

    def _centrally(self, memory: TwoLevelMemory, view: View, placement: Placement) -> Plan:
        """Fill group by group; say why."""
        candidates, has = self._candidates(memory, view)
        choice = self._filled(memory, candidates, dict(has), view)
        seats = seat_together(choice, candidates, placement, view)
        changes = changes_of(seats, _Teller(has, self.by), candidates, view)
        changes = (*changes, *cpu_starts(placement, view, changes))
        if self.extensions.scheme is not None:
            changes = as_placed(changes, seats)
        waits = tuple(self._waits(memory, candidates, seats, choice, view))
        return Plan(changes, (), waits) if changes or waits else EMPTY_PLAN

    def _waits(
        self,
        memory: TwoLevelMemory,
        candidates: Sequence[Candidate],
        seats: Placements,
        choice: Choice,
        view: View,
    ) -> Iterator[tuple[JobId, Wait]]:
        """Yield what holds back those that were given nothing, where it is new (or all)."""
        known = known_reasons(view, memory.told)
        for each in candidates:
            job_id = each.job.job_id
            if job_id in seats.places or (each.on is not None and not view.full_waits):
                continue
            misfit = None if each.on is not None else seats.misfits.get(job_id)
            wait = _wait(each, misfit, choice, view)
            if view.all_reasons or known(job_id) is not wait.reason:
                yield job_id, wait

    def wake_at(self, memory: TwoLevelMemory) -> int | None:
        """Return the end of the turn, or when a rank changes, if anybody waits."""
        if not memory.inside.waiting:
            return None
        ends_us = (memory.turn + 1) * self.turn_us
        changes_us = self.extensions.wakes_us(self._index.wake_at(memory.inside), memory)
        return sooner(ends_us, changes_us)

    def settled(self, memory: TwoLevelMemory) -> bool:
        """Say whether nothing has happened since the last plan."""
        return not memory.stale

    @property
    def _index(self) -> RankedPolicy:
        if self.inside is None:
            raise PlanError(f"policy {self.name} has no policy inside: it was not put around one")
        return self.inside

    def _candidates(
        self, memory: TwoLevelMemory, view: View
    ) -> tuple[list[Candidate], dict[str, int]]:
        """Return who may get GPUs now in the order inside, and what groups have besides.

        Nobody leaves in a plan that is made only because job schedulers propose.
        """
        may_any_leave = self.extensions.scheme is None or memory.stale or memory.turns
        ranked: list[tuple[int, Candidate]] = []
        has: dict[str, int] = {}
        behind = drift(view.now_us) if self._index.index.drifts else 0
        types = [GpuType(name) for name in view.pools]
        for job in view.jobs.values():
            entry = memory.inside.entries.get(job.job_id)
            if entry is None or not wants(job):
                continue
            able = {name: 1.0 for name in types if name in (job.spec.gpu_types or types)}
            if not job.allocation.shares:
                if job.is_eligible:
                    ranked.append((entry.key + behind, Candidate(job, able)))
            elif may_any_leave and may_leave(job, view, 0):
                ranked.append((entry.key, Candidate(job, able, gpu_type_of(job, view))))
            else:
                group = getattr(job.spec, self.by)
                has[group] = has.get(group, 0) + job.allocation.gpus
        ranked.sort(key=lambda found: (found[0], found[1].job.ordinal))
        return [candidate for _, candidate in ranked], has

    def _filled(
        self,
        memory: TwoLevelMemory,
        candidates: list[Candidate],
        has: dict[str, int],
        view: View,
    ) -> Choice:
        """Give GPUs to the group that has least for its weight, until nobody fits."""
        room = room_among(candidates, view)
        choice = Choice(dict(room.gpus), dict(room.quotas))
        lines: dict[str, list[Candidate]] = {}
        for candidate in reversed(candidates):
            lines.setdefault(getattr(candidate.job.spec, self.by), []).append(candidate)
        while lines:
            group = min(lines, key=lambda name: self._need(name, has, memory))
            candidate = lines[group].pop()
            if not lines[group]:
                del lines[group]
            order = sorted(candidate.rates, key=lambda name: name != candidate.on)
            if any(choice.take(candidate, gpu_type) for gpu_type in order):
                has[group] = has.get(group, 0) + candidate.job.spec.gpus
        return choice

    def _need(
        self, group: str, has: Mapping[str, int], memory: TwoLevelMemory
    ) -> tuple[float, float, str]:
        weight = self.weights.get(group, 1.0)
        had = memory.service_gpu_us.get(group, 0)
        return has.get(group, 0) / weight, had / weight, group


def _wait(candidate: Candidate, misfit: Reason | None, choice: Choice, view: View) -> Wait:
    """Return why a job waits that was given nothing.

    Its evidence is of types on which it runs. One that loses its GPUs was outranked, as the change
    says.
    """
    spec = candidate.job.spec
    if not view.full_waits:  # as earlier versions told it
        return Wait(misfit or Reason.outranked, spec.gpus, max(choice.room.values(), default=0))
    free = max((choice.room[name] for name in candidate.rates), default=0)
    if candidate.on is not None:
        return Wait(Reason.outranked, spec.gpus, free)
    up = [view.pools[name].gpus_up for name in candidate.rates]
    if not up:
        return Wait(Reason.gpu_type_unavailable, spec.gpus)
    if max(up) < spec.gpus:
        return Wait(Reason.node_lost, spec.gpus, free)
    if misfit is None and spec.gpus <= free and not choice.may_use(candidate.job):
        return Wait(Reason.quota, spec.gpus, max(0, choice.quota_free[spec.queue]))
    return Wait(misfit or Reason.outranked, spec.gpus, free)


class TwoLevelParams(PolicyParams):
    """Whose fairness it is, and what goes on inside."""

    full_waits: ClassVar[bool] = True

    by: EntityBy = Field(default="user", description="who shares: user, queue or group")
    weights: dict[str, Weight] = Field(
        default={}, description="weights by name; 1 for all others, so that nobody needs one"
    )
    inside: str = Field(
        default="las", min_length=1, description="the index policy that orders the jobs of each"
    )
    inside_params: dict[str, Any] = Field(
        default={}, description="its parameters, as in its own table"
    )
    turn: Annotated[Duration, Field(gt=0)] = Field(
        default=1_800_000_000,
        description="how often GPUs that do not divide evenly go round; each time a job is saved, "
        "and another one launched",
    )


class TwoLevel:
    """Fairness across users, queues or groups, and any index policy inside each."""

    name = "two_level"
    oracle = False
    Params = TwoLevelParams

    @staticmethod
    def build(params: TwoLevelParams, placement: Placement) -> TwoLevelPolicy:
        """Return the policy, which is to be put around an index policy."""
        return TwoLevelPolicy(
            params.inside,
            params.inside_params,
            params.by,
            params.weights,
            params.turn,
            placement,
        )
