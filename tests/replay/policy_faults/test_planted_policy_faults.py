"""A fault planted in a policy is found by `replay --verify`, and can be named from its text alone.

A real policy decides a run; the same policy with a fault in it, a subclass of the real one, decides
it again. Each case says by what in the text a reader finds the fault.
"""

import asyncio
import dataclasses
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from shunter.ask import Divergence, verify_log
from shunter.core import NO_GUARDS, Job, Observers, Plan, Rng, Start, View
from shunter.core.planning import RoundRules, Spread
from shunter.core.ranking import Misfit, RankedPolicy, Ranking
from shunter.events import JobFinished, SchedulerStarted
from shunter.events.log import read_log
from shunter.policies import AttainedService, SubmissionOrder
from shunter.run import rebuild
from tests.unit.app.forking.worlds import simulated, tree

Plant = Callable[[RankedPolicy, RoundRules], tuple[RankedPolicy, RoundRules]]

CLOCK_US = count(1_764_165_000_000_000, 1_000_000)
"""A clock that goes on by a second each time that it is read."""


class LastInFirstOut(SubmissionOrder):
    """The order reversed."""

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        return -job.ordinal, None


class OffByOne(AttainedService):
    """A job falls to the next queue one queue too late."""

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        queue, changes_at = super().standing(job, view)
        return max(0, queue - 1), changes_at


class ReadsTheClock(AttainedService):
    """Service is counted up to the time of day instead of the view's instant."""

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        queue, changes_at = super().standing(job, view)
        return (next(CLOCK_US) if job.allocation.shares else queue), changes_at


class ForgetsTimers(RankedPolicy):
    """The timers of ranks that change by themselves are not restored with a snapshot."""

    def advance(self, memory: Ranking, view: View) -> None:
        memory.timers.clear()
        super().advance(memory, view)


class HearsNoEnds(RankedPolicy):
    """Nothing is planned when a job ends."""

    def observers(self, memory: Ranking) -> Observers:
        observers = dict(super().observers(memory))
        ended = observers[JobFinished]

        def forgotten(event: Any, view: View) -> None:
            was_needed = memory.replan_needed
            ended(event, view)
            memory.replan_needed = was_needed

        return {**observers, JobFinished: forgotten}


class OrderOfASet(RankedPolicy):
    """Changes in the order in which a set of them would be gone through, suspensions too."""

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        plan = super().plan(memory, view, rng)
        changes = sorted(plan.changes, key=lambda each: zlib.crc32(each.job_id.encode()))
        return replace(plan, changes=tuple(changes))


class OneStartARound(RankedPolicy):
    """Only the first job that could start does."""

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        plan = super().plan(memory, view, rng)
        starts = [each for each in plan.changes if isinstance(each, Start)]
        return replace(plan, changes=tuple(each for each in plan.changes if each not in starts[1:]))


class SaysNothing(RankedPolicy):
    """Why classes wait is not told."""

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        return replace(super().plan(memory, view, rng), waits=())


def fields_of(record: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(record)


def with_index(kind: type[Any], **changes: object) -> Plant:
    """Return the plant of another index, with the parameters of the real one."""

    def plant(policy: RankedPolicy, rules: RoundRules) -> tuple[RankedPolicy, RoundRules]:
        index = policy.index
        given = {each.name: getattr(index, each.name) for each in fields_of(index)}
        return replace(policy, index=kind(**{**given, **changes})), rules

    return plant


def as_policy(kind: type[RankedPolicy]) -> Plant:
    """Return the plant of another engine around the same index."""

    def plant(policy: RankedPolicy, rules: RoundRules) -> tuple[RankedPolicy, RoundRules]:
        given = {each.name: getattr(policy, each.name) for each in fields_of(policy)}
        return kind(**given), rules

    return plant


def spread(policy: RankedPolicy, rules: RoundRules) -> tuple[RankedPolicy, RoundRules]:
    return replace(policy, placement=Spread()), rules


def unguarded(policy: RankedPolicy, rules: RoundRules) -> tuple[RankedPolicy, RoundRules]:
    return policy, replace(rules, guards=NO_GUARDS)


@dataclass(frozen=True)
class Case:
    """A fault in a policy, and what of the text names it."""

    policy: str
    plant: Plant
    jobs: tuple[str, ...]
    says: tuple[str, ...]


STARTS = "differs   which jobs get GPUs, by its order and by what it holds to fit"
LEAVES = "differs   which jobs leave, by its order, its guards and whether it preempts"
LAS = (
    'term      1: las 1, queues_gpu_s = ["1h", "20h"], placement consolidated, plans by round of 1m'
)
FIFO = "term      1: fifo 1, placement consolidated, plans by round of 1m"
AGAIN = "again     the log was gone through once more, with the same answer"
CASES = {
    "order reversed": Case(
        "fifo",
        with_index(LastInFirstOut),
        ("1",),
        (FIFO, "first differing term   submission of 1: 0 recorded, -1 replayed", AGAIN),
    ),
    "order of a set": Case(
        "las",
        as_policy(OrderOfASet),
        ("13",),
        (LAS, "refuse las for 13: no_capacity (GPUs of node gpu3 are taken)", AGAIN),
    ),
    "misfits skipped": Case(
        "fifo",
        with_index(SubmissionOrder, misfit=Misfit.skipped),
        ("18",),
        (FIFO, f"{STARTS}: only replayed 18", "first 17, 18;", "rank      18 2 of 2"),
    ),
    "preempts": Case(
        "fifo_backfill",
        with_index(SubmissionOrder, preemptive=True),
        ("first 17",),
        ("first differing field  waits[0].wait.reason: no_capacity recorded, outranked replayed",),
    ),
    "guard ignored": Case(
        "las",
        unguarded,
        ("17", "14"),
        (
            f"{LAS}, guards.min_runtime = 30m",
            f"{STARTS}: only replayed 14",
            "waits: 1 GPU: guard_min_runtime (free 0)",
            (
                "take everything from 17: outranked, because it had used 1 GPU-hour, so it was in "
                "the second queue, for 14"
            ),
            "on its GPUs since T+08:20:00",
        ),
    ),
    "queue off by one": Case(
        "las",
        with_index(OffByOne),
        ("13", "17"),
        (
            LAS,
            "rank      13 has GPUs: has used 12.8 GPU-hours, so it is in the first queue",
        ),
    ),
    "clock read": Case(
        "las",
        with_index(ReadsTheClock),
        ("13", "14"),
        (
            LAS,
            LEAVES,
            "again     the log was gone through once more, with another answer: the policy",
        ),
    ),
    "parameter changed": Case(
        "las",
        with_index(AttainedService, bounds_gpu_us=(600_000_000,)),
        ("13", "14"),
        (
            LAS,
            LEAVES,
            "rank      14 has GPUs: has used 3,180 GPU-seconds, so it is in the second",
        ),
    ),
    "other placement": Case(
        "las",
        spread,
        ("1",),
        (
            LAS,
            "differs   where jobs are placed, which are the same jobs",
            "first differing term   none: 1 has the same score, and other GPUs",
            "servers   gpu1 has 3 of 4 GPUs free; gpu2 has 4 of 4 GPUs free",
        ),
    ),
    "timers not restored": Case(
        "las",
        as_policy(ForgetsTimers),
        ("13", "17"),
        (
            LAS,
            "its memory is out of date: ranked anew it has used 12.8 GPU-hours, so it is in the ",
        ),
    ),
    "ends not heard": Case(
        "fifo",
        as_policy(HearsNoEnds),
        ("17",),
        (FIFO, "differs   when it decides: no round is due here, and one was recorded"),
    ),
    "one start a round": Case(
        "las",
        as_policy(OneStartARound),
        ("14",),
        (LAS, f"{STARTS}: only recorded 14", "servers   gpu1 has 3 of 4 GPUs free"),
    ),
    "reasons not told": Case(
        "fifo",
        as_policy(SaysNothing),
        ("first 17",),
        (FIFO, "differs   what it says of why jobs wait", "waits: 4 GPUs: no_capacity (free 3)"),
    ),
}


@cache
def log_of(name: str) -> str:
    """Return the log of a run under the real policy."""
    policy: dict[str, object] = {"name": name, "trigger": "round", "round": "60s"}
    if name == "las":
        policy["guards"] = {"min_runtime": "30m"}
    return simulated(Path(mkdtemp()), tree(name, policy=policy))


@cache
def diverged(name: str) -> Divergence:
    """Return where a run comes out otherwise by the policy with the fault of a case."""
    case = CASES[name]

    def broken(started: SchedulerStarted) -> tuple[RankedPolicy, RoundRules]:
        policy, rules = rebuild(started)
        assert isinstance(policy, RankedPolicy)
        return case.plant(policy, rules)

    url = log_of(case.policy)

    async def verified() -> Divergence | None:
        async with read_log(url) as reader:
            return (await verify_log(reader, broken)).divergence

    found = asyncio.run(verified())
    assert found is not None, "the fault is not found"
    return found


@pytest.mark.parametrize("name", CASES)
def test_fault_can_be_named_from_the_text_alone(name: str) -> None:
    case, found = CASES[name], diverged(name)
    text = "\n".join(found.lines())

    for words in (*case.says, *case.jobs):
        assert words in text, text
    assert f"diverged at decision {found.decision} (e{found.seq}" in text
    assert f"policy  {case.policy} 1 -> {case.policy} 1" in text
    assert "inputs identical  yes" in text
    assert re.search(r"answers   job +recorded +replayed", text), text


@pytest.mark.parametrize("name", CASES)
def test_both_answers_are_those_of_the_log_and_of_the_policy(name: str) -> None:
    """The recorded one is the log's own events, and a text tells each job that differs once."""
    found = diverged(name)
    answers, document = found.answers, found.document()

    assert answers.recorded or answers.replayed
    recorded = {getattr(each, "job_id", "") for each in answers.recorded}
    replayed = {getattr(each, "job_id", "") for each in answers.replayed}
    assert document["answers"]["nature"] == answers.nature()  # type: ignore[index]  # of a document
    assert recorded | replayed >= {getattr(each, "job_id", "") for each in (found.recorded,)}
    assert found.seen is not None
    ranked = {rank.job_id for rank in found.seen.ranks}
    assert ranked <= recorded | replayed
