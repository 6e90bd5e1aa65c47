"""Why a job waits, in a clause: the reasons of the log with their evidence."""

from typing import TYPE_CHECKING

from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.client.requests import Answer

CLAUSES = {
    "no_capacity": "too few GPUs are free",
    "fragmented": "enough GPUs are free, but not together",
    "outranked": "others come first",
    "gpu_type_unavailable": "no GPU of the type is free",
    "cpu_or_memory_short": "too few CPUs or too little memory beside the GPUs",
    "locality_not_met": "free GPUs are too far apart",
    "quota": "its queue has reached its quota",
    "share_met": "it has had its share of time",
    "time_sliced": "it takes turns with others",
    "guard_min_runtime": "who holds the GPUs may not be preempted yet",
    "guard_preemption_limit": "who holds the GPUs may never be preempted, or not again so soon",
    "waiting_for_round": "the next round decides",
    "waiting_for_release": "it was granted GPUs that others have yet to leave",
    "dependency": "it waits for other jobs to end",
    "held": "held: `shunter resume` lets it start",
    "array_limit": "it is not its turn in its array",
    "node_lost": "too few GPUs are in service",
    "node_drained": "too few GPUs are in service",
    "gpus_quarantined": "too few GPUs are in service",
    "gpus_taken": "others hold too many of the GPUs",
    "backing_off": "its last attempt failed, was lost or left by itself; it is tried again",
    "checkpoint_unreachable": "its checkpoint lies on a server that does not answer",
    "checkpoint_stays": "its checkpoint is too large to be copied, and its server has no room",
    "split_kept": "free GPUs are not split over servers as its checkpoints are",
    "displaced": "others have what it was to start on; the next round decides",
    "awaiting_proposal": "the order lets it start; no place was proposed for it yet",
    "proposal_rejected": "the order lets it start; its last proposal was rejected",
    "infeasible": "it can never run here",
    "refused": "the approver refused the change",
}
BLOCKERS_NAMED = 4


def clause(reason: "Answer") -> str:
    """Return why a job waits, with the numbers and ids behind it."""
    words = CLAUSES.get(reason["name"], reason["name"].replace("_", " "))
    if reason["name"] == "no_capacity" and reason["free"] >= reason["needed"] > 0:
        words = "too few GPUs were free at the last round"
    if reason["name"] == "cpu_or_memory_short" and not reason["needed"]:
        words = "too few CPUs or too little memory is free"
    parts = [words]
    if reason["needed"]:
        parts.append(f"needs {reason['needed']}, {reason['free']} free")
    blockers = reason["blockers"]
    if blockers:
        hidden = len(blockers) - BLOCKERS_NAMED
        named = ", ".join(blockers[:BLOCKERS_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
        parts.append(f"held back by {named}")
    array, _, at_once = reason["detail"].partition(":")
    if array == "array":
        parts.append(f"{counted(int(at_once), 'task')} of its array may run at once")
    elif reason["detail"]:
        parts.append(reason["detail"])
    return "; ".join(parts)
