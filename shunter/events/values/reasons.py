"""Why a job waits: a closed vocabulary, because old logs cannot be taught new words."""

from enum import StrEnum

from shunter.events.values.fact import value
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand


class Reason(StrEnum):
    """Why, above all, a job does not run; a policy may add a namespaced detail."""

    no_capacity = "no_capacity"
    fragmented = "fragmented"
    outranked = "outranked"
    gpu_type_unavailable = "gpu_type_unavailable"
    cpu_or_memory_short = "cpu_or_memory_short"
    locality_not_met = "locality_not_met"
    quota = "quota"
    share_met = "share_met"
    time_sliced = "time_sliced"
    guard_min_runtime = "guard_min_runtime"
    guard_preemption_limit = "guard_preemption_limit"
    waiting_for_round = "waiting_for_round"
    dependency = "dependency"
    held = "held"
    node_lost = "node_lost"
    backing_off = "backing_off"
    infeasible = "infeasible"
    refused = "refused"
    checkpoint_unreachable = "checkpoint_unreachable"
    split_kept = "split_kept"
    array_limit = "array_limit"
    node_drained = "node_drained"
    waiting_for_release = "waiting_for_release"
    displaced = "displaced"
    gpus_taken = "gpus_taken"
    awaiting_proposal = "awaiting_proposal"
    proposal_rejected = "proposal_rejected"
    checkpoint_stays = "checkpoint_stays"
    gpus_quarantined = "gpus_quarantined"


@value
class Wait:
    """A reason and its evidence, as numbers and ids; sentences are made in `app`.

    `needed` and `free` count GPUs (or whole units of what was short); `blockers` are jobs that
    hold what the waiting one needs, the first of them the best that lost or the one in front.
    """

    reason: Reason
    needed: int = 0
    free: int = 0
    blockers: tuple[JobId, ...] = ()
    detail: str = ""


@value
class ClassWait:
    """What holds a class of equal jobs back; None once it waits no more."""

    demand: Demand
    wait: Wait | None


@value
class Because:
    """Why an allocation changed: the rule, its scores, and who gains from it.

    `detail` is what the scores are about, where the rule does not say: a GPU type, for shares.
    """

    rule: str
    scores: tuple[int | float, ...] = ()
    beneficiaries: tuple[JobId, ...] = ()
    detail: str = ""
