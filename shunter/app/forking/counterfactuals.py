"""What would make a waiting job start: changes of which a fork says that it does.

Each candidate is one small change to the state at the moment: a job that ends, another priority, a
smaller gang, a larger quota, servers that join. The policy plans on the changed state, in a fork
that goes on for two plans, and only what gives the job GPUs there is told. The changes come in as
the orders and facts that they would be, so this is the same for every policy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shunter.app.forking.candidates import candidates, not_tried
from shunter.app.forking.changes import NOBODY_CALLS, callers_propose
from shunter.app.forking.fork import Change, MakeWorld, fork_at, standing_at
from shunter.app.forking.fork_point import ForkPoint, end_of_instant, fork_point
from shunter.app.forking.remaining import WorkEstimates
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.simulated_world import WorldParts, recorded_parts, simulated_world
from shunter.backends.simulated.failures import RecordedFailures
from shunter.backends.simulated.resuming import Resumed, TotalWork
from shunter.core.intake.inputs import ResizeJob
from shunter.core.interfaces import Backend
from shunter.core.state import WAITING, Job, JobPhase, State
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.trace import TraceJob

AT_ONCE_US = 2
"""No plan that is made at events comes later after a change: so far a fork goes on for it."""

WorldWith = Callable[[Change], MakeWorld]
"""Makes the simulated world that goes on from a state, for a change that is tried."""


@dataclass(frozen=True)
class Counterfactual:
    """A change with which a job starts, in words, and when that would be.

    `kind` is what is changed; `jobs` are those that would end, well under `good_end` and
    `good_ends`.
    """

    kind: str
    words: str
    starts_us: int
    jobs: tuple[JobId, ...] = ()


@dataclass(frozen=True)
class Counterfactuals:
    """What was found of the changes that were `tried`, and when without any.

    `not_tried` are sentences about ends that the job needs and that could not be tried. `now_us` is
    the instant it is.
    """

    found: tuple[Counterfactual, ...]
    tried: tuple[str, ...] = ()
    starts_us: int | None = None
    not_tried: tuple[str, ...] = ()
    now_us: int = 0

    def clock_of(self, starts_us: int) -> str:
        """Return when it would start: now, too, if only a microsecond later."""
        return clock(self.now_us if starts_us - self.now_us <= AT_ONCE_US else starts_us)


def recorded_world_with(parts: WorldParts) -> WorldWith:
    """Return what makes the world of a log, as it records it, for a change."""
    return partial(_world, parts)


async def counterfactuals(
    point: ForkPoint,
    world_with: WorldWith,
    job_id: JobId,
    blockers: Sequence[JobId],
    at_us: int = 0,
) -> Counterfactuals:
    """Return what would make a job start at once.

    Args:
        point: the moment, at which the job waits.
        world_with: makes the simulated world for a change.
        job_id: the job.
        blockers: jobs that hold what it needs, as planning told; may be empty.
        at_us: the instant it is, up to which nothing more has happened.
    """
    state = point.state()
    job = state.jobs.get(job_id)
    if job is None or job.phase is not WAITING or not _can_plan(point):
        return Counterfactuals(())
    now_us = max(state.now_us, at_us)
    works = _KnownWork(state.durations_us, point.rules.seed, now_us)
    starts_us = await _starts_us(point, world_with, job_id, Change(), works)
    if starts_us is not None:
        return Counterfactuals((), starts_us=starts_us, now_us=now_us)
    found: list[Counterfactual] = []
    tried: list[str] = []
    done: set[str] = set()
    for candidate in candidates(state, job, blockers, now_us):
        if candidate.kind in done:
            continue
        tried.append(candidate.words)
        trial = works.with_finished(candidate.finished)
        starts_us = await _starts_us(point, world_with, job_id, candidate.change, trial)
        if starts_us is not None:
            found.append(Counterfactual(candidate.kind, candidate.words, starts_us, candidate.jobs))
            if candidate.kind not in ("end", "good_end"):
                done.add(candidate.kind)
    ends = not_tried(state, job)
    return Counterfactuals(tuple(found), tuple(tried), not_tried=ends, now_us=now_us)


async def starts_if(reader: LogReader, found: Explanation, rebuild: Rebuild) -> Any:
    """Return what would make a job start, as a document; None: it does not wait.

    Args:
        reader: the log.
        found: the job at a moment.
        rebuild: makes the policy of a term.
    Raises:
        ConfigError: the policy is not installed, or the world of the log cannot be made.
    """
    if found.phase != JobPhase.waiting:
        return None
    seq = await end_of_instant(reader, found.story.seq)
    point = await fork_point(reader, seq, rebuild)
    blockers = () if found.evidence is None else found.evidence.blockers
    world_with = recorded_world_with(recorded_parts(point.started.config))
    job_id, at_us = found.story.job_id, found.story.at_us
    return _document(point, await counterfactuals(point, world_with, job_id, blockers, at_us))


def _document(point: ForkPoint, tried: Counterfactuals) -> dict[str, Any]:
    """Return what was found as a document."""
    starts = None if tried.starts_us is None else tried.clock_of(tried.starts_us)
    return {
        "evidence": "simulated",
        "tried": len(tried.tried),
        "tried_words": list(tried.tried),
        "not_tried": list(tried.not_tried),
        "starts_us": tried.starts_us,
        "starts": starts,
        "found": [
            {
                "kind": each.kind,
                "words": each.words,
                "jobs": list(each.jobs),
                "starts_us": each.starts_us,
                "starts": tried.clock_of(each.starts_us),
            }
            for each in tried.found
        ],
        "assumptions": [NOBODY_CALLS] if callers_propose(point.started) else [],
    }


async def _starts_us(
    point: ForkPoint, world_with: WorldWith, job_id: JobId, change: Change, works: "_KnownWork"
) -> int | None:
    """Return when a job gets GPUs in the next two plans of a fork; None: it does not."""
    world = world_with(change)
    standing = standing_at(point, world, None, works.work_of, Change(), works.now_us)
    fork = fork_at(standing, change)
    state, rules, now_us = fork.core.state, fork.core.rules, fork.now_us
    until_us = rules.grid_at(now_us + 1) + rules.round_us if rules.round_us else now_us + AT_ONCE_US
    await fork.run(until_us, is_enough=lambda: _is_given(state, job_id))
    return state.now_us if _is_given(state, job_id) else None


def _can_plan(point: ForkPoint) -> bool:
    """Say whether the policy can be asked, in rounds that are ours."""
    return bool(point.encoded_memory) and not point.rules.backend_rounds


def _is_given(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and bool(job.allocation.shares)


def _world(parts: WorldParts, change: Change) -> MakeWorld:
    resizes = any(isinstance(order, ResizeJob) for order in change.orders)

    def make(jobs: Sequence[TraceJob], resumed: Resumed | None) -> Backend:
        assert resumed is not None, "a counterfactual goes on from a state"
        state = resumed.state
        specs = [job.spec for job in state.jobs.values()]
        return simulated_world(
            parts,
            [(name, server.configuration) for name, server in state.cluster.servers.items()],
            jobs,
            specs=specs,
            resizes=resizes,
            resumed=resumed,
            further=change.added,
            losses=RecordedFailures(),
        )

    return make


class _KnownWork:
    """The work that a trace tells, or what is probable at an instant.

    Jobs that are `finished` have no more than they have done by then.
    """

    def __init__(
        self,
        durations_us: Mapping[JobId, int],
        seed: int,
        now_us: int,
        finished: frozenset[JobId] = frozenset(),
    ) -> None:
        self.now_us = now_us
        self._durations_us = durations_us
        self._seed = seed
        self._finished = finished
        self._estimates = WorkEstimates((), seed)

    def with_finished(self, finished: frozenset[JobId]) -> "_KnownWork":
        return _KnownWork(self._durations_us, self._seed, self.now_us, finished)

    def work_of(self, job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        if job_id in self._finished:
            return TotalWork(0)  # less than is done counts as that
        known_us = self._durations_us.get(job_id)
        if known_us is not None:
            return TotalWork(known_us)
        return self._estimates.work_of(job_id, spec, job, now_us)
