"""The comparison of Gavel: a small one as a whole, what is measured, and what its sentences say."""

from dataclasses import replace

import pytest

from shunter.core import JobResult
from shunter.events import JobId
from shunter_papers.gavel import Asked, Reproduction, reproduce
from shunter_papers.gavel_arrivals import FULL, QUICK, Scene
from shunter_papers.gavel_contenders import (
    CORRECTED,
    COSTLY,
    PUBLIC,
    STATIC,
    Average,
    Contender,
    Makespan,
)
from shunter_papers.gavel_figures import AVERAGES_H, GANG_AVERAGES_H, MAKESPANS_H
from shunter_papers.gavel_solving import Solved
from shunter_papers.gavel_verdicts import LEGEND, verdicts
from shunter_papers.windows import Measured, measured

pytestmark = pytest.mark.fidelity

HOUR_US = 3_600_000_000
LAS, LAS_AWARE = PUBLIC
SINGLE = Scene(QUICK, 5.6, gangs=False, jobs=2667, seed=0)
FILLED = Measured(hours=0.0, left=0, wanted_most=200, full_part=0.9, arrivals_end_early=False)


def of(label: str) -> Contender:
    return next(each for each in (*CORRECTED, *COSTLY) if each.label == label)


def average(
    contender: Contender,
    hours: float,
    times: float | None,
    *,
    scene: Scene = SINGLE,
    met: Measured = FILLED,
) -> Average:
    published = AVERAGES_H[contender.label].get(scene.rate)
    return Average(contender, scene, replace(met, hours=hours), times, published, {})


def story(ordinal: int, submit_h: float, end_h: float | None, gpus: int = 1) -> JobResult:
    return JobResult(
        job_id=JobId(str(ordinal)),
        user="",
        gpus=gpus,
        submit_us=round(submit_h * HOUR_US),
        first_start_us=None,
        end_us=None if end_h is None else round(end_h * HOUR_US),
        held_us=0,
        service_gpu_us=0,
        preemptions=0,
        migrations=0,
        status="finished",
        ordinal=ordinal,
    )


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce(Asked(jobs=4, rates=(2.0, 5.6), gang_rates=(2.6,)))


def test_small_comparison_has_every_contender_beside_its_agnostic_form(
    small: Reproduction,
) -> None:
    found = [
        (each.contender.setting, each.contender.label, each.scene.rate, each.scene.gangs)
        for each in small.averages
    ]

    public = [("public code", each.label) for each in PUBLIC]
    corrected = [("corrected", each.label) for each in CORRECTED]
    assert found == [
        *((*name, 2.0, False) for name in public),
        *((*name, 5.6, False) for name in (*public, *corrected)),
        *((*name, 2.6, True) for name in public),
    ]
    assert [each.contender.label for each in small.makespans] == [each.label for each in STATIC]
    for each in small.averages:
        assert each.times is not None
        assert (each.times == 1.0) >= each.contender.is_baseline


def test_document_names_the_form_and_both_rates(small: Reproduction) -> None:
    document = small.document
    rows = document["continuous"]

    assert (document["form"], document["gpus"]) == ("quick", 36)
    assert {row["paper_jobs_per_hour"] for row in rows} == {2.0, 5.6, 2.6}
    assert {round(row["jobs_per_hour"], 3) for row in rows} == {0.667, 1.867, 0.867}
    assert {row["label"] for row in rows if not row["is_ratio_of_the_paper"]} == {
        "FIFO",
        "FIFO, aware",
        "AlloX",
    }
    assert all(row["wall_s"] > 0 for row in document["solving"])


def test_same_comparison_gives_the_same_document_in_any_number_of_processes(
    small: Reproduction,
) -> None:
    again = reproduce(Asked(jobs=4, rates=(2.0, 5.6), gang_rates=(2.6,)), workers=2)

    for part in ("continuous", "static", "notes"):
        assert again.document[part] == small.document[part]
    untimed = [
        [each for each in found.document["sentences"] if " took " not in each]
        for found in (again, small)
    ]
    assert untimed[0] == untimed[1]
    assert len(untimed[0]) == len(small.document["sentences"]) - 2


def test_full_form_is_the_papers_size_and_plays_the_public_code_alone() -> None:
    found = reproduce(Asked(jobs=3, full=True))

    assert {each.contender.setting for each in found.averages} == {"public code"}
    assert {row["jobs_per_hour"] for row in found.document["continuous"]} == {5.6, 2.6}
    assert found.document["gpus"] == 108
    assert found.document["sentences"][0].startswith("The full form: 36 V100, 36 P100, 36 K80")


def test_all_policies_are_run_where_all_are_asked_for() -> None:
    found = reproduce(Asked(jobs=3, rates=(5.6,), gang_rates=(2.6,), all_policies=True))

    labels = [each.contender.label for each in found.averages if not each.scene.gangs]
    assert labels == [each.label for each in (*PUBLIC, *CORRECTED, *COSTLY)]


@pytest.mark.parametrize(("form", "window"), [(FULL, (4000, 5000)), (QUICK, (1333, 1666))])
def test_measured_jobs_are_in_the_middle_of_those_that_arrive(
    form: object, window: tuple[int, int]
) -> None:
    chosen = FULL if form is FULL else QUICK

    assert Scene(chosen, 5.6, gangs=False, jobs=chosen.jobs, seed=0).window == window


def test_quick_form_has_both_curves_and_any_rate_can_be_asked_for() -> None:
    assert Asked().arrivals == [
        *((False, rate) for rate in (2.0, 4.0, 5.6)),
        *((True, rate) for rate in (1.0, 2.0, 2.6)),
    ]
    chosen = Asked(rates=[4.8, 4.8], full=True)
    assert chosen.arrivals == [(False, 4.8), (True, 2.6)]


def test_quick_form_is_a_third_of_all_but_time() -> None:
    assert (QUICK.gpus * 3, QUICK.part * 3) == (FULL.gpus, 1.0)
    assert QUICK.jobs == round(FULL.jobs / 3)


def test_average_is_over_the_measured_jobs_that_ended() -> None:
    stories = [story(0, 0, 90), story(1, 1, 3), story(2, 2, None), story(3, 3, 7), story(4, 4, 90)]

    found = measured(stories, (1, 4), gpus=100)

    assert (found.hours, found.left) == (3.0, 1)


def test_cluster_is_full_while_the_jobs_that_are_there_want_all_gpus() -> None:
    stories = [story(0, 0, 2, gpus=2), story(1, 1, 5), story(2, 4, 11, gpus=3), story(3, 20, 21)]

    found = measured(stories, (1, 3), gpus=3)

    # Three are wanted from 1 to 2, four from 4 to 5, three from 5 to 11: eight hours of ten.
    assert (found.wanted_most, found.full_part) == (4, 0.8)
    assert not found.arrivals_end_early


def test_arrivals_end_early_if_the_last_measured_job_outlives_them() -> None:
    found = measured([story(0, 0, 9), story(1, 3, 4)], (0, 1), gpus=1)

    assert found.arrivals_end_early


def test_figures_are_those_of_contenders() -> None:
    assert set(AVERAGES_H) == {each.label for each in (*CORRECTED, *COSTLY)}
    assert set(GANG_AVERAGES_H) == {each.label for each in PUBLIC}
    assert set(MAKESPANS_H) < {each.label for each in STATIC}


def test_claim_is_reached_where_one_ratio_reaches_it() -> None:
    said = verdicts([average(LAS, 36.0, 1.0), average(LAS_AWARE, 10.0, 3.6)], [], [])

    assert (
        "Up to 3.5× lower average JCT (OSDI 2020): reached here; the best is LAS, aware (public "
        "code) at 5.6 jobs an hour with 3.60×, where 3.31× is published"
    ) in said


def test_claim_that_is_missed_names_the_best_and_who_is_worse() -> None:
    rows = [average(LAS_AWARE, 10.0, 1.4), average(of("FTF, aware"), 20.0, 0.9)]

    said = verdicts(rows, [], [])

    assert "not reached here; the best is LAS, aware (public code) at 5.6 jobs an hour" in said[1]
    assert (
        "Worse than the agnostic form: FTF, aware (corrected) at 5.6 jobs an hour (0.90×)" in said
    )


def test_ratio_to_fifo_that_deals_types_anew_reaches_no_claim_and_is_explained() -> None:
    rows = [average(LAS_AWARE, 10.0, 1.4), average(of("AlloX"), 5.0, 9.0)]

    said = verdicts(rows, [], [])

    assert "not reached here; the best is LAS, aware" in said[1]
    assert any(line.startswith("*: no ratio of the paper") for line in LEGEND)


def test_rate_that_never_fills_the_cluster_is_told_so_and_another_is_not() -> None:
    slow = replace(SINGLE, rate=2.0)
    met = replace(FILLED, wanted_most=30, full_part=0.0)
    rows = [
        average(LAS, 23.0, 1.0, scene=slow, met=met),
        average(LAS_AWARE, 17.0, 1.4, scene=slow, met=replace(met, wanted_most=25)),
        average(LAS, 96.0, 1.0),
    ]

    said = [each for each in verdicts(rows, [], []) if each.startswith("Never full")]

    assert len(said) == 1
    assert said[0].startswith(
        "Never full at 2 jobs an hour: the jobs never want more than 30 of 36 GPUs at once"
    )


def test_rate_that_fills_the_cluster_under_one_contender_is_not_told_as_never_full() -> None:
    met = replace(FILLED, wanted_most=35, full_part=0.0)
    rows = [average(LAS, 23.0, 1.0), average(LAS_AWARE, 17.0, 1.4, met=met)]

    assert not [each for each in verdicts(rows, [], []) if each.startswith("Never full")]


def test_jobs_that_never_end_and_arrivals_that_do_are_told() -> None:
    met = replace(FILLED, left=2, arrivals_end_early=True)

    said = verdicts([average(LAS, 96.0, 1.0, met=met)], [], [])

    assert (
        "2 measured jobs of LAS (public code) at 5.6 jobs an hour never ended, and do not count"
        in (said)
    )
    assert any(
        each.startswith("Arrivals end at 5.6 jobs an hour before the last measured job does")
        for each in said
    )


def test_only_the_public_code_is_held_against_what_is_published() -> None:
    rows = [average(LAS, 95.99 * 1.1, 1.0), average(of("LAS"), 9.0, 1.0)]

    assert (
        "Averages in the public code's rounds are +10% to +10% of the published ones"
        in verdicts(rows, [], [])
    )


def test_makespan_names_the_shortest() -> None:
    aware = next(each for each in STATIC if each.label == "makespan, aware")

    said = verdicts([], [Makespan(aware, 300, 166.0, 1.72, 161.2, {})], [])

    assert said == ["The makespan of 300 jobs is 1.72× shorter with makespan, aware"]


def test_longest_solves_stand_beside_the_claim() -> None:
    said = verdicts([], [], [Solved("LAS, aware", 128, 0.1), Solved("LAS, aware", 2048, 0.02)])

    assert said == ["LAS, aware: shares for 2,048 jobs took 20 ms; the claim is 60 s"]
