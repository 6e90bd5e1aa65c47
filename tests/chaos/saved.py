"""Whether each attempt goes on from where the job had last saved.

What counts is what the job itself says: a step is saved once its process has noted so, and what an
attempt begins with is the step it has noted first. A rank of an ordinary job has a checkpoint of
its own; one of the SDK counts once all ranks have written it. Only what lay on a server that was
lost, with another rank's part of it or alone, may be missing, and the log must say so.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.history import History, Process, Sign

__all__ = ["work"]

Attempts = dict[int, list[Process]]


def work(history: History) -> Iterator[str]:
    """No work is lost beyond the last checkpoint."""
    jobs: dict[str, Attempts] = defaultdict(lambda: defaultdict(list))
    for process in history.processes:
        if process.begun is not None:
            jobs[process.job][process.attempt].append(process)
    for job in sorted(jobs):
        plan = history.plan_of(job)
        is_whole = plan is not None and plan.kind == "sdk"
        for attempt in sorted(jobs[job]):
            before = _usable(history, job, jobs[job], attempt)
            for process in jobs[job][attempt]:
                yield from _of(process, before, is_whole=is_whole)


def _of(process: Process, before: Attempts, *, is_whole: bool) -> Iterator[str]:
    begun = process.begun
    assert begun is not None, "only processes that have begun are looked at"
    if is_whole:
        saved = _whole(before, begun)
    else:
        saved = {
            sign.step: each
            for attempt in sorted(before)
            for each in before[attempt]
            if each.rank == process.rank
            for sign in _has_saved(each)
            if sign.ns < begun.ns
        }
    best = max(saved, default=0)
    if begun.step < best:
        yield f"{process} begins at step {begun.step}, and {best} were saved by {saved[best]}"


def _whole(before: Attempts, begun: Sign) -> dict[int, Process]:
    """Return the steps that all ranks of an attempt have saved."""
    found: dict[int, Process] = {}
    for attempt in sorted(before):
        ranks: dict[int, set[int]] = defaultdict(set)
        world = 0
        for each in before[attempt]:
            world = each.begun.said["world"] if each.begun else world
            for sign in _has_saved(each):
                if sign.ns < begun.ns:
                    ranks[sign.step].add(each.rank)
        whole = [step for step, of in ranks.items() if len(of) == world]
        found |= dict.fromkeys(whole, before[attempt][0])
    return found


def _has_saved(process: Process) -> list[Sign]:
    """Return what it has saved, and what it began with: that lies where it runs as well."""
    return [sign for sign in process.signs if sign.what in ("begun", "saved")]


def _usable(history: History, job: str, attempts: Attempts, until: int) -> Attempts:
    """Return the attempts before one whose checkpoints it has no leave to go on without."""
    if history.has_shared_checkpoints:
        return {attempt: attempts[attempt] for attempt in attempts if attempt < until}
    usable: Attempts = {}
    for attempt, processes in attempts.items():
        nodes = {process.node for process in processes}
        if attempt < until and not nodes & _given_up(history, job, attempt, until):
            usable[attempt] = processes
    return usable


def _given_up(history: History, job: str, first: int, then: int) -> set[str]:
    """Return the servers without which a job goes on, of those that had a checkpoint of an attempt.

    The log says so before it says that the next attempt has started. Where it never came to that,
    or never heard that the first had started and may have saved, what was lost by then counts.
    """
    told = history.of_job(job)
    starts = {event["attempt"]: event["seq"] for event in told if event["kind"] == "AttemptStarted"}
    lost = {event["node"]: event["seq"] for event in history.of_kind("NodeLost")}
    since = starts.get(first, 0)
    if then not in starts or first not in starts:
        return {node for node, seq in lost.items() if since < seq}
    found = [
        event
        for event in told
        if event["kind"] == "CheckpointDiscarded"
        and event["attempt"] >= first
        and event["seq"] < starts[then]
    ]
    return {node for event in found for node in event["nodes"] if set(event["nodes"]) & set(lost)}
