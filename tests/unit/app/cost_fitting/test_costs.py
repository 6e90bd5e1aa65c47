"""What a log shows of costs: measured from made attempts, and from runs that paid them."""

import asyncio
import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import (
    LEAST_US,
    Fitted,
    FittedKind,
    Launch,
    Observed,
    ObservedAttempt,
    ObservedJob,
    Pace,
    checkpoint_interval_us,
    config_text,
    fit_costs,
    fit_document,
    left_out,
    mean_speed,
    observe_log,
    observed_trace,
    slowed_us,
    uneven_starts,
    work_us,
)
from shunter.ask.forks import measured_parts
from shunter.config import SimulationSection
from shunter.events import Allocation, Event, GpuType, NodeName, Share, Sharing, SuspendMode, facts
from shunter.events.log import read_log
from shunter.run import WorldParts, simulate
from shunter.workloads import Trace
from tests.factories import (
    attempt_started,
    granted,
    job_finished,
    job_id,
    job_spec,
    job_submitted,
    node_added,
    scheduler_started,
)
from tests.replay.recording import reading
from tests.unit.app.conftest import Generated

S = 1_000_000
V100, K80 = GpuType("v100"), GpuType("k80")
COSTS = {"start": "20s", "suspend": "10s", "resume": "30s", "migrate": "40s"}


def attempt(number: int, launched_s: float, first_step: int = 0, **fields: Any) -> ObservedAttempt:
    """Return an attempt that was seen to start half a second after its launch."""
    launched_us = round(launched_s * S)
    fields = {"is_elsewhere": False, "gpu_type": V100, **fields}
    shares = (Share(NodeName("n0"), (1 << fields.pop("gpus", 1)) - 1),)
    return ObservedAttempt(
        number,
        shares=shares,
        ordered_us=launched_us,
        launched_us=launched_us,
        seen_us=launched_us + S // 2,
        first_step=first_step,
        **fields,
    )


def job(
    number: int, *attempts: ObservedAttempt, steps: int | None = 100, **fields: Any
) -> ObservedJob:
    """Return a job that finished with its last attempt, and told its steps."""
    spec = job_spec(1, total_steps=steps, **fields)
    attempts[-1].has_exited = True
    came = facts.JobSubmitted(0, job_id(number), spec)
    found = ObservedJob(came, ordinal=number, seen=list(attempts), outcome=facts.Outcome.finished)
    found.tells_steps = steps is not None
    return found


def observed(*jobs: ObservedJob, types: Sequence[GpuType] = (V100,)) -> Observed:
    return Observed("log.db", "", list(jobs), types=tuple(types))


def suspended(launched_s: float, left_s: float, step: int, **fields: Any) -> ObservedAttempt:
    """Return a first attempt that saw a request, and left a second later with a checkpoint."""
    seen_us = round(left_s * S) - S
    found = attempt(1, launched_s, asked_us=seen_us - S // 10, acknowledged_us=(seen_us,), **fields)
    found.saves.append((seen_us + S // 2, step))
    found.ended_us = found.suspended_us = found.released_us = round(left_s * S)
    return found


# Starts take 3 s, launches on other GPUs 5 s, mini-batches 0.1 s or, of the model `big`, 0.5 s.
# j0 does its 100 steps at one go; j1 leaves after 40 of them; j2 does 20 long ones.
ALONE = job(0, attempt(1, 0, ended_us=13 * S, batches_s=[0.101]), model="small")
MOVED = job(
    1,
    suspended(0, 8, 40),
    attempt(2, 20, 40, ended_us=31 * S, is_elsewhere=True),
    model="small",
)
BIG = job(2, attempt(1, 5, ended_us=18 * S, batches_s=[0.5]), steps=20, model="big")


def test_start_ups_and_mini_batches_come_out_of_what_attempts_took() -> None:
    fitted = fit_costs(observed(ALONE, MOVED, BIG))
    assert {k: us / S for k, us in fitted.launch_us.items()} == pytest.approx(
        {Launch.start: 3, Launch.migrate: 5}, abs=0.1
    )
    assert {kind.model: us / S for kind, us in fitted.batch_us.items()} == pytest.approx(
        {"small": 0.1, "big": 0.5}, rel=0.01
    )
    assert fitted.launches == {Launch.start: 3, Launch.resume: 0, Launch.migrate: 1}
    assert (fitted.suspend_us, fitted.suspensions, fitted.notice_us) == (S, 1, S // 10)


def test_resuming_and_migrating_are_measured_from_their_own_launches() -> None:
    """Coming back to the same GPUs takes 2 s and to others 5 s, also where nothing was told."""
    resumed = job(
        3,
        suspended(0, 8, 40),
        attempt(2, 20, 40, ended_us=28 * S),
        model="small",
    )

    fitted = fit_costs(observed(ALONE, MOVED, BIG, resumed))

    assert {k: us / S for k, us in fitted.launch_us.items()} == pytest.approx(
        {Launch.start: 3, Launch.resume: 2, Launch.migrate: 5}, abs=0.1
    )


def test_gang_of_another_size_is_a_kind_of_its_own_and_does_more_work() -> None:
    """60 steps on four GPUs take 2.4 s; on the one that was submitted they are 6 s of work."""
    grown = job(
        3,
        suspended(0, 8, 40),
        attempt(2, 20, 40, ended_us=round(27.4 * S), is_elsewhere=True, gpus=4, batches_s=[0.04]),
        model="small",
        gpus_max=4,
    )
    found = observed(ALONE, MOVED, BIG, grown)
    fitted = fit_costs(found)
    assert fitted.batch_us[FittedKind("small", 4, V100)] / S == pytest.approx(0.04, rel=0.02)
    assert work_us(grown, found, fitted) / S == pytest.approx(10, abs=0.3)
    unknown = replace(fitted, batch_us={})
    assert work_us(grown, found, unknown) / S == pytest.approx(4 + 2.4 * 4, abs=0.3)


def test_mini_batches_of_a_gang_that_is_spread_are_measured_at_full_speed() -> None:
    """Its 100 mini-batches of 0.2 s took 20 s at half speed: 10 s of work."""
    spread = attempt(1, 0, ended_us=23 * S, batches_s=[0.2], paces=[Pace(0, 0.5)])
    found = observed(ALONE, MOVED, BIG, half := job(3, spread, model="small"))
    fitted = fit_costs(found)

    assert fitted.batch_us[FittedKind("small", 1, V100)] / S == pytest.approx(0.1, rel=0.01)
    assert work_us(half, found, fitted) / S == pytest.approx(10, abs=0.1)
    assert slowed_us(half, fitted, 13 * S) / S == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(
    ("from_us", "until_us", "speed"),
    [(-9, 9, 1.0), (10, 30, 0.75), (0, 40, 0.75), (20, 50, 2 / 3), (30, 30, 0.5), (50, 50, 1.0)],
)
def test_mean_speed_weighs_each_speed_by_its_time(
    from_us: int, until_us: int, speed: float
) -> None:
    paces = [Pace(0, 1.0), Pace(20, 0.5), Pace(40, 1.0)]

    assert mean_speed(paces, from_us, until_us) == pytest.approx(speed)


def test_a_cost_without_a_sample_is_left_out_and_said() -> None:
    found = observed(ALONE, MOVED, BIG)
    found.config = json.dumps(dict.fromkeys(("schema", "seed", "cluster", "policy", "queues")))
    fitted = fit_costs(found)

    text = config_text(found, fitted, "jobs.csv")

    assert sorted(tomllib.loads(text)["simulation"]["costs"]) == ["migrate", "start", "suspend"]
    said = (
        "resume is left out, because the log has no launches on the GPUs that a job had before: "
        "a simulation takes 0 s for it"
    )
    assert left_out(fitted) == [said]
    assert f"# {said}" in text.splitlines()


def test_launches_cost_their_wait_for_who_starts_jobs_instead_as_well() -> None:
    """Slurm began each attempt 2 s after it was ordered; the start-ups take as long as before."""
    waiting = [
        replace(each, seen=[replace(a, ordered_us=a.launched_us - 2 * S) for a in each.seen])
        for each in (ALONE, MOVED, BIG)
    ]
    found = observed(*waiting)
    found.config = json.dumps(dict.fromkeys(("schema", "seed", "cluster", "policy", "queues")))
    fitted = fit_costs(found)

    assert fitted.launch_us == fit_costs(observed(ALONE, MOVED, BIG)).launch_us
    text = config_text(found, fitted, "jobs.csv")
    costs = tomllib.loads(text)["simulation"]["costs"]
    assert (costs["start"], costs["migrate"]) == pytest.approx((5, 7), abs=0.1)
    assert "# launches: 2 s of each are its wait for who starts jobs instead, as Slurm" in text
    document = fit_document(found, fitted)["costs"]
    assert isinstance(document, dict)
    assert document["wait"] == {"s": 2.0, "attempts": 4}


@pytest.mark.parametrize(
    ("launches_us", "suspend_us", "costs_s", "said"),
    [
        ({}, S, (0, 0, 0), ["no job that started"]),
        (
            {"start": 3 * S},
            None,
            (3, 3, 3),
            ["no job that was resumed", "no job that saved and left"],
        ),
        ({"start": 3 * S, "migrate": 5 * S}, S, (3, 5, 5), []),
        ({"start": 3 * S, "resume": 2 * S}, S, (3, 2, 2), []),
    ],
)
def test_a_launch_that_was_not_seen_takes_what_others_took_and_a_fork_says_so(
    launches_us: dict[str, int],
    suspend_us: int | None,
    costs_s: tuple[int, ...],
    said: list[str],
) -> None:
    fitted = Fitted({Launch(name): us for name, us in launches_us.items()}, {}, suspend_us, 0)

    assert tuple(fitted.cost_us(launch) // S for launch in Launch) == costs_s
    parts = measured_parts(WorldParts(SimulationSection()), fitted)
    costs = parts.simulation.costs
    assert (costs.start // S, costs.resume // S, (costs.migrate or 0) // S) == costs_s
    assert len(parts.unmeasured) == len(said)
    assert all(words in sentence for words, sentence in zip(said, parts.unmeasured, strict=True))


def test_first_mini_batch_that_was_told_says_when_the_start_up_was_over() -> None:
    # Two jobs of one length: without what they told, a start-up of 1 s would do as well.
    first, second = (
        job(i, attempt(1, i, trained_us=3_100_000 + i * S, ended_us=(13 + i) * S), model="small")
        for i in (0, 1)
    )
    fitted = fit_costs(observed(first, second))
    assert fitted.launch_us[Launch.start] == pytest.approx(3 * S, abs=1000)
    assert list(fitted.batch_us.values()) == pytest.approx([100_000], abs=10)
    alone = job(0, attempt(1, 0, trained_us=3 * S, ended_us=9 * S), steps=None)
    alone.tells_steps = True
    assert fit_costs(observed(alone)).launch_us == {Launch.start: 3 * S}


def test_mini_batches_of_programs_that_start_up_differently_are_measured_alone() -> None:
    """One needs 2 s to start, the other 8 s: the rest to their mean is no time of mini-batches."""
    jobs = []
    for number, steps in enumerate([20, 30, 40, 50, 60, 70]):
        name, start_s, batch_s = [("quick", 2.0, 0.1), ("slow", 8.0, 0.05)][number % 2]
        ended_us, trained_us = (round((start_s + n * batch_s) * S) for n in (steps, 1))
        told = attempt(1, 0, ended_us=ended_us, trained_us=trained_us)
        jobs.append(job(number, told, model=name, steps=steps))
    found = observed(*jobs)

    fitted = fit_costs(found)

    assert {kind.model: us / S for kind, us in fitted.batch_us.items()} == pytest.approx(
        {"quick": 0.1, "slow": 0.05}, rel=1e-3
    )
    assert fitted.launch_us[Launch.start] / S == pytest.approx(5.0, rel=1e-3)
    (said,) = uneven_starts(found, fitted)
    assert "quick starts up in 2 s and slow in 8 s, and a simulation takes 5 s for each" in said


def test_programs_that_start_up_alike_are_not_named() -> None:
    """By less than a fifth of the mean."""
    told = [attempt(1, 0, ended_us=9 * S, trained_us=round(us * S)) for us in (2.0, 2.3)]
    found = observed(*(job(n, each, model=f"m{n}") for n, each in enumerate(told)))

    assert uneven_starts(found, fit_costs(found)) == []


def test_costs_are_means_because_completion_times_are_sums() -> None:
    # Starts take 3, 3 and 9 s; three hundred mini-batches 36 s; suspensions 1, 1 and 4 s. What is
    # sampled are quick ones.
    quick = [0.1] * 20
    first, second, late = (
        job(
            i,
            attempt(
                1, 0, trained_us=round(at_s * S), ended_us=round(left_s * S), batches_s=list(quick)
            ),
            model="small",
            steps=101,
        )
        for i, at_s, left_s in ((0, 3.12, 13.12), (1, 3.12, 13.12), (2, 9.12, 25.12))
    )
    fitted = fit_costs(observed(first, second, late))
    assert list(fitted.batch_us.values()) == pytest.approx([120_000], abs=200)
    assert fitted.launch_us[Launch.start] == pytest.approx(5 * S, abs=1000)

    moved = [suspended(0, 8, 40) for _ in range(3)]
    moved[2].released_us = 11 * S
    leavers = [
        job(i, each, attempt(2, 20, 40, ended_us=31 * S), model="small")
        for i, each in enumerate(moved)
    ]
    assert fit_costs(observed(*leavers)).suspend_us == 2 * S


def test_work_is_the_time_at_work_without_what_was_lost() -> None:
    fitted = Fitted({Launch.start: 3 * S, Launch.migrate: 5 * S}, {}, S, 1)
    found = [work_us(each, observed(each), fitted) / S for each in (ALONE, MOVED, BIG)]
    # j1 works from 3 to 7 and from 25 to 31: it held GPUs for 19 s.
    assert found == [10, 10, 10]
    ended = attempt(1, 0, asked_us=9 * S, ended_us=9 * S, lost_us=6 * S)
    again = job(3, ended, attempt(2, 20, ended_us=24 * S), suspend_mode=SuspendMode.restart)
    # Without a resume of its own, one takes what a migration does: until 25.
    assert work_us(again, observed(again), fitted) == LEAST_US
    again.seen[-1].ended_us = 27 * S
    assert work_us(again, observed(again), fitted) == 2 * S


def test_work_of_a_lost_attempt_is_that_of_its_checkpoints() -> None:
    fitted = Fitted({Launch.start: 3 * S, Launch.resume: 3 * S}, {}, None, 0)
    lost = attempt(1, 0, ended_us=20 * S, is_lost=True, saves=[(7 * S, 40), (11 * S, 80)])
    crashed = job(0, lost, attempt(2, 30, 80, ended_us=35 * S))
    assert work_us(crashed, observed(crashed), fitted) == (8 + 2) * S
    lost.saves.clear()
    assert work_us(crashed, observed(crashed), fitted) == 2 * S


def test_time_for_which_a_job_stood_still_is_no_work_and_measures_nothing() -> None:
    stood = job(0, attempt(1, 0, ended_us=23 * S, stopped_us=10 * S), model="small")
    fitted = fit_costs(observed(ALONE, stood))
    assert fitted.batch_us == fit_costs(observed(ALONE)).batch_us
    assert work_us(stood, observed(stood), fitted) == work_us(ALONE, observed(ALONE), fitted)


def test_start_up_of_a_job_without_steps_ends_as_its_processes_run() -> None:
    plain = job(0, attempt(1, 0, ended_us=8 * S), steps=None)
    fitted = fit_costs(observed(plain))
    assert fitted.launch_us == {Launch.start: S // 2}
    assert work_us(plain, observed(plain), fitted) == 7_500_000


def test_start_that_is_seen_after_the_end_costs_no_longer_than_the_job_lasted() -> None:
    short = job(0, attempt(1, 0, ended_us=S // 10), steps=None)
    fitted = fit_costs(observed(short))
    assert fitted.launch_us == {Launch.start: S // 10}
    assert work_us(short, observed(short), fitted) == LEAST_US


def test_jobs_shorter_than_a_start_up_are_jobs_of_the_trace() -> None:
    events: list[Event] = [scheduler_started(), node_added()]
    for number in (0, 1):  # both are looked at a second after their launch, and ended before that
        events += [
            job_submitted(number, 1),
            granted(number, n0=0b1 << number),
            attempt_started(number, at=S),
            facts.AttemptEnded(S, job_id(number), 1, 0, ended_us=S // (number + 2)),
            facts.GpusReleased(S, job_id(number), 1),
            job_finished(number, at=S, ended=S // (number + 2)),
        ]
    events.sort(key=lambda event: event.at_us)
    # The third holds GPUs, and is cancelled before anybody saw it run.
    events += [
        job_submitted(2, 1, at=2 * S),
        granted(2, at=2 * S, n0=0b1),
        facts.LaunchFailed(3 * S, job_id(2), 1, "no such folder"),
        facts.JobCancelled(3 * S, job_id(2)),
    ]

    async def exported() -> tuple[Trace, int]:
        async with reading(events) as reader:
            return await observed_trace(reader)

    trace, others = asyncio.run(exported())
    assert [(each.job_id, each.duration_us > 0) for each in trace.jobs] == [
        ("j0", True),
        ("j1", True),
    ]
    assert others == 1


def test_speeds_are_relative_to_the_first_gpu_type() -> None:
    slow = job(5, attempt(1, 0, ended_us=23 * S, gpu_type=K80, batches_s=[0.2]), model="small")
    seen = observed(ALONE, MOVED, slow, types=(V100, K80))
    fitted = fit_costs(seen)
    assert fitted.speeds == pytest.approx({V100: 1.0, K80: 0.5}, abs=0.01)
    assert work_us(slow, seen, fitted) / S == pytest.approx(10, abs=0.1)
    assert FittedKind("small", 1, K80) in fitted.batch_us


def test_interval_of_checkpoints_is_seen_where_it_is_not_said() -> None:
    saves = [(at_s * S, None) for at_s in (7, 11, 15)]
    often = job(0, attempt(1, 0, ended_us=20 * S, saves=saves))
    assert checkpoint_interval_us(often) == 4 * S
    # What it saves because it is told to leave is no part of that.
    often.seen[0].asked_us = 12 * S
    assert checkpoint_interval_us(often) == 4 * S
    often.seen[0].asked_us = 10 * S
    assert checkpoint_interval_us(often) is None
    said = job(1, attempt(1, 0, ended_us=20 * S, saves=saves), checkpoint_interval_us=9)
    assert checkpoint_interval_us(said) == 9


def read(url: Path) -> tuple[Observed, Trace]:
    async def found() -> tuple[Observed, Trace]:
        async with read_log(str(url)) as reader:
            return await observe_log(reader), (await observed_trace(reader))[0]

    return asyncio.run(found())


def test_costs_of_a_simulation_are_found_in_its_log(generated: Generated, tmp_path: Path) -> None:
    log = tmp_path / "run.db"
    config = generated(policy__name="las", simulation__costs=COSTS, log__url=str(log))
    simulate(config)
    seen, _ = read(log)
    fitted = fit_costs(seen)
    assert fitted.launch_us == {
        Launch.start: 20 * S,
        Launch.resume: 30 * S,
        Launch.migrate: 40 * S,
    }
    assert fitted.suspend_us == 10 * S
    assert all(fitted.launches.values())


def test_others_turns_are_no_work_and_a_change_of_hands_has_a_cost(
    generated: Generated, tmp_path: Path
) -> None:
    log = tmp_path / "run.db"
    costs = {"start": "20s", "turn": "3s"}
    slicing = {"quantum": "60s"}
    config = generated(
        policy__name="gandiva",
        policy__slicing=slicing,
        workload__generate__jobs=40,
        workload__generate__load=6,
        simulation__costs=costs,
        log__url=str(log),
    )
    simulate(config)
    seen, _ = read(log)
    fitted = fit_costs(seen)
    assert fitted.launch_us == {Launch.start: 20 * S}
    assert fitted.turn_us == pytest.approx(3 * S, rel=0.01)  # a first turn takes no change of hands
    assert fitted.turns > 20
    assert any(each.stopped_us for job in seen.jobs for each in job.seen)
    seen.is_simulated = False  # so that the work is that of its turns, not what a trace declared
    for each in seen.jobs:
        if each.outcome is facts.Outcome.finished:
            assert work_us(each, seen, fitted) == each.submitted.duration_us


def test_start_up_ends_with_the_first_mini_batch_without_the_wait_for_a_turn() -> None:
    events: list[Event] = [scheduler_started(), node_added()]
    where = granted(0, n0=0b1)
    sliced = Allocation(where.allocation.shares, Sharing.sliced)
    shares = sliced.shares
    events += [
        job_submitted(0, 1, total_steps=101),
        replace(where, allocation=sliced),
        attempt_started(0, at=S),
        facts.TurnStarted(5 * S, job_id(0), 1, shares, began_us=4 * S),
        facts.TrainingStarted(7 * S, job_id(0), 1),
        facts.TurnEnded(9 * S, job_id(0), 1, ended_us=8 * S),
        facts.TurnStarted(20 * S, job_id(0), 1, shares, began_us=20 * S),
        facts.AttemptEnded(29 * S, job_id(0), 1, 0),
        facts.GpusReleased(29 * S, job_id(0), 1),
        job_finished(0, at=29 * S),
    ]

    async def looked_at() -> Observed:
        async with reading(events) as reader:
            return await observe_log(reader)

    seen = asyncio.run(looked_at())
    (one,) = seen.jobs
    (only,) = one.seen
    # It stood still from 1 to 4 and from 8 to 20, and began its first mini-batch before 7.
    assert (only.stopped_us, only.stopped_at_first_us) == (15 * S, 3 * S)
    fitted = fit_costs(seen)
    batch_us = fitted.batch_us[FittedKind("", 1, V100, "j0")]
    assert batch_us == pytest.approx(0.1 * S)
    assert fitted.launch_us[Launch.start] == pytest.approx(4 * S - batch_us, abs=1)
    assert work_us(one, seen, fitted) == pytest.approx(10 * S + batch_us, abs=1)


@pytest.mark.parametrize("costs", [{}, COSTS])
def test_a_simulated_log_gives_back_the_work_of_its_trace(
    costs: dict[str, str], generated: Generated, tmp_path: Path
) -> None:
    """Goal: jobs that held GPUs for longer than they worked do as much again, and no more."""
    log = tmp_path / "run.db"
    result = simulate(generated(policy__name="las", simulation__costs=costs, log__url=str(log)))
    assert result.document["preemptions"]
    _, exported = read(log)
    worked = {each.job_id: each.duration_us for each in exported.jobs}
    assert worked == {each.job_id: each.duration_us for each in result.trace.jobs}


def test_kind_that_left_no_time_for_its_mini_batches_was_not_measured() -> None:
    """Its ten steps took less than others need to prepare: no speed follows from that."""
    slow = [
        job(number, attempt(1, 0.0, trained_us=21 * S, ended_us=120 * S), model="a")
        for number in range(3)
    ]
    odd = job(3, attempt(1, 0.0, ended_us=3 * S, gpu_type=K80), steps=10, model="a")
    found = fit_costs(observed(*slow, odd, types=(V100, K80)))
    assert [kind.gpu_type for kind in found.batch_us] == [V100]
    assert found.batch_us[FittedKind("a", 1, V100)] == pytest.approx(S, rel=0.01)
    assert found.speeds == {V100: 1.0}
