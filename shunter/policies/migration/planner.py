"""The one planner of migrations: goals say who should be elsewhere, trials whether that is so.

A move has a cost, which is stated: the time it takes a job. It pays if the job gains more than that
within as long again as it has run, the usual guess for a job of unknown length. What nobody has
tried yet with a model is tried by jobs that have run for ten times the cost; what was measured
before is done again exactly where that gain exceeds the cost (Gandiva, OSDI 2018: a migration is
undone if it makes mini-batches slower).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shunter.core.cluster import Server
from shunter.core.plan import Judge, Move, Try
from shunter.core.planning.trials import (
    TrialRules,
    Verdict,
    is_known_to_pay,
    model_of,
    proposed,
    running,
)
from shunter.core.speeds.measured import Trial
from shunter.core.state import RUNNING, Job
from shunter.core.turn_shares import turn_shares
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.ids import GpuType, JobId, NodeName
from shunter.events.values.job_spec import SuspendMode
from shunter.events.values.reasons import Because
from shunter.events.values.trials import KEPT, MILLION, ChangeKey, TrialKind, TrialReason

# Why a running job may be moved: each goal names jobs and the servers that would be better.
#
# `colocate`: gangs over several servers come to one. `lower_height`: who shares GPUs in turns
# comes to free ones. `defragment`: who is on the server with the most free GPUs comes to others
# in use, so that one becomes empty. `cheaper_type`: jobs of one GPU leave types that others wait
# for. `apart`: who is slower than it was on the same type of GPU leaves its neighbours (Gandiva,
# OSDI 2018, 3.4, and its slides). A goal is a function; another one is added to `GOALS`. One goal
# is not among them, since it is not for the mover and frees a block by all of its moves or by
# none: `making_room.py`.

Check = Callable[[Server], bool]


@dataclass(frozen=True)
class Wanted:
    """A move that would be good.

    Attributes:
        job: who moves.
        change: what verdicts remember it by, beside its model and type of GPU.
        is_wanted: whether a server would do.
    """

    job: Job
    change: str
    is_wanted: Check


@dataclass(frozen=True)
class GoalSettings:
    """What goals go by.

    Attributes:
        free_most: so many free GPUs at least make a server one to be emptied.
        cheaper: types of GPU, the cheapest first.
        slower: by which part a job has to be slower than it was, in millionths, to be moved away.
    """

    free_most: int
    cheaper: tuple[GpuType, ...]
    slower: int


class Scene(Protocol):
    """The servers as they would be with what the plan has drafted so far."""

    @property
    def servers(self) -> Mapping[NodeName, Server]:
        """The servers with GPUs that take jobs."""

    def free_on(self, node: NodeName) -> int:
        """Return how many GPUs of a server nobody was given."""

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""


Goal = Callable[[View, Scene, Sequence[Job], GoalSettings], Iterator[Wanted]]
"""Yields the moves it wants, the most urgent first; jobs are those that may be moved."""


def colocate(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring gangs over several servers to one."""
    for job in jobs:
        if job.allocation.is_spread:
            pieces = sorted((share.gpus for share in job.allocation.shares), reverse=True)
            yield Wanted(job, f"colocate {'+'.join(map(str, pieces))}", _of_type(view, job))


def lower_height(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring who shares GPUs in turns to free ones, the last submitted first."""
    for job in reversed(jobs):
        # One after the other: each sees what moves of this plan have left.
        is_sliced = job.allocation.sharing is Sharing.sliced and len(job.allocation.shares) == 1
        if is_sliced and scene.surplus_on(_node_of(job)) > 0:
            yield Wanted(job, "lower_height", _of_type(view, job))


def defragment(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs from the server with the most free GPUs to others that are in use."""
    free = {name: scene.free_on(name) for name in scene.servers}
    used = {name for name, server in scene.servers.items() if free[name] < server.gpus_up}
    emptiest = max(
        (name for name in used if free[name] >= settings.free_most),
        key=lambda name: (free[name], -scene.servers[name].position),
        default=None,
    )
    if emptiest is None:
        return
    fuller = {name for name in used if free[name] < free[emptiest]}
    for job in jobs:
        nodes = {share.node for share in job.allocation.shares}
        if nodes == {emptiest}:
            yield Wanted(
                job,
                "defragment",
                _both(_of_type(view, job), lambda server: server.name in fuller),
            )


def cheaper_type(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs of one GPU to cheaper types while anybody waits."""
    if not any(job.is_eligible for job in view.jobs.values()):
        return
    order = settings.cheaper
    for job in jobs:
        mine = _type_of(view, job)
        if job.spec.gpus != 1 or mine not in order:
            continue
        for gpu_type in order[: order.index(mine)]:
            yield Wanted(
                job,
                f"cheaper_type {gpu_type}",
                _is_type(gpu_type),
            )


def apart(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs that are slower than they were away from their neighbours."""

    def is_empty(server: Server) -> bool:
        return scene.free_on(server.name) == server.gpus_up

    for job in jobs:
        best, now_us = job.best_batch, job.pace.batch_us_at(job.speed)
        if best is None or now_us is None or best.gpus != job.held.gpus:
            continue
        if now_us * MILLION > best.batch_us * (MILLION + settings.slower):
            yield Wanted(job, "apart", _both(_of_type(view, job), is_empty))


GOALS: Mapping[str, Goal] = {
    "colocate": colocate,
    "lower_height": lower_height,
    "apart": apart,
    "cheaper_type": cheaper_type,
    "defragment": defragment,
}
"""The goals in the order in which they are asked: jobs that are not co-located first."""

WITHOUT_GAIN = frozenset(("cheaper_type", "defragment"))
"""Goals by which a job need not be faster elsewhere; it must not be slower."""


def _of_type(view: View, job: Job) -> Check:
    return _is_type(_type_of(view, job))


def _is_type(gpu_type: GpuType) -> Check:
    return lambda server: server.configuration.gpu_type == gpu_type


def _both(one: Check, other: Check) -> Check:
    return lambda server: one(server) and other(server)


def _type_of(view: View, job: Job) -> GpuType:
    return view.cluster.servers[_node_of(job)].configuration.gpu_type


def _node_of(job: Job) -> NodeName:
    return job.allocation.shares[0].node


BACK = "moved_back"
"""The rule of a move that undoes one."""

RUN_LEAST = 10
"""So many times the cost of a move a job has run before the first one of its kind is tried."""


class Sites(Scene, Protocol):
    """Places on a draft, one move after another."""

    def elsewhere(self, job: Job, is_wanted: Callable[[Server], bool]) -> Allocation | None:
        """Move a job to free GPUs of one other server, if there are such; return them."""

    def back(self, job: Job, origin: Allocation) -> bool:
        """Move a job back to where it was, if that is free; say whether it is."""


@dataclass(frozen=True)
class Migrations:
    """Which moves are tried, kept and undone.

    Attributes:
        rules: how long a move is measured, from its end on.
        cost_us: what a move costs a job, in microseconds.
        goals: the names of the goals, of `GOALS`.
        settings: what goals go by.
    """

    rules: TrialRules
    cost_us: int
    goals: tuple[str, ...]
    settings: GoalSettings

    def steps(
        self, view: View, sites: Sites, taken: frozenset[JobId]
    ) -> tuple[list[Move], list[Try | Judge]]:
        """Return which jobs move, and which trials end and begin with that.

        Args:
            view: the cluster and the jobs.
            sites: where there is room, after what the plan does already.
            taken: the jobs that the plan changes already.
        """
        moves, trials = list[Move](), list[Try | Judge]()
        for trial, (job,) in [each for each in running(view) if len(each[1]) == 1]:
            if trial.kind is not TrialKind.migrate or job.phase is not RUNNING:
                continue  # it has yet to arrive
            verdict = self._verdict(trial, job, view.now_us)
            if verdict is not None:
                verdict, move = self._carried_out(trial, job, verdict, sites)
                moves += move
                trials.append(verdict.judges(job.job_id))
        jobs = [job for job in view.jobs.values() if may_move(job, view, taken)]
        for name in GOALS:
            if name in self.goals:
                self._pursue(name, view, sites, jobs, moves, trials)
        return moves, trials

    def next_us(self, view: View) -> int | None:
        """Return when to look again: after a probe, as long as a job gets on."""
        gets_on = any(
            job.phase is RUNNING and (job.speed or not job.gpus) for job in view.jobs.values()
        )
        return view.now_us + self.rules.probe_us if gets_on or view.trials else None

    def _pursue(
        self,
        name: str,
        view: View,
        sites: Sites,
        jobs: Sequence[Job],
        moves: list[Move],
        trials: list[Try | Judge],
    ) -> None:
        """Begin the moves that a goal wants, as far as they may pay and there is room."""
        moved = {move.job_id for move in moves}
        shares = turn_shares(job for job in view.jobs.values() if job.takes_turns)
        for wanted in GOALS[name](view, sites, jobs, self.settings):
            job = wanted.job
            if job.job_id in moved:
                continue
            share = shares.get(job.job_id, 1.0)
            trial = self._trial(view, wanted, share, must_gain=name not in WITHOUT_GAIN)
            if trial is None:
                continue
            target = sites.elsewhere(job, wanted.is_wanted)
            if target is not None:
                moved.add(job.job_id)
                moves.append(Move(job.job_id, target, Because(name)))
                trials.append(trial)

    def _trial(self, view: View, wanted: Wanted, share: float, *, must_gain: bool) -> Try | None:
        """Return the trial of a move; None: it would not pay, or nobody can say so far.

        `share` is the part of its GPUs' time that the job has as things are; what is known of a
        move is of rates on its turn alone.
        """
        job, sum_before = wanted.job, max(1, int(share * MILLION))
        server = view.cluster.servers[job.allocation.shares[0].node]
        key = ChangeKey(wanted.change, (model_of(job),), server.configuration.gpu_type)
        margin = self._margin(job, view.now_us)
        pays = is_known_to_pay(key, view.verdicts, sum_before, margin, must_gain=must_gain)
        is_young = margin > MILLION // RUN_LEAST
        if pays is False or (pays is None and is_young):
            return None
        return proposed(job, (), key, TrialKind.migrate, sum_before)

    def _margin(self, job: Job, now_us: int) -> int:
        """Return what a move costs of as much time as a job has run, in millionths."""
        return self.cost_us * MILLION // max(1, job.occupied_us(now_us))

    def _verdict(self, trial: Trial, job: Job, now_us: int) -> Verdict | None:
        must_gain = trial.key.change.partition(" ")[0] not in WITHOUT_GAIN
        margin = self._margin(job, now_us)
        return self.rules.verdict(trial, (job,), now_us, margin, must_gain=must_gain)

    def _carried_out(
        self, trial: Trial, job: Job, verdict: Verdict, sites: Sites
    ) -> tuple[Verdict, list[Move]]:
        """Return a verdict with the move that undoes one, where there is a way back."""
        if verdict.reason in KEPT:
            return verdict, []
        if sites.back(job, trial.origin):
            return verdict, [Move(job.job_id, trial.origin, Because(BACK))]
        return Verdict(TrialReason.no_way_back, verdict.sum_after, verdict.batches), []


def may_move(job: Job, view: View, taken: frozenset[JobId]) -> bool:
    """Say whether a job runs where it was put, and nothing else is done to it."""
    return (
        job.phase is RUNNING
        and bool(job.spec.gpus)
        and job.held == job.allocation
        and not job.end_cause
        and not job.packed_with
        and job.job_id not in view.trials
        and job.job_id not in taken
        and job.spec.suspend_mode is not SuspendMode.never
        and job.spec.migratable
    )
