"""The comparison of Gandiva: a small one as a whole, recounted, and what its sentences say."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.core import distribution
from shunter.run import load_jobs, simulate
from shunter_papers.gandiva.comparison import FIRST_US, Asked, Reproduction, reproduce
from shunter_papers.gandiva.figures import CLAIMED_EARLIER
from shunter_papers.gandiva.rows import FeedbackRow, ShareRow
from shunter_papers.gandiva.scenes import BASELINE, FULL, GANDIVA, QUICK, Feedback
from shunter_papers.gandiva.verdicts import verdicts

pytestmark = pytest.mark.fidelity

SCENE = Feedback(QUICK, 1.0, 800, 0)
RUN = {"jct_s": {"mean": 3600.0}, "wait_s": {"max": 0.0}}


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce(Asked(loads=(0.5, 20.0), jobs=90, parts=("feedback", "shares")))


def row(earlier: float, load: float = 1.0, jct_s: float = 3600.0) -> FeedbackRow:
    run = {**RUN, "jct_s": {"mean": jct_s}}
    scene = replace(SCENE, load=load)
    return FeedbackRow(scene, GANDIVA, 9, load, distribution([]), earlier, run)


def rows(*found: FeedbackRow) -> list[FeedbackRow]:
    """Return rows with those that they are compared with."""
    return [each for one in found for each in (replace(one, policy=BASELINE, run=RUN), one)]


def test_first_batches_of_jobs_that_never_rest_are_recounted(small: Reproduction) -> None:
    """Under fifo a job works from its first start to its end: the 100th is there 60 s later."""
    for each in small.feedback:
        if not each.is_baseline:
            continue
        loaded = each.scene.config(BASELINE)
        long_enough = {job.job_id for job in load_jobs(loaded).jobs if job.duration_us >= FIRST_US}
        spans_us = [
            (story.first_start_us or 0) + FIRST_US - story.submit_us
            for story in simulate(loaded).stories()
            if story.job_id in long_enough
        ]
        assert each.measured == len(long_enough)
        assert each.first_batches_s == distribution(spans_us)


def test_ratios_are_over_fifo(small: Reproduction) -> None:
    for before, after in zip(small.feedback[::2], small.feedback[1::2], strict=True):
        assert (before.policy, after.policy, before.scene) == (BASELINE, GANDIVA, after.scene)
        assert before.first_batches_s.mean is not None
        assert after.first_batches_s.mean is not None
        assert before.earlier == 1.0
        expected = before.first_batches_s.mean / after.first_batches_s.mean
        assert after.earlier == pytest.approx(expected)
    assert (small.feedback[1].earlier or 0) < (small.feedback[3].earlier or 0)


def test_six_jobs_have_equal_shares_and_all_gpus_work(small: Reproduction) -> None:
    assert [(each.phase.expected, len(each.shares)) for each in small.shares] == [
        (1.0, 4),
        (4 / 6, 6),
        (1.0, 4),
    ]
    for each in small.shares:
        span_s = (each.phase.end_min - each.phase.begin_min) * 60
        for share in each.shares.values():
            assert abs(share - each.phase.expected) <= 60 / span_s
        assert each.together == pytest.approx(4.0, rel=0.02)


def test_sentences_say_where_the_claim_is_reached() -> None:
    said = verdicts(rows(row(1.0, 0.5), row(CLAIMED_EARLIER, 1.0), row(9.0, 2.0)), [])
    assert said[1].endswith("reached from load 1 on; by load 1.0× at 0.5, 4.5× at 1, 9.0× at 2")
    assert said[2].startswith("The published figure lies between loads 0.5 and 1:")


def test_sentences_say_that_the_claim_is_missed_and_what_it_costs() -> None:
    said = verdicts(rows(row(0.9, 0.5), row(4.4, 1.0, jct_s=4320.0)), [])
    assert "not reached at these loads" in said[1]
    assert "Later than under fifo: load 0.5 (0.90×)" in said
    assert said[-1] == "The mean JCT against fifo's, by load: +0.0% at 0.5, +20.0% at 1"


def test_unequal_shares_are_not_as_published(small: Reproduction) -> None:
    whole = small.shares[1]
    uneven = ShareRow(whole.phase, {**whole.shares, "a": 0.9, "b": 0.434})
    idle = ShareRow(whole.phase, dict.fromkeys(whole.shares, 0.64))
    verdict = [said.rpartition(": ")[2] for said in verdicts(rows(row(1.0)), [whole, uneven, idle])]
    assert verdict[-3:] == ["as published", "not as published", "not as published"]


def test_boundaries_are_cheaper_by_what_is_copied_there(small: Reproduction) -> None:
    """At one each of two jobs has 100 MB to copy, and wherever jobs are 100 to 7,700."""
    aligned, anywhere = small.suspensions
    assert (aligned.turn_ends, anywhere.turn_ends) == ("at_boundary", "at_once")
    assert 1 < anywhere.idle / aligned.idle < 77
    said = verdicts(rows(row(1.0)), [], [replace(aligned, idle=0.01), replace(anywhere, idle=0.5)])
    assert "77×: 50× cheaper than wherever jobs are" in said[-1]
    assert "0.250% and 12.50% of the GPUs' time" in said[-1]


def test_full_form_is_the_slides_cluster() -> None:
    assert FULL.gpus == 180
    assert Asked(full=True).scenes[0].config(GANDIVA).config.cluster.gpus == 180


def test_command_prints_its_tables_and_one_document() -> None:
    command = ["reproduce", "gandiva", "--load", "2", "--jobs", "20", "-j", "1"]
    command += ["--part", "feedback", "--part", "shares"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert "six jobs on four GPUs" in told.output
    assert told.output.count("as published") == 3
    assert '"paper": "gandiva"' in CliRunner().invoke(app, [*command, "--json"]).output
