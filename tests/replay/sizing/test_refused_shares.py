"""A server refuses a job other CPUs and memory: what is booked then, who waits, and what is told.

One live scheduler with `tune`, stepped by hand. j0 has a server of 2 GPUs, 6 CPUs and 20 MB to
itself; j1 comes, j0 is to give up 1 CPU and 15 MB for it, and its server refuses that.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import Verifier, because_in_words
from shunter.ask.why import document
from shunter.core import (
    AttemptExited,
    Effect,
    Input,
    ReshapeAttempt,
    Scheduler,
    SubmitJob,
    SuspendJob,
)
from shunter.core.fold import apply
from shunter.core.planning import Consolidated, refused_shape
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.errors import IllegalEventError
from shunter.events import (
    AllocationChanged,
    AttemptEnded,
    AttemptStarted,
    Event,
    GpusReleased,
    JobId,
    JobReshaped,
    JobSpec,
    JobSuspended,
    NodeName,
    ReshapeRefused,
    Resources,
    SchedulerStarted,
    Share,
)
from shunter.policies import SubmissionOrder
from tests.factories import World, job_id, servers
from tests.replay.eventful_run import RECORD, S
from tests.replay.recording import Recorded, asked, rebuilt

GROWS = Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1.0, 1.0), (2.0, 2.0)))
MODEST = Sensitivity((1000, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))
TABLE = SensitivityTable({"hungry": {1: GROWS}, "modest": {1: MODEST}}, Resources(0, 3000, 10))
J0, J1, J2 = map(job_id, range(3))
N0 = NodeName("n0")
CAUSE = "Device or resource busy"


class Live:
    """The scheduler and what came of it."""

    def __init__(self, gpus: int = 2) -> None:
        there = servers(gpus, cpus_milli=3000 * gpus, memory_mb=10 * gpus)
        index = SubmissionOrder("fifo", Misfit.skipped)
        self.world = World(servers=there, is_live=True)
        self.policy = RankedPolicy(index, Consolidated(), sizing=Sizing(Mechanism.tune, TABLE))
        self.core: Scheduler
        self.core, events = self.world.scheduler(self.policy, instant=False)
        self.events: list[Event] = [
            replace(event, config=RECORD) if isinstance(event, SchedulerStarted) else event
            for event in events
        ]
        self.effects: list[Effect] = []
        self.now_us = 0

    def step(self, *inputs: Input) -> Sequence[Event]:
        """Let things happen a second later; return the facts that came of it."""
        self.now_us += S
        seen = [replace(one, at_us=self.now_us) for one in inputs]
        events, effects = self.core.step(self.now_us, seen)
        self.events += events
        self.effects += effects
        return events

    def submit(self, model: str, gpus: int = 1, **fields: Any) -> JobId:
        spec = JobSpec(gpus, model=model, **fields)
        name = job_id(self.core.state.submitted)
        self.step(SubmitJob(0, name, spec))
        return name

    def starts(self, job: JobId) -> None:
        """Let a job start that was launched."""
        self.step(AttemptStarted(0, job, self.core.state.jobs[job].attempt))

    def ends(self, job: JobId) -> None:
        attempt = self.core.state.jobs[job].attempt
        self.step(AttemptExited(0, job, attempt, 0), GpusReleased(0, job, attempt))

    def refuses(self, job: JobId, *kept: Share) -> Sequence[Event]:
        wanted = self.has(job)
        attempt = self.core.state.jobs[job].attempt
        return self.step(ReshapeRefused(0, job, attempt, wanted, kept, CAUSE))

    def has(self, job: JobId) -> tuple[Share, ...]:
        return self.core.state.jobs[job].allocation.shares

    @property
    def left(self) -> Resources:
        """What the only server has left by the books."""
        (server,) = self.core.state.cluster.servers.values()
        return server.beside_free

    def verified(self) -> Recorded:
        """Return the run, whose log says nothing that would not be decided again."""
        recorded = Recorded(self.events, rebuilt(self.policy, self.world.rules(instant=False)))
        assert Verifier(recorded.rebuild).take(recorded.events) is None
        return recorded


def made_room(model: str = "modest") -> tuple[Live, Share]:
    """Return a run in which j0 is to make room for j1; and all that j0 had."""
    live = Live()
    live.submit("hungry")
    live.starts(J0)
    (had,) = live.has(J0)
    assert had.beside == Resources(0, 6000, 5), "5 MB are all it can use"
    live.submit(model)
    live.starts(J1)
    assert live.has(J0) != (had,)
    return live, had


def test_what_is_kept_is_booked_and_given_to_nobody() -> None:
    live, had = made_room()
    assert live.left == Resources(0, 0, 10)
    live.refuses(J0, had)
    assert live.has(J0) == (had,) == live.core.state.jobs[J0].held.shares
    assert live.left == Resources(0, -1000, 10), "j1 has its least by now, and runs on"
    live.ends(J0)
    assert live.left.cpus_milli >= 0
    live.verified()


def test_why_says_what_was_refused_and_what_it_keeps() -> None:
    live, had = made_room()
    live.refuses(J0, had)
    said: Any = document(asyncio.run(asked(live.verified(), J0)))["shares"]
    assert (said["cpus"], said["memory_mb"], said["rule"]) == (6.0, 5, "refused")
    assert (said["refused_cpus"], said["refused_memory_mb"]) == (5.0, 5)
    assert said["words"].endswith(
        f"for n0 refused it 5 CPUs and 5 MB there: {CAUSE}; "
        "it keeps 6 CPUs and 5 MB there while this attempt lasts"
    )


def test_nobody_is_asked_again_while_his_attempt_lasts() -> None:
    live, had = made_room("hungry")
    live.refuses(J0, had)
    live.refuses(J1, *live.has(J1))
    asked_before = len(live.effects)
    live.submit("hungry")
    live.step()
    assert not [one for one in live.effects[asked_before:] if isinstance(one, ReshapeAttempt)]
    live.ends(J0)
    live.starts(J2)
    live.ends(J1)
    assert live.has(J2)[0].cpus_milli == 6000, "another attempt may have what it can use"
    live.verified()


def test_what_grew_at_its_cost_shrinks_again() -> None:
    live = Live(3)
    for model in ("hungry", "modest", "hungry"):
        live.starts(live.submit(model))
    shares = {job: live.has(job)[0] for job in (J0, J1, J2)}
    assert sum(share.cpus_milli for share in shares.values()) == 9000
    (share,) = live.has(J1)
    told = live.refuses(J1, replace(share, cpus_milli=3000))
    changes = [event for event in told if isinstance(event, JobReshaped)]
    assert [event.because.rule for event in changes] == ["shrunk"] * len(changes)
    assert changes, "somebody has more than his least"
    assert all(event.because.beneficiaries == (J1,) for event in changes)
    assert live.left.cpus_milli >= 0
    live.verified()


def test_who_keeps_more_than_his_share_counts_with_it_when_others_are_to_start() -> None:
    live, had = made_room()
    live.refuses(J0, had)
    live.ends(J1)
    later = live.submit("modest")
    assert not live.has(later), "a GPU is free, but no CPU"
    for _ in range(3):
        assert not live.step()
    live.ends(J0)
    assert live.has(later)
    live.verified()


def test_why_counts_him_with_what_he_keeps() -> None:
    """Method: j0 keeps all 6 CPUs and 5 MB of the server; by its share there would be room."""
    live, had = made_room()
    live.refuses(J0, had)
    live.ends(J1)
    later = live.submit("modest")
    told = document(asyncio.run(asked(live.verified(), later)))
    assert told["reason"]["name"] == "cpu_or_memory_short"
    beside: Any = told["evidence"]["beside"]
    assert beside["servers"] == [{"node": "n0", "gpus": 1, "cpus": 0.0, "memory_mb": 15}]
    assert not beside["counts_shares_above"]
    assert told["details"][0].endswith("n0 has 0 CPUs and 15 MB beside 1 GPU")


def test_who_waits_to_be_launched_there_is_displaced() -> None:
    """j2 was granted the GPU that j1 is leaving, and the CPUs that j0 was to give up."""
    live, had = made_room()
    state = live.core.state
    live.step(SuspendJob(0, J1, "ana"))
    waiting = live.submit("modest")
    assert state.jobs[waiting].phase == "granted"
    told = live.refuses(J0, had)
    (displaced,) = [one for one in told if isinstance(one, AllocationChanged)]
    assert (displaced.job_id, displaced.because.rule) == (waiting, "displaced")
    assert displaced.because.beneficiaries == (J0,)
    assert displaced.because.detail == "n0"
    live.step(JobSuspended(0, J1, 1), GpusReleased(0, J1, 1))
    told_why = "j0 keeps CPUs or memory of n0 that it was to give up"
    assert because_in_words(displaced.because) == told_why
    live.verified()


def test_newer_change_is_not_undone_by_a_late_refusal() -> None:
    live, had = made_room()
    state = live.core.state
    now = live.has(J0)
    old = replace(now[0], cpus_milli=4000)
    live.step(ReshapeRefused(0, J0, 1, (old,), (had,), CAUSE))
    assert live.has(J0) == now
    assert not state.jobs[J0].is_of_one_size
    live.step(ReshapeRefused(0, J0, 7, now, (had,), CAUSE))
    assert live.has(J0) == now, "it is of no attempt that runs"


def test_no_plan_reshapes_what_was_refused() -> None:
    live, had = made_room()
    live.refuses(J0, had)
    job = live.core.state.jobs[J0]
    refusal = refused_shape(job, job.allocation)
    assert refusal is not None
    assert refusal[1] == "its attempt refused other CPUs or memory before"


@pytest.mark.parametrize("kept", [(), (Share(N0, 2, 6000, 5),), (Share(N0, 1, -1, 5),)])
def test_shares_of_other_gpus_or_less_than_nothing_cannot_be_kept(kept: tuple[Share, ...]) -> None:
    live, _ = made_room()
    with pytest.raises(IllegalEventError, match="cannot keep"):
        apply(live.core.state, ReshapeRefused(live.now_us, J0, 1, live.has(J0), kept, CAUSE))


def test_why_names_the_memory_with_which_a_job_was_killed() -> None:
    """j1 had 5 MB, and was to have more or less at no time; the kernel killed two processes."""
    live, _ = made_room()
    live.step(AttemptExited(0, J1, 1, 137, released=True, memory_kills=2))
    recorded = live.verified()
    (seq,) = recorded.seqs(AttemptEnded)
    (said,) = document(asyncio.run(asked(recorded, J1)))["details"]
    assert said == (
        f"the kernel killed 2 processes of attempt 1 (e{seq}), which used more memory than its "
        "share, the limit it was held to: 5 MB on n0"
    )
