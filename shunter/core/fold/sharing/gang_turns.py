"""The turns of gangs over several servers: each tells of its own, and work needs all of them.

A gang works, and holds its GPUs, from when the last of its servers has given it its turn until the
first of them has ended it. In between, `State.gang_turns` has since when which of them are on.
"""

from collections.abc import Iterable

from shunter.core.state import Job, State
from shunter.events.facts import TurnEnded, TurnStarted
from shunter.events.values import NodeName


def can_begin(state: State, job: Job, event: TurnStarted) -> bool:
    """Say whether a job can get its turn where it is told: it has none there."""
    if not job.is_spread:
        return not job.gpus and sum([share.gpus for share in event.shares]) == job.held.gpus
    on = state.gang_turns.get(job.job_id, {})
    gpus = {share.node: share.gpus for share in job.held.shares}
    told = {share.node: share.gpus for share in event.shares}
    if job.gpus or not told or len(told) != len(event.shares):
        return False
    return all(node not in on and gpus.get(node) == count for node, count in told.items())


def can_end(state: State, job: Job, event: TurnEnded) -> bool:
    """Say whether the turn of a job can end where it is told: it has one there."""
    if not job.is_spread:
        return bool(job.gpus)
    on = _nodes(job) if job.gpus else set(state.gang_turns.get(job.job_id, ()))
    return bool(on) and set(event.nodes) <= on


def part_began(state: State, job: Job, event: TurnStarted, at_us: int) -> int | None:
    """Note that servers have given a gang its turn.

    Returns:
        since when it has that on all of them; None: some are missing.
    """
    on = dict(state.gang_turns.get(job.job_id, {}))
    on |= {share.node: at_us for share in event.shares}
    if len(on) < len(job.held.shares):
        state.gang_turns[job.job_id] = on
        return None
    state.gang_turns.pop(job.job_id, None)
    return max(on.values())


def part_ended(state: State, job: Job, nodes: Iterable[NodeName], at_us: int) -> None:
    """Note that servers have ended the turn of a gang; none named: all of them."""
    gone = set(nodes) or _nodes(job)
    known = dict.fromkeys(sorted(_nodes(job)), at_us) if job.gpus else {}
    on = state.gang_turns.pop(job.job_id, known)
    left = {node: since_us for node, since_us in on.items() if node not in gone}
    if left:
        state.gang_turns[job.job_id] = left


def _nodes(job: Job) -> set[NodeName]:
    return {share.node for share in job.held.shares}
