"""A multi-job as a document: each member by its history, and by the state if it has not ended."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shunter.api.documents.job_history import JobHistory
from shunter.api.documents.turn_shares import TurnShares
from shunter.ask.waits import job_state
from shunter.ask.words import allocation_in_words
from shunter.core.state import State


def group_document(
    group: str, user: str, histories: Sequence[JobHistory], state: State, now_us: int
) -> dict[str, Any]:
    """Return a group with its members.

    Args:
        group: its name.
        user: whose it is.
        histories: those of its members, by submission.
        state: what is true.
        now_us: the instant up to which service counts.
    """
    turns = TurnShares(state, now_us)
    members = [_member(history, state, now_us, turns) for history in histories]
    total_gpu_s = sum([member["service_gpu_s"] for member in members])
    for member in members:
        member["share"] = member["service_gpu_s"] / total_gpu_s if total_gpu_s else 0.0
    return {
        "group": group,
        "user": user,
        "total": len(members),
        "states": dict(sorted(Counter(member["state"] for member in members).items())),
        "service_gpu_s": total_gpu_s,
        "members": members,
    }


def _member(history: JobHistory, state: State, now_us: int, turns: TurnShares) -> dict[str, Any]:
    spec, job_id = history.submitted.spec, history.submitted.job_id
    job = None if history.outcome is not None else state.jobs.get(job_id)
    ended = "ending" if history.outcome is None else history.outcome.value
    service_us = history.service_gpu_us or 0 if job is None else job.service_us(now_us)
    sample = history.sample
    told = [None if sample is None else sample.step, *[one.step for one in history.attempts]]
    return {
        "id": job_id,
        "name": spec.name,
        "state": ended if job is None else job_state(job),
        "is_over": history.outcome is not None,
        "priority": history.priority if job is None else job.priority,
        "gpus": spec.gpus,
        "where": "" if job is None or not job.held.shares else allocation_in_words(job.held),
        "service_gpu_s": service_us / 1e6,
        "turns": None if job is None else turns.of(job),
        "step": max((step for step in told if step is not None), default=None),
        "total_steps": spec.total_steps,
        "batch_s": None if sample is None else sample.batch_s,
    }
