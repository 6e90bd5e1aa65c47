"""What `why` claims of a waiting job, computed once more from the log in the plainest way.

Any small scene is run under a policy and asked about at any event. The answer is held against a
fold of the same events and the literal ranks of `tests/stepping`, which share no code with the
ranking that `why` asks.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.ask import clock, fold_events
from shunter.ask.why import document, explain
from shunter.core import CPU_POOL, NO_GUARDS, Job, State, View
from shunter.core.planning import PLACEMENTS
from shunter.events import (
    HELD,
    JOB_ENDS,
    NODE_LOST,
    AllocationChanged,
    Event,
    JobId,
    JobReshaped,
    JobSubmitted,
    PlanRejected,
    ReservationSet,
    RoundPlanned,
    WaitReasonChanged,
)
from tests.commanded import Commanded
from tests.factories import run
from tests.property.test_engine_equals_stepping import BOUNDS_GPU_US, PAIRS
from tests.property.worlds import Scene, scenes
from tests.replay.recording import reading, rebuilt
from tests.slices import searched
from tests.stepping.feedback import Feedback
from tests.stepping.policy import Stepping, band, may_go_on, pool_of

NAMES = ["fifo", "fifo_backfill", "fifo_easy", "las", "srtf", "smallest", "tiresias-promotes"]
SERVED = ("fifo", "fifo_backfill", "fifo_easy")
PARTS = (AllocationChanged, JobReshaped, PlanRejected, ReservationSet, WaitReasonChanged)


@dataclass(frozen=True)
class Asked:
    """A log, the event that was asked for, the end of its decision, and the answers by job."""

    name: str
    scene: Scene
    events: Sequence[Event]
    seq: int
    end: int
    answers: dict[JobId, dict[str, Any]]

    @property
    def at_us(self) -> int:
        return self.events[self.end - 1].at_us

    def state(self) -> State:
        """Return the fold of the events up to the end of the decision."""
        state = State()
        fold_events(state, self.events[: self.end])
        return state

    def view(self, state: State) -> View:
        view = View(state, self.scene.world.guards, oracle=True, all_reasons=False)
        view.open()
        view.now_us = self.at_us
        return view

    def key(self, state: State) -> Callable[[Job], tuple[int, int, int, int]]:
        """Return what orders the jobs, by the literal rank of the policy."""
        view, rank = self.view(state), self._rank(state)
        return lambda job: (band(job, view), -job.priority, rank(job, view), job.ordinal)

    def _rank(self, state: State) -> Callable[[Job, View], int]:
        literal = PAIRS[self.name][1](PLACEMENTS[self.scene.placement]())
        if isinstance(literal, Stepping):
            return literal.rank
        assert isinstance(literal, Feedback)
        clocks = clocks_of(literal, self.events[: self.end], self.at_us)
        return lambda job, view: clocks[job.job_id]

    @property
    def after(self) -> Iterator[tuple[int, Event]]:
        return enumerate(self.events[self.end :], self.end + 1)


def clocks_of(literal: Feedback, events: Sequence[Event], at_us: int) -> dict[JobId, int]:
    """Return the rank of every job by clocks that were moved tick by tick."""
    state, memory = State(), literal.start(None)  # type: ignore[arg-type]  # it looks at nothing
    view = View(state, NO_GUARDS, oracle=True, all_reasons=False)
    view.open()
    tell = literal.observers(memory)
    for event in events:
        fold_events(state, [event])
        view.now_us = event.at_us
        tell[type(event)](event, view)
    view.now_us = at_us
    literal.advance(memory, view)
    return {
        job_id: clocks.queue * 1_000_000 + clocks.entered_us
        for job_id, clocks in memory.jobs.items()
    }


def end_of(events: Sequence[Event], seq: int) -> int:
    """Return the last event of the decision that the one with a number is part of."""
    begin = seq
    while begin > 1 and is_part(events[begin - 1]):
        begin -= 1
    if not isinstance(events[begin - 1], RoundPlanned):
        return seq
    end = begin
    while end < len(events) and is_part(events[end]):
        end += 1
    return end


def grants_of(events: Iterable[tuple[int, Event]]) -> list[tuple[int, AllocationChanged]]:
    """Return the events that give GPUs, or a place, to a job."""
    return [
        (seq, event)
        for seq, event in events
        if isinstance(event, AllocationChanged) and event.allocation.shares
    ]


def is_part(event: Event) -> bool:
    because = getattr(event, "because", None)
    return isinstance(event, PARTS) and because not in (HELD, NODE_LOST)


def ask(name: str, scene: Scene, where: float) -> Asked:
    """Run a scene, and ask for all jobs that wait after one of its events."""
    fast, _ = PAIRS[name]
    chosen = fast(PLACEMENTS[scene.placement]())
    wrapped = [scene.commands]
    outcome = run(scene.world, chosen, wrapped=lambda backend: Commanded(backend, wrapped[0]))
    events = outcome.events
    seq = 1 + int(where * (len(events) - 1))
    end = end_of(events, seq)
    state = State()
    fold_events(state, events[:end])
    rebuild = rebuilt(chosen, scene.world.rules(instant=scene.world.backend().instant))

    async def asked() -> dict[JobId, dict[str, Any]]:
        async with reading(events) as reader:
            return {
                job.job_id: document(
                    await explain(reader, job.job_id, seq, events[seq - 1].at_us, rebuild)
                )
                for job in state.jobs.values()
                if job.is_eligible
            }

    return Asked(name, scene, events, seq, end, asyncio.run(asked()))


WHERE = st.floats(0, 1)


def check_an_answer_is_of_the_end_of_the_decision(asked: Asked) -> None:

    for said in asked.answers.values():
        assert (said["at"]["asked_seq"], said["at"]["seq"]) == (asked.seq, asked.end)


def check_the_place_in_the_queue_is_that_of_the_instant(asked: Asked) -> None:
    state = asked.state()
    queue = sorted((job for job in state.jobs.values() if job.is_eligible), key=asked.key(state))

    for job_id, said in asked.answers.items():
        place = next(i for i, job in enumerate(queue) if job.job_id == job_id)
        assert (said["rank"]["position"], said["rank"]["waiting"]) == (place + 1, len(queue))
        assert said["rank"]["ahead"] == [job.job_id for job in queue[:place][:3]]


def check_the_work_ahead_is_that_of_the_jobs_that_rank_before(asked: Asked) -> None:
    state = asked.state()
    key, view = asked.key(state), asked.view(state)

    def summed(jobs: Sequence[Job]) -> dict[str, Any]:
        gpus = [job.gpus or job.allocation.gpus or job.spec.gpus for job in jobs]
        left = [state.durations_us[job.job_id] - job.done_us(asked.at_us) for job in jobs]
        work = sum(max(0, us) * count for us, count in zip(left, gpus, strict=True))
        return {
            "jobs": len(jobs),
            "gpus": sum(gpus),
            "left_gpu_s": work / 1e6,
            "unknown": 0,
            "limited": 0,
        }

    for job_id, said in asked.answers.items():
        mine = key(state.jobs[job_id])
        jobs = state.jobs.values()
        waiting = [job for job in jobs if job.is_eligible and key(job) < mine]
        staying = [
            job for job in jobs if may_go_on(job) and (asked.name in SERVED or key(job) < mine)
        ]
        assert said["rank"]["waiting_ahead"] == summed(waiting)
        assert said["rank"]["running_ahead"] == summed(staying)
        assert view.now_us == asked.at_us


def check_blockers_hold_gpus_then_and_cannot_be_made_leave(asked: Asked) -> None:
    state = asked.state()
    key = asked.key(state)

    for job_id, said in asked.answers.items():
        mine = key(state.jobs[job_id])
        for blocker in said["evidence"]["blockers"]:
            other = state.jobs[blocker["id"]]
            assert key(other) < mine or (asked.name in SERVED and may_go_on(other))
            assert other.is_eligible or may_go_on(other)


def check_so_many_gpus_must_come_free_before_a_job_starts(asked: Asked) -> None:
    """What it gets of GPUs that were neither free nor with jobs behind it is no less than said."""
    state = asked.state()
    key, view = asked.key(state), asked.view(state)

    for job_id, said in asked.answers.items():
        job, missing = state.jobs[job_id], said["evidence"]["missing"]
        if said["reason"]["name"] == "quota" or not job.spec.gpus:
            continue
        found: dict[str, set[tuple[str, int]]] = {}
        for server in state.cluster.servers.values():
            pool = found.setdefault(server.configuration.gpu_type or CPU_POOL, set())
            pool |= {(server.name, gpu) for gpu in range(8) if server.offered >> gpu & 1}
        for other in state.jobs.values():
            if may_go_on(other) and asked.name not in SERVED and key(other) > key(job):
                for share in other.allocation.shares:
                    server = state.cluster.servers[share.node]
                    mask = share.gpu_mask & ~server.quarantined if server.is_up else 0
                    found[pool_of(other, view)] |= {
                        (share.node, gpu) for gpu in range(8) if mask >> gpu & 1
                    }
        names = job.spec.gpu_types or found
        most = max((len(found[each]) for each in names if each in found), default=0)
        assert missing == max(0, job.spec.gpus - most)
        grants = grants_of(asked.after)
        got = next((event for _, event in grants if event.job_id == job_id), None)
        if got is not None:
            new = [
                gpu
                for share in got.allocation.shares
                for gpu in range(8)
                if share.gpu_mask >> gpu & 1
                and all((share.node, gpu) not in pool for pool in found.values())
            ]
            assert len(new) >= missing


def plans_alone(asked: Asked) -> Iterator[tuple[int, set[JobId]]]:
    """Yield when plans follow and whom they start, as long as nothing else happens."""
    events, before = asked.events, asked.end
    while before < len(events) and isinstance(events[before], RoundPlanned):
        end = end_of(events, before + 1)
        if end == before + 1 == len(events):
            return  # the run was over before it could be carried out
        changes = [event for event in events[before:end] if isinstance(event, AllocationChanged)]
        started = {event.job_id for _, event in grants_of(enumerate(changes))}
        yield events[before].at_us, started
        if changes:
            return
        before = end


def check_what_is_said_to_suffice_does(asked: Asked) -> None:
    """A job starts at the plan named, if nothing happens; and at no next plan that is not named."""
    for number, (at_us, started) in enumerate(plans_alone(asked)):
        sentence = f"nothing changes until the plan at {clock(at_us)}, which starts it"
        for job_id, said in asked.answers.items():
            is_named = sentence in said["would_start_if"]
            if number == 0 or is_named:
                assert is_named == (job_id in started), (at_us, said)
            assert not (said["would_start_if"] and said["needs_at_least"])


def check_what_became_of_a_job_is_what_the_log_says(asked: Asked) -> None:

    for job_id, said in asked.answers.items():
        ends = {event.job_id: seq for seq, event in asked.after if isinstance(event, JOB_ENDS)}
        firsts = [seq for seq, event in grants_of(asked.after) if event.job_id == job_id]
        firsts += [ends[job_id]] if job_id in ends else []
        first = min(firsts, default=None)
        became = said["became"]
        if asked.end == len(asked.events):
            assert became is None
            continue
        assert became["seq"] == first
        named = {*said["rank"]["ahead"], *(each["id"] for each in said["evidence"]["blockers"])}
        upto = len(asked.events) if first is None else first
        assert {each["id"]: each["seq"] for each in became["ended"]} == {
            other: seq for other, seq in ends.items() if other in named and seq <= upto
        }


def check_a_decision_about_others_is_not_told_as_the_jobs(asked: Asked) -> None:

    for job_id, said in asked.answers.items():
        came = next(
            seq
            for seq, event in enumerate(asked.events, 1)
            if isinstance(event, JobSubmitted) and event.job_id == job_id
        )
        decision = said["decision"]
        if decision is None:
            continue
        event = asked.events[decision["seq"] - 1]
        if decision["of"] == "job":
            assert getattr(event, "job_id", None) == job_id
        else:
            assert isinstance(event, RoundPlanned)
            assert decision["is_older_than_job"] == (decision["seq"] < came)
            assert decision["is_older"] or not decision["is_older_than_job"]
            told = any(line.startswith("jobs that ask for the same") for line in said["details"])
            assert told == decision["is_older"]


CHECKS = (
    check_an_answer_is_of_the_end_of_the_decision,
    check_the_place_in_the_queue_is_that_of_the_instant,
    check_the_work_ahead_is_that_of_the_jobs_that_rank_before,
    check_blockers_hold_gpus_then_and_cannot_be_made_leave,
    check_so_many_gpus_must_come_free_before_a_job_starts,
    check_what_is_said_to_suffice_does,
    check_what_became_of_a_job_is_what_the_log_says,
    check_a_decision_about_others_is_not_told_as_the_jobs,
)


@pytest.mark.parametrize("name", NAMES)
@searched(25)
@given(scene=scenes(), where=WHERE)
def test_every_claim_about_a_waiting_job_holds(name: str, scene: Scene, where: float) -> None:
    asked = ask(name, scene, where)

    for check in CHECKS:
        check(asked)


@searched(25)
@given(scene=scenes(), where=WHERE)
def test_scores_in_words_are_what_the_job_has_used(scene: Scene, where: float) -> None:
    asked = ask("las", scene, where)
    state = asked.state()

    for job_id, said in asked.answers.items():
        used_gpu_us = state.jobs[job_id].service_us(asked.at_us)
        queue = ["first", "second", "third"][sum(used_gpu_us >= it for it in BOUNDS_GPU_US)]
        used = f"{used_gpu_us / 1e6:.6f}".rstrip("0").rstrip(".")
        words = f"has used {used} GPU-seconds, so it is in the {queue} queue"
        assert said["rank"]["score_in_words"] == words
