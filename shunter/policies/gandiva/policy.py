"""Gandiva's reactive mode with time-slicing (OSDI 2018, 3.2): placed by affinity, shared in turns.

Jobs run from their arrival on as long as anything of their size can be shared, so early feedback
comes early; nobody is preempted. Turns are the servers' own (`policy.slicing`); the policy decides
who shares which server.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveInt, model_validator

from shunter.core import (
    REPLAN_AFTER,
    Change,
    Job,
    Judge,
    Observers,
    Plan,
    Rehome,
    Rng,
    Start,
    Try,
    View,
)
from shunter.core.planning import (
    Draft,
    Placement,
    TrialRules,
    is_known_loss,
    model_of,
    proposed,
    running,
)
from shunter.core.ranking import Measure
from shunter.errors import ConfigError
from shunter.events import (
    MILLION,
    Allocation,
    Because,
    ChangeKey,
    GpuType,
    JobId,
    NodeName,
    Reason,
    TrialKind,
    TrialReason,
    Wait,
    facts,
)
from shunter.policies.gandiva.affinity import FoundPlace, Placer
from shunter.policies.gandiva.grow_shrink import NO_RESIZING, IdleServers, PlannedSizes
from shunter.policies.migration import GoalSettings, Migrations
from shunter.policies.params import Duration, PolicyParams

# Packing under overload (Gandiva, OSDI 2018, 3.3): the job that uses its GPU least is tried with
# the next one within the GPU's memory, and kept if it beats their turns. Neighbours disturb each
# other, so one pack at a time is tried in each server, and none with a move on trial.


class Packing:
    """Which packs are tried, kept and given up, by what was measured so far."""

    def __init__(self, rules: TrialRules, gpu_memory_mb: Mapping[GpuType, int]) -> None:
        self._rules = rules
        self._gpu_memory_mb = gpu_memory_mb

    def steps(self, view: View) -> list[Try | Judge]:
        """Return which trials end now, and which begin."""
        found: list[Try | Judge] = []
        busy = set[NodeName]()
        for trial, jobs in running(view):
            if trial.kind is TrialKind.pack:
                busy.add(_node_of(jobs[0]))
                verdict = self._rules.verdict(trial, jobs, view.now_us)
                if verdict is not None:
                    found.append(verdict.judges(jobs[0].job_id))
        for node, there in _sharing(view).items():
            if node not in busy:
                step = self._step(view, node, there)
                if step is not None:
                    found.append(step)
        return found

    def next_us(self, view: View) -> int | None:
        """Return when a trial can be judged, or jobs of a full server have been measured."""
        at_us = [
            self._rules.next_us(trial, view.now_us)
            for trial, _ in running(view)
            if trial.kind is TrialKind.pack
        ]
        is_unmeasured = any(
            _surplus(jobs) > 0
            and any(_is_alone(job) and not job.pace.batch_us_at(job.speed) for job in jobs)
            for jobs in _sharing(view).values()
        )
        if is_unmeasured:
            at_us.append(view.now_us + self._rules.probe_us)
        return min(at_us, default=None)

    def _step(self, view: View, node: NodeName, jobs: list[Job]) -> Try | Judge | None:
        """Return the next pack to try in a server, or one that is not needed any more."""
        surplus = _surplus(jobs)
        if surplus < 0:
            packed = [job for job in jobs if job.packed_with]
            fitting = [job for job in packed if job.held.gpus <= -surplus]
            last = max(fitting, key=lambda job: job.ordinal, default=None)
            return None if last is None else Judge(last.job_id, TrialReason.room, 0, ())
        if not surplus or any(self._is_new(job, view.now_us) for job in jobs):
            return None
        for job, other in self._pairs(view, node, jobs):
            key = _key(view, node, job, other)
            if is_known_loss(key, view.verdicts):
                continue
            trial = proposed(job, (other,), key, TrialKind.pack, MILLION)
            if trial is not None:
                return trial
        return None

    def _is_new(self, job: Job, now_us: int) -> bool:
        """Say whether a job is still to be measured alone, before anybody is chosen."""
        if not _is_alone(job) or job.pace.batch_us_at(job.speed) is not None:
            return False
        had_us = job.service_us(now_us) // job.held.gpus
        return job.best_batch is not None or had_us < 2 * self._rules.probe_us

    def _pairs(self, view: View, node: NodeName, jobs: list[Job]) -> Iterator[tuple[Job, Job]]:
        """Yield who may be packed with whom, those first that use their GPUs least."""
        untried = [job for job in jobs if _is_alone(job) and job.job_id not in view.trials]
        alone = sorted(untried, key=_by_use)
        most_mb = self._gpu_memory_mb.get(_gpu_type(view, node), inf)
        for job, other in combinations(alone, 2):
            is_equal = job.held.gpus == other.held.gpus
            if view.homes_are_fixed and not (job.can_move and other.can_move):
                is_equal = job.held.shares[0].gpu_mask == other.held.shares[0].gpu_mask
            if is_equal and _memory_mb(job) + _memory_mb(other) <= most_mb:
                yield job, other


def _sharing(view: View) -> dict[NodeName, list[Job]]:
    """Return by server the jobs that take turns there alone, in order of submission."""
    found: dict[NodeName, list[Job]] = {}
    for job in view.jobs.values():
        if (
            job.takes_turns
            and not job.is_spread
            and job.held == job.allocation
            and not job.end_cause
        ):
            found.setdefault(_node_of(job), []).append(job)
    return found


def _surplus(jobs: list[Job]) -> int:
    """Return how many GPUs more than a server has would give all a turn at once.

    Of a pack one counts. Below 0: so many GPUs that jobs share are idle.
    """
    mask = 0
    widths = dict[JobId, int]()
    for job in jobs:
        mask |= job.held.shares[0].gpu_mask
        widths[job.pack_id] = job.held.gpus
    return sum(widths.values()) - mask.bit_count()


def _is_alone(job: Job) -> bool:
    return not job.packed_with


def _by_use(job: Job) -> tuple[float, int]:
    used = job.pace.gpu_utilisation
    return inf if used is None else used, job.ordinal


def _memory_mb(job: Job) -> int:
    return job.pace.gpu_memory_mb or 0


def _key(view: View, node: NodeName, *jobs: Job) -> ChangeKey:
    models = tuple(sorted(map(model_of, jobs)))
    return ChangeKey(TrialKind.pack, models, _gpu_type(view, node))


def _gpu_type(view: View, node: NodeName) -> GpuType:
    return view.cluster.servers[node].configuration.gpu_type


def _node_of(job: Job) -> NodeName:
    return job.allocation.shares[0].node


SAMPLES_IN_PROBE = 6
"""So often at least a job is to be measured in the time of a probe.

Two of these may tell of what was before, two are needed, and turns begin a little after trials.
"""


class PackingParams(BaseModel):
    """How packs are tried: two jobs on the same GPUs at once."""

    model_config = PolicyParams.model_config

    probe: Duration = Field(
        default=60_000_000,
        gt=0,
        description="how long a pack is tried before it is judged, and how long each of its jobs "
        "may have GPUs without measuring anything; take no less than a quantum",
    )
    epsilon: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="by which part the rates of a pack, each over its rate alone, must add up to "
        "more than 1",
    )
    gpu_memory_mb: dict[str, PositiveInt] = Field(
        default_factory=dict,
        description="the memory of a GPU by type, in MB: jobs that use more together are not tried",
    )

    def packing(self) -> Packing:
        """Return what tries them."""
        rules = TrialRules(self.probe, round(self.epsilon * MILLION))
        memory = {GpuType(name): size for name, size in self.gpu_memory_mb.items()}
        return Packing(rules, memory)


class MigrationParams(BaseModel):
    """Why jobs are moved, and by what a move is judged."""

    model_config = PolicyParams.model_config

    goals: tuple[
        Literal["colocate", "lower_height", "apart", "cheaper_type", "defragment"], ...
    ] = Field(
        default=("colocate",),
        strict=False,
        description="why jobs are moved: `colocate` brings gangs over several servers to one, "
        "`lower_height` who takes turns to free GPUs, `apart` who has become slower to an empty "
        "server, `cheaper_type` jobs of one GPU to a cheaper type while others wait, `defragment` "
        "jobs from the emptiest server to fuller ones",
    )
    cost: Duration = Field(
        default=10_000_000,
        ge=0,
        description="what a move costs a job (Gandiva: 1 to 2 s with TensorFlow, 8 to 10 s with "
        "PyTorch); it must gain more within as long again as it has run",
    )
    probe: Duration = Field(
        default=60_000_000,
        gt=0,
        description="how long a move is tried before it is judged; take no less than a quantum",
    )
    free_most: int = Field(
        default=3,
        ge=1,
        description="`defragment` empties servers that have so many free GPUs at least (3 of 4 in "
        "the paper)",
    )
    cheaper: tuple[str, ...] = Field(
        default=(), strict=False, description="types of GPU for `cheaper_type`, the cheapest first"
    )
    slower: float = Field(
        default=0.1,
        gt=0,
        le=10,
        description="`apart` moves jobs whose mini-batches take longer by this part than their "
        "fastest did",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for name, named in (("goals", self.goals), ("cheaper", self.cheaper)):
            if len(set(named)) < len(named):
                raise ValueError(f"{name}: expected each once")
        if not self.goals:
            raise ValueError("goals: expected one at least; leave migration out to move nobody")
        if "cheaper_type" in self.goals and len(self.cheaper) < 2:
            raise ValueError("cheaper: expected two types of GPU at least, the cheapest first")
        return self

    def migrations(self) -> Migrations:
        """Return what plans them."""
        cheaper = tuple(GpuType(name) for name in self.cheaper)
        settings = GoalSettings(self.free_most, cheaper, round(self.slower * MILLION))
        return Migrations(TrialRules(self.probe), self.cost, self.goals, settings)


class PlacingParams(PolicyParams):
    """What may be set of it."""

    height_most: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="how many times its own GPUs the jobs of a server may ask for; no limit if "
        "left out",
    )
    grow_after: Duration | None = Field(
        default=None,
        gt=0,
        description="elastic jobs grow into GPUs of their server that were idle for so long while "
        "nobody waits, and shrink when others need them; left out: they keep their sizes",
    )
    packing: PackingParams | None = Field(
        default=None,
        description="try two jobs on the same GPUs at once where a server has more jobs than have "
        "turns at once; no packs if left out",
    )

    migration: MigrationParams | None = Field(
        default=None,
        description="try running jobs on other servers, for the goals that are named; none is "
        "moved if left out",
    )

    @property
    def probes_us(self) -> dict[str, int]:
        """How long what is tried is measured, by the name of its table."""
        tried = {"packing": self.packing, "migration": self.migration}
        return {name: one.probe for name, one in tried.items() if one is not None}

    @property
    def needs_samples_us(self) -> int | None:
        """How often jobs must be measured at least; None: they need not be."""
        probes_us = self.probes_us.values()
        return min(probes_us) // SAMPLES_IN_PROBE if probes_us else None

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Say whether the cluster has all GPU types that are named.

        Raises:
            ConfigError: it lacks one; the message names type and key.
        """
        known = set(types)
        named: dict[str, Iterable[str]] = {
            "packing.gpu_memory_mb": () if self.packing is None else self.packing.gpu_memory_mb,
            "migration.cheaper": () if self.migration is None else self.migration.cheaper,
        }
        for key, names in named.items():
            if unknown := sorted(set(names) - known):
                raise ConfigError(
                    f"policy.params.gandiva.{key}: no server has {', '.join(unknown)}; expected "
                    f"GPU types of the cluster: {', '.join(sorted(known))}"
                )

    def record(self) -> dict[str, Any]:
        """Return the table for the log, without what is not used."""
        table = super().record()
        later = ("grow_after", "packing", "migration")
        return {name: each for name, each in table.items() if each is not None or name not in later}


RULES = {1: "own_affinity", 2: "new_affinity", 3: "any_free", 4: "in_turns"}
"""What decided where a job goes, by the number of the rule of reactive placement."""


@dataclass
class Memory:
    """The affinity of servers: the gang size of the first job that came to each.

    It is `stale` if anything has happened since the last plan that another could answer; what is
    tried can be judged at `wake_us`.
    """

    affinity: dict[NodeName, int] = field(default_factory=dict)
    stale: bool = True
    wake_us: int | None = None
    idle: IdleServers = field(default_factory=IdleServers)


class GandivaPolicy:
    """Places jobs as they arrive; each decision says by which rule, and the load."""

    name, version, oracle = "gandiva", "1", False
    needs_slicing = True
    measures = (Measure.load,)
    takes_notes = True  # the affinity of a server hangs on who came to it first

    def __init__(self, params: PlacingParams, placement: Placement) -> None:
        self._params, self._placement = params, placement
        self._packing = None if params.packing is None else params.packing.packing()
        self._migrations = None if params.migration is None else params.migration.migrations()

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Raise a ConfigError if a GPU type is named that no server has."""
        self._params.check_types(types)

    def start(self, view: View) -> Memory:
        """Return the affinities of a cluster as it is: of the first job on each server."""
        memory = Memory()
        for job in view.jobs.values():
            _label(memory, job)
        if self._params.grow_after is not None:
            memory.idle.begin(view)
        return memory

    def observers(self, memory: Memory) -> Observers:
        """Follow which servers have jobs, and whether anybody could be placed anew."""

        def given(event: facts.AllocationChanged, view: View) -> None:
            _label(memory, view.jobs[event.job_id])

        def touched(event: Any, view: View) -> None:
            memory.stale = True

        def planned(event: facts.RoundPlanned, view: View) -> None:
            memory.stale, memory.idle.looked_us = False, event.at_us

        def turned(event: facts.TurnStarted, view: View) -> None:
            if event.can_move and any(_has_free(view, share.node) for share in event.shares):
                memory.stale = True

        told: dict[Any, Any] = dict.fromkeys(REPLAN_AFTER, touched)
        told |= {
            facts.AllocationChanged: given,
            facts.RoundPlanned: planned,
            facts.TurnStarted: turned,
        }
        if self._packing is not None or self._migrations is not None:
            told |= self._trial_observers(memory)
        return told if self._params.grow_after is None else memory.idle.beside(told, touched)

    def _trial_observers(self, memory: Memory) -> Observers:
        """Follow what is tried, and who makes no progress beside others."""

        def touched(event: Any, view: View) -> None:
            memory.stale = True

        def slowed(event: facts.SpeedChanged, view: View) -> None:
            memory.stale |= not event.speed and bool(view.jobs[event.job_id].packed_with)

        kinds: tuple[type, ...] = (
            *(facts.TrialStarted, facts.TrialKept, facts.TrialReverted),
            *(facts.AttemptStarted, facts.JobReshaped),  # packs come once nothing else changes
        )
        return {**dict.fromkeys(kinds, touched), facts.SpeedChanged: slowed}

    def advance(self, memory: Memory, view: View) -> None:
        """Forget the affinity of servers that are empty; see when trials can be judged."""
        triers = [one for one in (self._packing, self._migrations) if one is not None]
        wakes_us = [at_us for one in triers if (at_us := one.next_us(view)) is not None]
        memory.wake_us = min(wakes_us, default=None)
        if self._params.grow_after is not None:
            memory.idle.note(view)
        if not memory.stale:
            return
        used = {share.node for job in view.jobs.values() for share in job.allocation.shares}
        memory.affinity = {node: gang for node, gang in memory.affinity.items() if node in used}

    def target(self, memory: Memory, view: View) -> None:
        """There are no shares to solve for."""

    def wake_at(self, memory: Memory) -> int | None:
        """Return when something tried can be judged, or GPUs are idle for long enough."""
        after_us = self._params.grow_after
        idle_us = None if after_us is None else memory.idle.wake_at(after_us)
        return min(
            (at_us for at_us in (memory.wake_us, idle_us) if at_us is not None), default=None
        )

    def settled(self, memory: Memory) -> bool:
        """Say whether nothing has happened since the last plan."""
        return not memory.stale

    def plan(self, memory: Memory, view: View, rng: Rng) -> Plan:
        """Let jobs spread over GPUs that became free; place who waits, by submission."""
        waiting = [job for job in view.jobs.values() if job.is_eligible]
        changes, waits = list[Change](), list[tuple[JobId, Wait]]()
        with Draft(view) as draft:
            placer = Placer(view, draft, memory.affinity, self._params.height_most)
            changes += [
                Rehome(job.job_id, allocation, Because("lower_height"))
                for job, allocation in placer.rehomed(view.jobs.values())
            ]
            changed = {change.job_id for change in changes}
            after_us, is_left = self._params.grow_after, False
            sizes = PlannedSizes(view, draft, placer, memory.idle, after_us or 0, changed)
            if after_us is not None:
                changes += sizes.apart()
            for job in waiting:
                room = NO_RESIZING if after_us is None else sizes.make_room(job)
                changes += room.changes
                if room.is_started:
                    continue
                start = self._start(job, draft, placer, room.choice)
                is_left |= isinstance(start, Wait)
                if isinstance(start, Start):
                    changes.append(start)
                elif view.all_reasons or _is_another(start, job.wait):
                    waits.append((job.job_id, start))
            trials = list[Try | Judge]()
            if self._migrations is not None:
                taken = frozenset(change.job_id for change in changes)
                moves, trials = self._migrations.steps(view, placer, taken)
                changes += moves
                changed |= {move.job_id for move in moves}
            if after_us is not None and not is_left:
                changes += sizes.grown()
        if self._packing is not None and not changes:
            trials += self._packing.steps(view)
        return Plan(tuple(changes), job_waits=tuple(waits), trials=tuple(trials))

    def _start(
        self, job: Job, draft: Draft, placer: Placer, found: FoundPlace | None
    ) -> Start | Wait:
        gpus = job.spec.gpus
        if not gpus:
            shares = draft.place_without_gpus(self._placement, job.demand)
            if isinstance(shares, Reason):
                return Wait(shares)
            return Start(job.job_id, Allocation(shares), Because("room"))
        left = draft.quota_left(job.spec.queue)
        if found is None and left is not None and left < gpus:
            return Wait(Reason.quota, gpus, max(0, left))
        choice = placer.place(job) if found is None else found
        if isinstance(choice, Reason):
            is_smaller = choice is Reason.no_capacity and self._params.grow_after is not None
            fewest = min(gpus, job.submitted_spec.sizes[0]) if is_smaller else gpus
            return Wait(choice, fewest, placer.free_for(job), detail=placer.detail)
        because = Because(RULES[choice.rule], (choice.height,))
        return Start(job.job_id, choice.allocation, because)


def _is_another(wait: Wait, told: Wait | None) -> bool:
    return told is None or (told.reason, told.detail) != (wait.reason, wait.detail)


def _has_free(view: View, node: NodeName) -> bool:
    """Say whether a server has GPUs that nobody was given."""
    server = view.cluster.servers[node]
    return bool(view.pools[server.configuration.gpu_type].free[server.position])


def _label(memory: Memory, job: Job) -> None:
    for share in job.allocation.shares:
        if share.gpu_mask:
            memory.affinity.setdefault(share.node, job.submitted_spec.gpus)


class Gandiva:
    """Reactive placement by affinity, with time-slicing (OSDI 2018)."""

    name = "gandiva"
    oracle = False
    Params = PlacingParams

    @staticmethod
    def build(params: PlacingParams, placement: Placement) -> GandivaPolicy:
        """Return the policy."""
        return GandivaPolicy(params, placement)
