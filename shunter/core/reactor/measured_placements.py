"""What gangs measure where they are, from which the tolerance of their model is learnt.

The state has the mean time of a job's mini-batches since something changed beside it (`Pace`). Once
that is of enough samples it is told, once, with how far apart the job's GPUs are.
A job that shares GPUs, or is between two speeds, says nothing of distance.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from shunter.core.performance.speed_model import level_of
from shunter.core.performance.trials import SAMPLES_BEFORE
from shunter.core.planning.planner import RoundRules
from shunter.core.reactor.measured_shares import MeasuredShares
from shunter.core.state import RUNNING, Job, State
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.facts.tolerance import ToleranceLearnt
from shunter.events.kinds import Event
from shunter.events.values.allocation import Sharing

SAMPLES_COUNTED: Final = 4
"""So many samples after those that may tell of what was before, and their mean is told."""
_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def sample_reactions(
    state: State, rules: RoundRules
) -> dict[type[Event], Callable[[Any, Any], Sequence[Event]]]:
    """Return what follows from samples: corrections, and what is learnt."""
    check, learns = rules.table_check, rules.learns_tolerance
    if check is None and not learns:
        return {}
    shares = None if check is None else MeasuredShares(state, check)

    def sampled(fact: ProfileSampled, before: None) -> Sequence[Event]:
        corrected = () if shares is None else shares.sampled(fact, before)
        return [*corrected, *(_learnt(fact, state) if learns else ())]

    return {ProfileSampled: sampled}


def _learnt(fact: ProfileSampled, state: State) -> Sequence[ToleranceLearnt]:
    job = state.jobs[fact.job_id]
    pace = job.pace
    if not fact.batch_s or pace.seen != SAMPLES_BEFORE + SAMPLES_COUNTED:
        return ()
    batch_us = pace.batch_us_at(job.speed)
    if batch_us is None or not _tells_of_distance(job):
        return ()
    servers, shares = state.cluster.servers, job.held.shares
    nodes = {share.node: servers[share.node].configuration for share in shares}
    told = ToleranceLearnt(
        *(fact.at_us, job.job_id, job.spec.model, nodes[shares[0].node].gpu_type),
        level_of(job.held, nodes),
        tuple(sorted([share.gpus for share in shares], reverse=True)),
        *(batch_us, SAMPLES_COUNTED, job.spec.batch_size),
    )
    return () if _is_known(told, state) else (told,)


def _tells_of_distance(job: Job) -> bool:
    """Say whether a job is a gang of a model that has its GPUs to itself."""
    spec, held = job.spec, job.held
    if not spec.model or spec.gpus < 2 or job.phase is not RUNNING or held.gpus != spec.gpus:
        return False
    return held.sharing is _EXCLUSIVE


def _is_known(told: ToleranceLearnt, state: State) -> bool:
    """Say whether it is what the same job told last of such a placement."""
    key = (told.gpu_type, told.level, told.split, told.batch_size)
    return any(
        each.key == key and (each.job_id, each.last_us) == (told.job_id, told.batch_us)
        for each in state.learnt.get(told.model, ())
    )
