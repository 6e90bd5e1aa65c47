"""A wrong table is corrected by what jobs measure; sizes then are as if it were right."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from shunter.ask import Verifier, fact_in_words
from shunter.ask.why import document
from shunter.core import SubmitJob
from shunter.core.sizing import Mechanism
from shunter.core.speeds import MeasuredCell
from shunter.events import (
    AllocationChanged,
    Event,
    JobId,
    JobReshaped,
    ProfileSampled,
    SensitivityCorrected,
    encode_record,
)
from tests.factories import Outcome, World, job_id, needs_highs
from tests.replay.recording import asked
from tests.replay.sizing.measured_run import (
    JOBS,
    SAID,
    TRUTH,
    S,
    job,
    measured,
    policy,
    table,
    world,
)

OUTCOME, RUN = measured()
(CORRECTED,) = OUTCOME.of(SensitivityCorrected)


def cpus_at(outcome: Outcome, at_s: int, name: str = "j0") -> int:
    """Return the CPUs of a job at an instant, by what it was last given."""
    given = [
        event.allocation.shares[0].cpus_milli
        for event in outcome.events
        if isinstance(event, AllocationChanged | JobReshaped) and event.job_id == name
        if event.at_us <= at_s * S and event.allocation.shares
    ]
    return given[-1]


def test_a_job_that_measures_another_speed_corrects_the_cell() -> None:
    assert (CORRECTED.job_id, CORRECTED.model, CORRECTED.gpus) == (JobId("j0"), "hungry", 1)
    assert (CORRECTED.cpus_milli, CORRECTED.memory_mb) == (6000, 10)
    assert (CORRECTED.base_cpus_milli, CORRECTED.base_memory_mb) == (3000, 10)
    assert (CORRECTED.expected, CORRECTED.measured) == (2.0, 1.2)
    assert OUTCOME.core.state.corrections == {"hungry": (MeasuredCell(1, 6000, 10, 1.2),)}


@pytest.mark.parametrize(
    "mechanism", [Mechanism.tune, pytest.param(Mechanism.opt, marks=needs_highs)]
)
def test_sizes_are_then_those_of_the_true_table(mechanism: Mechanism) -> None:
    """Until the measurement all CPUs, which by the wrong table make it faster; then 4 of them."""
    wrong, _ = measured(policy(mechanism=mechanism))
    right, _ = measured(policy(TRUTH, mechanism), world(*JOBS, said=TRUTH))
    ends_us = CORRECTED.at_us // S
    assert cpus_at(wrong, ends_us) == 6000
    assert cpus_at(right, ends_us) == 4000
    for at_s in (ends_us + 300, 2400, 3600):
        assert cpus_at(wrong, at_s) == cpus_at(right, at_s)
    assert cpus_at(wrong, 2400, "j2") == cpus_at(right, 2400, "j2")
    assert not right.of(SensitivityCorrected)


def test_a_job_that_comes_later_is_sized_by_it() -> None:
    """j2 comes when j0 has ended, and would get all CPUs by the wrong table."""
    jobs = (*JOBS[:2], job(2, 900, at_s=9000))
    outcome, _ = measured(there=world(*jobs))
    assert cpus_at(outcome, 9300, "j2") == 4000


def test_the_log_is_decided_again_with_the_same_corrections() -> None:
    verifier = Verifier(RUN.rebuild)
    divergence = verifier.take(RUN.events)
    assert divergence is None, "\n".join(divergence.lines())
    assert encode_record(verifier.state) == encode_record(OUTCOME.core.state)
    assert encode_record(verifier.memory) == encode_record(OUTCOME.core.memory)


def test_why_says_what_the_table_said_and_what_was_measured() -> None:
    seq = RUN.seqs(SensitivityCorrected)[0]
    at_us = CORRECTED.at_us + 300 * S
    told = document(asyncio.run(asked(RUN, "j0", at_us)))
    assert [each["seq"] for each in told["corrections"]] == [seq]
    assert told["corrections"][0]["words"] == (
        "the table said 2 times the proportional speed of hungry at 6 CPUs and 10 MB for each "
        "GPU, and it measured 1.2 (by its own rate at 3 CPUs and 10 MB): corrected at "
        f"T+00:19:00 (e{seq})"
    )
    assert told["shares"]["words"].endswith("; the table of hungry is corrected at 1 share")
    assert "1.2 times as fast as with its proportional share, not 2" in fact_in_words(CORRECTED)
    assert "corrections" not in document(asyncio.run(asked(RUN, "j2")))


@pytest.mark.parametrize(
    "there",
    [
        world(*JOBS, tolerance=0.0),
        world(*JOBS, tolerance=0.5),
        world(*JOBS, said=SAID, truth=SAID),
        world(*JOBS, said=SAID, truth=SAID, noise=0.03),
        replace(world(*JOBS), samples=replace(world().samples, every_us=0)),
    ],
    ids=["off", "within tolerance", "the table is right", "but for noise", "no samples"],
)
def test_nothing_is_corrected_without_cause(there: World) -> None:
    outcome, _ = measured(there=there)
    assert not outcome.of(SensitivityCorrected)
    assert not outcome.core.state.corrections


def test_without_a_second_share_of_its_own_nothing_is_known() -> None:
    outcome, _ = measured(there=world(job(0, 4000)))
    assert outcome.of(ProfileSampled)
    assert not outcome.of(SensitivityCorrected)


def test_who_is_slower_than_his_share_gets_it_at_the_cost_of_others() -> None:
    """By the table 2 CPUs are as good as 3, and j0 has the others; then that proves wrong."""
    said = table({"modest": (0.5, 1.0, 1.0, 1.0, 1.2), "hungry": (0.4, 0.7, 1.0, 1.4, 2.0)})
    core, _ = world(said=said).scheduler(policy(said))
    arrivals = [job(0, 600), job(1, 600, model="modest")]
    given, _ = core.step(0, [SubmitJob(0, each.job_id, each.spec) for each in arrivals])
    assert cpus(given, AllocationChanged) == {"j0": 4000, "j1": 2000}

    fact = SensitivityCorrected(0, job_id(1), "modest", 1, 2000, 10, 1.0, 0.7, 3000, 10)
    core.view.open()
    core.emit(fact)
    core.replan_needed = True  # as after the sample from which it follows
    changed, _ = core.step(300 * S, [])
    assert cpus(changed, JobReshaped) == {"j0": 3000, "j1": 3000}


def cpus(events: Sequence[Event], kind: type[AllocationChanged | JobReshaped]) -> dict[str, int]:
    """Return what jobs were given by facts of a kind."""
    return {
        event.job_id: event.allocation.shares[0].cpus_milli
        for event in events
        if isinstance(event, kind)
    }


def test_a_job_that_begins_with_more_and_shrinks_corrects_the_cell_with_its_share() -> None:
    """j0 has all CPUs until j1 comes after 20 minutes, and its share from then on."""
    outcome, recorded = measured(there=world(job(0, 4000), job(1, 3000, at_s=1200)))
    (corrected,) = outcome.of(SensitivityCorrected)
    assert corrected.job_id == JobId("j0")
    assert (corrected.cpus_milli, corrected.base_cpus_milli) == (6000, 3000)
    assert (corrected.expected, corrected.measured) == (2.0, 1.2)
    assert 1200 * S < corrected.at_us <= 1500 * S, "three samples after the first, one a minute"
    assert Verifier(recorded.rebuild).take(recorded.events) is None
