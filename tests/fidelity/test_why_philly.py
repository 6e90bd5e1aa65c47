"""`why` on the Philly run under `las`: each number in its sentences, worked out from the events.

A sentence that no pattern here knows fails, so no number goes unchecked.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shunter.ask import clock, fold_events, gpu_time_in_words, ordinal_in_words, span, used_in_words
from shunter.ask.why import document, explain
from shunter.config import load_config
from shunter.core import Job, JobPhase, State
from shunter.events import AllocationChanged, Event, JobFinished, JobId, JobSubmitted, RoundPlanned
from shunter.events.log import read_log
from shunter.run import rebuild, simulate
from tests.replay.truth.brute_force import Truth

pytestmark = pytest.mark.fidelity

ROOT = Path(__file__).resolve().parents[2]
PHILLY = ROOT.parent / "shared" / "traces" / "philly.csv"
BOUNDS_GPU_US = (3_600_000_000, 72_000_000_000)
SHARE = 0.5
GPUS = r"([\d,]+) GPUs?"
JOBS = r"([\d,]+) jobs?"


@dataclass
class Told:
    """What was said of a job at an event, and what is true there."""

    said: dict[str, Any]
    events: Sequence[Event]
    truth: Truth

    @property
    def now_us(self) -> int:
        return self.truth.at_us

    @property
    def job_id(self) -> JobId:
        return JobId(self.said["job"]["id"])

    @property
    def job(self) -> Job:
        return self.truth.jobs[self.job_id]

    @property
    def own(self) -> list[AllocationChanged]:
        return [
            event
            for event in self.truth.events
            if isinstance(event, AllocationChanged) and event.job_id == self.job_id
        ]

    def key(self, job: Job) -> tuple[int, int]:
        used_us = job.service_us(self.now_us)
        return sum(used_us >= bound for bound in BOUNDS_GPU_US), job.ordinal

    def left_us(self, job: Job) -> int:
        done_us = job.done_us(self.now_us)
        return max(0, self.truth.state.durations_us[job.job_id] - done_us)


def in_words(jobs: Sequence[Job], told: Told) -> tuple[str, str, str]:
    """Return how many jobs these are, their GPUs, and the work that they have left."""
    left_us = sum(told.left_us(job) * job.spec.gpus for job in jobs)
    gpus = sum(job.spec.gpus for job in jobs)
    return f"{len(jobs):,}", f"{gpus:,}", gpu_time_in_words(left_us)


def waited(told: Told, words: str, reason: str) -> None:
    submitted = next(
        event
        for event in told.truth.events
        if isinstance(event, JobSubmitted) and event.job_id == told.job_id
    )
    since_us = told.own[-1].at_us if told.own else submitted.at_us
    assert words == span(told.now_us - since_us)
    assert reason == told.said["reason"]["name"]


def preempted(told: Told, at: str, used: str, queue: str, winners: str) -> None:
    left = told.own[-1]
    assert not left.allocation.shares
    assert at == clock(left.at_us)
    used_us = told.job.service_us(left.at_us)
    assert used == used_in_words(used_us)
    assert queue == ordinal_in_words(sum(used_us >= bound for bound in BOUNDS_GPU_US))
    got = {
        event.job_id
        for event in told.truth.events
        if isinstance(event, AllocationChanged)
        and event.at_us == left.at_us
        and event.allocation.shares
    }
    assert set(re.findall(r"\d+", winners.partition(" and ")[0])) <= got


def needs(
    told: Told,
    needed: str,
    free: str,
    which: str | None,
    names: str | None,
    at: str | None,
    behind: str | None,
) -> None:
    if which is not None and names is not None:
        given = int(free) if which == "which" else int(which.removesuffix(" of them"))
        jobs = [told.truth.jobs[JobId(each)] for each in re.findall(r"\b\d+(?! more)\b", names)]
        assert all(job in told.truth.waiting() for job in jobs)
        assert all(told.key(job) < told.key(told.job) for job in jobs)
        assert given <= int(free)
        assert " more" in names or given <= sum(job.spec.gpus for job in jobs)
        plans = (event for event in told.events if isinstance(event, RoundPlanned))
        assert at == clock(next(each.at_us for each in plans if each.at_us > told.now_us))
    assert which is not None or int(free) < int(needed), "for what those are is not said"
    assert int(needed) == told.job.spec.gpus
    assert int(free) == told.truth.most_free()
    mine = told.key(told.job)
    others = [job.allocation.gpus for job in told.truth.holders() if told.key(job) > mine]
    assert int(behind or 0) == sum(others)


def starts(told: Told, needed: str, free: str, behind: str | None, at: str) -> None:
    """The plan named is the next, and it starts the job: the log says so."""
    needs(told, needed, free, "which", None, None, behind)
    got = [each for each in told.events if getattr(each, "job_id", None) == told.job_id]
    grants = [
        each for each in got if isinstance(each, AllocationChanged) and each.allocation.shares
    ]
    assert at == clock(next(each.at_us for each in grants if each.at_us >= told.now_us))


def found(told: Told, reason: str, number: str, at: str, now: str) -> None:
    rounds = [
        event
        for event in told.truth.events
        if isinstance(event, RoundPlanned) and event.number == int(number)
    ]
    assert [clock(event.at_us) for event in rounds] == [at]
    assert (reason, now) == (told.said["reason"]["name"], clock(told.now_us))


def ranks(told: Told, place: str, waiting: str, before: str | None, used: str, queue: str) -> None:
    line = sorted(told.truth.waiting(), key=told.key)
    mine = line.index(told.job)
    assert (int(place), int(waiting)) == (mine + 1, len(line))
    assert re.findall(r"\d+", before or "") == [job.job_id for job in line[:mine][:3]]
    assert used == used_in_words(told.job.service_us(told.now_us))
    assert queue == ordinal_in_words(told.key(told.job)[0])


def as_equals(told: Told, since: str, what: str) -> None:
    """Its class's reason is told by the round of that instant, before its wait began."""
    (recorded,) = (
        event
        for event in told.truth.events
        if isinstance(event, RoundPlanned)
        and clock(event.at_us) == since
        and any(entry.demand == told.job.waits_as for entry in event.waits)
    )
    wait = next(each.wait for each in recorded.waits if each.demand == told.job.waits_as)
    assert wait == told.truth.state.class_waits[told.job.waits_as], "none has told another since"
    assert wait is not None
    assert wait.reason.name == told.said["reason"]["name"]
    own = [event for event in told.truth.events if getattr(event, "job_id", None) == told.job_id]
    came_us, began_us = own[0].at_us, told.own[-1].at_us if told.own else own[0].at_us
    assert recorded.at_us <= began_us
    assert what == ("it came" if recorded.at_us <= came_us else "this wait began")


def not_looked_at(told: Told) -> None:
    last = told.truth.events[-1]
    assert isinstance(last, JobSubmitted), "it came at this very instant, and no plan has been"


def in_queue(told: Told, *words: str) -> None:
    mine = told.key(told.job)
    ahead = [job for job in told.truth.waiting() if told.key(job) < mine]
    assert words == in_words(ahead, told)


def on_gpus(told: Told, *words: str) -> None:
    mine = told.key(told.job)
    ahead = [job for job in told.truth.holders() if told.key(job) < mine]
    assert words == in_words(ahead, told)


def finished(told: Told, at: str, after: str, waiting: str, held: str) -> None:
    events = [event for event in told.events if getattr(event, "job_id", None) == told.job_id]
    submitted, end = events[0], events[-1]
    assert isinstance(end, JobFinished)
    held_us, since_us = 0, None
    for event in events:
        if since_us is not None:
            held_us, since_us = held_us + event.at_us - since_us, None
        if isinstance(event, AllocationChanged) and event.allocation.shares:
            since_us = event.at_us
    whole_us = end.at_us - submitted.at_us
    assert (at, after) == (clock(end.at_us), span(whole_us))
    assert (waiting, held) == (span(whole_us - held_us), span(held_us))


USED = r"used (.+ GPU-\w+), so it (?:is|was) in the (\w+) queue"
WORK = r"with (.+) left at base speed"
SENTENCES: dict[str, Callable[..., None]] = {
    r"\d+ has waited for (.+): (\w+)": waited,
    rf"it was preempted at (\S+): outranked, because it had {USED}, for (.+)": preempted,
    rf"it needs {GPUS}, and (\d+) (?:is|are) free"
    r"(?:, (which|\d+ of them) (?:is|are) given to (.+) by the plan at (\S+?),?)?"
    r"(?: and (\d+) (?:is|are) held by jobs that it may preempt)?; others rank before it": needs,
    rf"it needs {GPUS}, and (\d+) (?:is|are) free"
    r"(?: and (\d+) (?:is|are) held by jobs that it may preempt)?"
    r"; the plan at (\S+) starts it": starts,
    r"(\w+) is what round (\d+) found at (\S+); the numbers are of (\S+), "
    r"and if nothing else happens the next round finds (?:the same|\w+)": found,
    r"it ranks ([\d,]+) of ([\d,]+) that wait, "
    rf"(?:no waiting job is ahead of it|behind (.+?)(?: and others)?); it has {USED}": ranks,
    rf"ahead in the queue: {JOBS} for {GPUS}, {WORK}": in_queue,
    rf"ahead on GPUs: {JOBS} on {GPUS}, {WORK}": on_gpus,
    r"jobs that ask for the same have waited for that since (\S+), before (.+), "
    "and no round since then found another reason": as_equals,
    "no round has looked at it yet": not_looked_at,
    r"\d+ finished at (\S+), after (.+): (.+) waiting, (.+) on servers": finished,
}


def check(told: Told) -> None:
    """Hold each sentence that is said to what it claims."""
    lines = [told.said["headline"], *told.said["details"]]
    for line in lines:
        matches = [
            (claims, match)
            for pattern, claims in SENTENCES.items()
            if (match := re.fullmatch(pattern, line))
        ]
        assert len(matches) == 1, f"no pattern, or more than one, for {line!r}"
        claims, match = matches[0]
        claims(told, *match.groups())


def asked_for(events: Sequence[Event], seq: int) -> list[JobId]:
    """Return jobs that wait there: up to two that never ran, and two that were preempted."""
    state, rng = State(), Random(2)
    fold_events(state, events[:seq])
    waiting = [job for job in state.jobs.values() if job.phase is JobPhase.waiting]
    never = [job.job_id for job in waiting if job.first_start_us is None]
    before = [job.job_id for job in waiting if job.preemptions]
    return [*rng.sample(never, min(2, len(never))), *rng.sample(before, 2)]


def moments(events: Sequence[Event]) -> list[int]:
    """Return the ends of two instants: in the middle of the run, and where a job comes."""
    middle = int(SHARE * len(events))
    comes = next(seq for seq in range(middle, 0, -1) if isinstance(events[seq - 1], JobSubmitted))
    found = []
    for seq in (middle, comes):
        while events[seq].at_us == events[seq - 1].at_us:
            seq += 1
        found.append(seq)
    return found


async def checked(url: str) -> int:
    """Check what is said of some jobs, while they wait and after their ends."""
    async with read_log(url) as reader:
        events = [event async for event in reader.events()]
        pairs = [(seq, job) for seq in moments(events) for job in asked_for(events, seq)]
        for seq, job_id in pairs:
            at_us = events[seq - 1].at_us
            said = document(await explain(reader, job_id, seq, at_us, rebuild))
            check(Told(said, events, Truth(events[:seq], "las", at_us)))
            end_us = events[-1].at_us
            said = document(await explain(reader, job_id, len(events), end_us, rebuild))
            assert said["phase"] == "finished"
            check(Told(said, events, Truth(events, "las", end_us)))
        return len(pairs)


def test_every_number_about_jobs_of_the_philly_run_is_true(tmp_path: Path) -> None:
    if not PHILLY.exists():
        pytest.skip("needs the public Philly trace as ../shared/traces/philly.csv")
    url = str(tmp_path / "las.db")
    config = load_config(ROOT / "examples" / "philly.toml")
    simulate(config.replaced({"workload.trace": str(PHILLY), "log.url": url}, "test"))

    assert asyncio.run(checked(url)) >= 5
