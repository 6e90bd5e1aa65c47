"""Gavel: an objective over effective throughputs, target shares of time, and turns that follow.

Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI
2020. Throughputs come from `workload.throughputs`, else from samples of running jobs; of who is not
known at all, every GPU type counts the same.

A turn is a stretch in which jobs keep their GPUs; they lose them to others at its end only. Within
a turn, what is free goes to those that wait. Targets are computed at the first plan after anybody
came or left, or anything was measured again, and now and then if so configured.

Deviation: targets are computed at the next plan after anything changed, and what jobs are still
owed is carried over; the paper counts from nothing, and the public code waits 1,920 s at least.
Deviation: jobs go by the time they are owed, target × time − received, not by the ratio of the two:
shares then stay within a few rounds of their targets, where ratios let them drift by a dozen.
Deviation: within a turn free GPUs go to waiting jobs at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from shunter.core import EMPTY_PLAN, REPLAN_AFTER, Job, Observer, Observers, Plan, Rng, View, sooner
from shunter.core.planning import Extended, Placement, at_load, note_load
from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError, PlanError
from shunter.events import JOB_ENDS, GpuType, Sharing, facts
from shunter.policies.gavel.changes import Told, changes_of, known_reasons, pairs_of, waits_of
from shunter.policies.gavel.mechanism import Demands, Ledger, Targets
from shunter.policies.gavel.objectives import (
    OBJECTIVES,
    UNSHARED,
    Chosen,
    FinishTimes,
    ObjectiveName,
)
from shunter.policies.gavel.requests import (
    EntityBy,
    GavelMemory,
    Rates,
    demands_of,
    fractions_of,
    gpu_type_of,
    is_contended,
    room_of,
    seconds,
    targets_of,
    waits_nowhere,
    wants,
)
from shunter.policies.gavel.seating import (
    Candidate,
    Gathered,
    as_placed,
    choose,
    cpu_starts,
    is_starved,
    may_leave,
    room_among,
    seat_together,
)
from shunter.policies.params import Duration, PolicyParams


@dataclass(frozen=True, slots=True)
class Timing:
    """How long turns and windows are, and how often targets are computed.

    `least_us` is the least time between two computations, `most_us` (0: none) the most.
    """

    turn_us: int
    window_us: int
    least_us: int = 0
    most_us: int = 0


@dataclass(frozen=True)
class GavelPolicy(Extended):
    """Follows the targets of an objective.

    `needs_prices` are GPU types that must have a price, if any must.
    """

    objective: Targets
    placement: Placement
    timing: Timing
    by: EntityBy = "user"
    prices: frozenset[str] | None = None
    table: ThroughputTable | None = field(default=None, compare=False)
    name: str = "gavel"
    version: str = "1"
    oracle: bool = False
    needs_table: bool = False
    remembers: bool = True
    estimates: bool = False
    said: str = field(default="", compare=False)

    def knowing(self, table: ThroughputTable) -> "GavelPolicy":
        """Return the policy with a table of throughputs, its gaps filled if it estimates."""
        if not self.estimates:
            return replace(self, table=table)
        from shunter.policies.gavel.completion import completed_table

        found = completed_table(table)
        said = (
            guesses_in_words(found.alone, "rates of the table", found.alone_error),
            guesses_in_words(found.paired, "pairs of the table", found.paired_error),
        )
        return replace(self, table=found.table, said="; ".join(filter(None, said)))

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Say whether the policy can go by GPU types.

        Raises:
            ConfigError: one has no price, and needs one.
        """
        unknown = sorted(set(types) - self.prices) if self.prices is not None else ()
        if unknown:
            raise ConfigError(
                f"policy.params.{self.name}.prices: no price of {', '.join(unknown)}; "
                "give each GPU type of the cluster its dollars an hour"
            )

    def start(self, view: View) -> GavelMemory:
        """Return the memory for a cluster as it is; the last targets still hold."""
        timing = self.timing
        ledger = Ledger([], seconds(timing.window_us), seconds(timing.least_us))
        memory = GavelMemory(ledger)
        if isinstance(self.objective, FinishTimes):
            memory.finish_times = replace(self.objective)
        for job in view.jobs.values():
            memory.post(job, view, view.now_us)
        if view.targets:
            self._learn_who(memory, view)
            memory.know_pairs(fractions_of(view.targets))
            memory.ledger.reset(fractions_of(view.targets), seconds(view.now_us))
            memory.changed = memory.ledger.is_dirty = True
        self.extensions.start(memory, view)
        return memory

    def observers(self, memory: GavelMemory) -> Observers:
        """Note who comes and goes, where everybody is, and what samples say."""

        def changed(event: Any, view: View) -> None:
            memory.stale = memory.changed = True

        def learned(event: facts.AllocationLearned, view: View) -> None:
            memory.post(view.jobs[event.job_id], view, event.at_us)
            changed(event, view)

        def given(event: facts.TargetsSet, view: View) -> None:
            memory.take(event)
            memory.contended = is_contended(memory)

        def planned(event: facts.RoundPlanned, view: View) -> None:
            memory.stale = False

        def refused(event: facts.PlanRejected, view: View) -> None:
            memory.stale = True

        def waits(event: facts.WaitReasonChanged, view: View) -> None:
            memory.told[event.job_id] = event.wait.reason

        told: dict[Any, Any] = dict.fromkeys(REPLAN_AFTER, changed)
        told.update(dict.fromkeys(JOB_ENDS, memory.ended) | {facts.JobResized: memory.resized})
        told.update({facts.AllocationChanged: memory.moved, facts.AllocationLearned: learned})
        told[facts.ProfileSampled] = _sampled(memory, self._rates)
        told.update(
            {facts.TargetsSet: given, facts.RoundPlanned: planned, facts.PlanRejected: refused}
        )
        told[facts.WaitReasonChanged] = waits
        return self.extensions.observers(told, memory)

    def advance(self, memory: GavelMemory, view: View) -> None:
        """Count time, learn who wants GPUs, and see whether new targets are due."""
        now_us = view.now_us
        note_load(self.placement, memory.packing, view.pools)
        memory.settle_all(now_us)
        turn = now_us // self.timing.turn_us
        memory.turns, memory.turn = turn > memory.turn, turn
        if memory.changed:
            self._learn_who(memory, view)
        memory.contended = is_contended(memory)
        most_us, asked_us = self.timing.most_us, memory.asked_us
        overdue = bool(most_us) and asked_us is not None and now_us - asked_us >= most_us
        demands = bool(memory.ledger.received_s)
        memory.asks = demands and (overdue or memory.ledger.is_due(seconds(now_us)))
        if memory.asks and self.estimates:
            self._guess(memory)
        if memory.asks and memory.finish_times is not None:
            memory.finish_times.note(self._wanted(memory, view))

    def target(self, memory: GavelMemory, view: View) -> facts.TargetsSet | None:
        """Return new targets if they are due; where there are none, the old ones and why."""
        if not memory.asks:
            return None
        objective = memory.finish_times or self.objective
        try:
            fractions = objective.fractions(self._wanted(memory, view))
        except PlanError as error:
            return facts.TargetsSet(view.now_us, view.targets, status=str(error))
        guessed = guesses_in_words(len(memory.guessed), "jobs' rates", memory.guess_error)
        said = "; ".join(filter(None, (self.said, guessed)))
        return facts.TargetsSet(view.now_us, targets_of(fractions), said)

    def plan(self, memory: GavelMemory, view: View, rng: Rng) -> Plan:
        """Choose, seat, and say why; or let job schedulers propose where."""
        placement = at_load(self.placement, memory.packing)
        plan = self._centrally(memory, view, placement)
        plan = self.extensions.with_room_made(plan, memory, view, placement)
        needs = Gathered(placement, view)
        return self.extensions.proposed(plan, memory, view, placement, rng, needs)

    def _centrally(self, memory: GavelMemory, view: View, placement: Placement) -> Plan:
        """Choose and seat; say why."""
        candidates, nowhere = self._candidates(memory, view)
        choice = choose(memory.ledger, candidates, room_among(candidates, view))
        seats = seat_together(choice, candidates, placement, view)
        told = Told(seats, choice, memory.ledger, pairs_of(memory.ledger))
        changes = changes_of(seats, told, candidates, view)
        changes = (*changes, *cpu_starts(placement, view, changes))
        if self.extensions.scheme is not None:
            changes = as_placed(changes, seats)
        known = known_reasons(view, memory.told)
        waits = (
            *waits_of(told, candidates, known, view),
            *waits_nowhere(nowhere, self._rates(memory), known, every=view.all_reasons),
        )
        return Plan(changes, (), waits) if changes or waits else EMPTY_PLAN

    def wake_at(self, memory: GavelMemory) -> int | None:
        """Return the end of the turn if others may run then, or when targets are due.

        Where job schedulers propose, also when one of them does.
        """
        turn_us = (memory.turn + 1) * self.timing.turn_us if memory.contended else None
        ends_us = self.extensions.wakes_us(turn_us, memory)
        most_us = self.timing.most_us
        if not most_us or memory.asked_us is None or not memory.ledger.received_s:
            return ends_us
        return sooner(ends_us, memory.asked_us + most_us)

    def settled(self, memory: GavelMemory) -> bool:
        """Say whether nothing has happened since the last plan."""
        return not memory.stale

    def _rates(self, memory: GavelMemory) -> Rates:
        return Rates(memory.measured, self.table, memory.room, memory.guessed, memory.found)

    def _guess(self, memory: GavelMemory) -> None:
        """Guess what measured jobs do on types they never tried."""
        from shunter.policies.gavel.completion import guessed_rates

        types = [name for name, gpus in memory.room.items() if gpus]
        memory.guessed, memory.guess_error = guessed_rates(memory.measured.used, types)
        memory.found.clear()

    def _wanted(self, memory: GavelMemory, view: View) -> Demands:
        return demands_of(view, self._rates(memory), self.by)

    def _learn_who(self, memory: GavelMemory, view: View) -> None:
        """Know the jobs that want GPUs and can run somewhere, and no others."""
        memory.changed = False
        ledger, room = memory.ledger, room_of(view)
        if room != memory.room:
            memory.room, ledger.is_dirty = room, True
            memory.found.clear()
            ledger.know_types(list(room))
            self._check_prices(memory)
        rates = self._rates(memory)
        known, look = memory.found, rates.of
        wanting = {
            job.job_id: None
            for job in view.jobs.values()
            if wants(job) and any((known.get(job.job_id) or look(job)).values())
        }
        single = [gang[0] for gang in ledger.received_s if len(gang) == 1]
        ledger.remove(*[job_id for job_id in single if job_id not in wanting])
        for job_id in wanting:
            if (job_id,) not in ledger.received_s:
                ledger.add((job_id,))

    def _check_prices(self, memory: GavelMemory) -> None:
        """Refuse to begin where a GPU type has no price; later, targets say so."""
        if not memory.checked and self.prices is not None:
            memory.checked = True
            self.check_types(memory.room)

    def _candidates(self, memory: GavelMemory, view: View) -> tuple[list[Candidate], list[Job]]:
        """Return who may get GPUs now, and who waits and gets on nowhere.

        Those that have GPUs are among the first only where a turn begins.
        """
        rates, known, guarded = self._rates(memory), memory.ledger.received_s, view.is_guarded
        found: list[Candidate] = []
        nowhere: list[Job] = []
        for job in view.jobs.values():
            if (job.job_id,) not in known:
                if job.spec.gpus and job.is_eligible:
                    nowhere.append(job)
                continue
            if not job.allocation.shares:
                if job.is_eligible:
                    starves = guarded and is_starved(job, view)
                    found.append(Candidate(job, rates.of(job), None, starves))
            elif memory.turns and may_leave(job, view, self.timing.turn_us):
                beside = view.partners(job) if job.allocation.sharing is Sharing.packed else ()
                on = gpu_type_of(job, view)
                found.append(Candidate(job, rates.of(job), on, beside=beside))
        return found, nowhere


def guesses_in_words(count: int, what: str, error: float | None) -> str:
    """Return how many rates were guessed and how well, in words; "" for none."""
    if not count:
        return ""
    off = "" if error is None else f", half of them within {error:.0%} as far as can be told"
    return f"{count} {what} guessed{off}"


def _sampled(memory: GavelMemory, rates_of: Callable[[GavelMemory], Rates]) -> Observer:
    def sampled(event: facts.ProfileSampled, view: View) -> None:
        job = view.jobs.get(event.job_id)
        gpu_type = None if job is None else gpu_type_of(job, view)
        if event.step is not None:
            memory.measured.steps[event.job_id] = event.step
        if job is None or gpu_type is None or not event.batch_s:
            return
        others = [view.jobs[name] for name in memory.beside(event.job_id) if name in view.jobs]
        if others:  # how fast it is beside another says nothing of it alone
            rate = 1.0 / event.batch_s
            notable = rates_of(memory).beside(job, others[0], gpu_type, rate)
        else:
            notable = memory.measured.sample(event.job_id, gpu_type, event.batch_s)
        if notable:
            memory.found.pop(event.job_id, None)
            memory.ledger.is_dirty = memory.stale = True

    return sampled


PRICED: Final = ("min_cost", "min_cost_slo")
_TURNS: Final = 10
"""The window's length in turns: so many turns make up for one that came out wrong."""

Price = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Stretch = Annotated[Duration, Field(gt=0)]
Span = Annotated[Duration, Field(ge=0)]


class GavelOptions(PolicyParams):
    """What all objectives take."""

    full_waits: ClassVar[bool] = True

    aware: bool = Field(
        default=True,
        description="count how fast each job is on each GPU type; false: all types are alike",
    )
    turn: Stretch = Field(
        default=360_000_000,
        description="how long jobs keep their GPUs before others may get them (OSDI 2020, "
        "section 5: 6 minutes)",
    )
    recompute_after: Span = Field(
        default=0, description="the least time between two computations of targets"
    )
    recompute_every: Span = Field(
        default=0, description="the most, though nobody comes or leaves; 0: no bound"
    )
    entities: EntityBy = Field(
        default="user",
        description="who has weights and parts in `hierarchical` and `gandiva_fair`: user, "
        "queue or group",
    )
    entity_weights: dict[str, Price] = Field(
        default={},
        description="weights of entities by name, for the same objectives; 1 for all others",
    )
    inside: Literal["fairness", "fifo"] = Field(
        default="fairness", description="how an entity of `hierarchical` divides what it gets"
    )
    space_sharing: bool = Field(
        default=False,
        description="let two jobs share GPUs where workload.throughputs knows that it pays (OSDI "
        "2020, section 3.1)",
    )
    prices: dict[str, Price] = Field(
        default={}, description="dollars an hour of a GPU by type, for `min_cost`"
    )
    estimate: bool = Field(
        default=False,
        description="guess rates nobody measured from those that were: of kinds of the table, of "
        "pairs, and of jobs on types they never tried (OSDI 2020, section 6)",
    )


class GavelParams(GavelOptions):
    """What is to be achieved, and how often it is looked at."""

    objective: ObjectiveName = Field(
        default="max_min_fairness", description="what target shares are to achieve"
    )

    @model_validator(mode="after")
    def _has_prices(self) -> "GavelParams":
        if self.objective in PRICED and not self.prices:
            raise ValueError(f"objective {self.objective!r} needs prices, one for each GPU type")
        return self


class Gavel:
    """Target shares of time on GPU types by an objective, and turns that follow."""

    name = "gavel"
    oracle = False
    Params = GavelParams

    @staticmethod
    def build(params: GavelParams, placement: Placement) -> GavelPolicy:
        """Return the policy."""
        return gavel(params.objective, params, placement, "gavel")


def gavel(
    objective: ObjectiveName, options: GavelOptions, placement: Placement, name: str
) -> GavelPolicy:
    """Return the policy of an objective, under a name.

    Raises:
        ConfigError: the objective needs prices and there are none, or cannot share GPUs.
    """
    if objective in PRICED and not options.prices:
        raise ConfigError(
            f"policy.params.{name}.prices: expected dollars an hour for each GPU type of the "
            f"cluster; give them as [policy.params.{name}.prices]"
        )
    if options.space_sharing and objective in UNSHARED:
        raise ConfigError(
            f"policy.params.{name}.space_sharing: objective {objective} gives each job whole GPUs; "
            "expected false"
        )
    chosen = Chosen(
        aware=options.aware,
        prices={GpuType(name): price for name, price in options.prices.items()},
        entity_weights=dict(options.entity_weights),
        inside=options.inside,
        packed=options.space_sharing,
    )
    return GavelPolicy(
        OBJECTIVES[objective](chosen),
        placement,
        Timing(
            turn_us=options.turn,
            window_us=_TURNS * options.turn,
            least_us=options.recompute_after,
            most_us=options.recompute_every,
        ),
        options.entities,
        frozenset(options.prices) if objective in PRICED else None,
        name=name,
        needs_table=options.space_sharing,
        estimates=options.estimate,
    )


# Each objective as a policy, for `compare`. `gavel.fifo` is missing: `fifo` has that name.


class _ObjectivePolicy:
    """A policy of one objective."""

    name: ClassVar[ObjectiveName]
    oracle: Final = False
    Params = GavelOptions

    @classmethod
    def build(cls, params: GavelOptions, placement: Placement) -> GavelPolicy:
        """Return the policy."""
        return gavel(cls.name, params, placement, cls.name)


class AlloxPolicy(_ObjectivePolicy):
    """The least sum of finish times, by assignment; jobs of one GPU (Gavel)."""

    name = "allox"


class FinishTimeFairnessPolicy(_ObjectivePolicy):
    """The worst ratio of finish times here and alone is the least (Gavel)."""

    name = "finish_time_fairness"


class GandivaFairPolicy(_ObjectivePolicy):
    """Equal parts of every GPU type for each user, and trades between them."""

    name = "gandiva_fair"


class HierarchicalPolicy(_ObjectivePolicy):
    """Fairness across users, queues or groups; that or FIFO inside (Gavel)."""

    name = "hierarchical"


class IsolatedPolicy(_ObjectivePolicy):
    """An equal part of every GPU type for each job (Gavel)."""

    name = "isolated"


class MakespanPolicy(_ObjectivePolicy):
    """All jobs are done as early as possible (Gavel)."""

    name = "makespan"


class MaxMinFairnessPolicy(_ObjectivePolicy):
    """The least normalised throughput is the largest (Gavel)."""

    name = "max_min_fairness"


class MaxSumThroughputPolicy(_ObjectivePolicy):
    """The most steps a second of all jobs together (Gavel)."""

    name = "max_sum_throughput"


class MinCostPolicy(_ObjectivePolicy):
    """The most steps a dollar (Gavel)."""

    name = "min_cost"


class MinCostSloPolicy(_ObjectivePolicy):
    """The most steps a dollar with deadlines met (Gavel)."""

    name = "min_cost_slo"


class ProportionalPolicy(_ObjectivePolicy):
    """All of the time for everybody, over the GPU types as their GPUs are (Gavel)."""

    name = "proportional"


class ShortestJobFirstPolicy(_ObjectivePolicy):
    """The shortest time left on the fastest type goes first (Gavel)."""

    name = "shortest_job_first"


class WaterFillingPolicy(_ObjectivePolicy):
    """The least normalised throughput is the largest, then the next (Gavel)."""

    name = "water_filling"
