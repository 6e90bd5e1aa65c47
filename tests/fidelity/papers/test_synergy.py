"""The comparison of Synergy: a small one as a whole, and what its sentences say."""

from dataclasses import replace
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter_papers.commands.options import in_full_part
from shunter_papers.synergy.comparison import Asked, Reproduction, reproduce
from shunter_papers.synergy.figures import SLIDES_H
from shunter_papers.synergy.rows import ArrivalRow, SlideRow
from shunter_papers.synergy.scenes import (
    BASELINE,
    CONTENDERS,
    FULL,
    MIX_RATES,
    MIXES,
    ORDERS,
    QUICK,
    TUNE,
    Arrivals,
    Setting,
    Slide,
    Split,
)
from shunter_papers.synergy.verdicts import verdicts
from shunter_papers.windows import Measured

pytestmark = pytest.mark.fidelity

SCENE = Arrivals(QUICK, 7.5, split=(20.0, 70.0, 10.0), jobs=2000, seed=0)
FILLED = Measured(hours=10.0, left=0, wanted_most=99, full_part=0.9, arrivals_end_early=False)
JOBS = "0,alexnet,0.0,3349,1\n1,gnmt,0.001,26435,1\n2,res18,0.002,4000,1\n"


def row(
    times: float | None,
    mechanism: str = TUNE,
    split: Split = (20.0, 70.0, 10.0),
    met: Measured = FILLED,
) -> ArrivalRow:
    return ArrivalRow(replace(SCENE, split=split), "fifo", mechanism, met, times, {})


def slide_row(mechanism: str, peer_h: float, times: float, trace: Path | None = None) -> SlideRow:
    published = SLIDES_H["fifo", "makespan"][mechanism]
    hours: dict[Setting, float | None] = {"peer": peer_h}
    slide = Slide("static", trace, 0)
    return SlideRow(slide, "makespan", mechanism, published, hours, {"peer": times})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    trace = tmp_path_factory.mktemp("traces") / "jobs.csv"
    trace.write_text(JOBS)
    return reproduce(Asked(0, trace, trace, jobs=9, rates=(7.5,), gang_rates=(4.0,)))


def test_slides_have_every_measure_with_every_mechanism(small: Reproduction) -> None:
    found = [(each.slide.name, each.measure, each.mechanism) for each in small.slides]

    assert found == [
        (name, measure, contender.mechanism)
        for name, measure in (
            ("static", "makespan"),
            ("dynamic", "mean JCT"),
            ("dynamic", "p99 JCT"),
        )
        for contender in CONTENDERS
    ]
    for each, contender in zip(small.slides, CONTENDERS * 3, strict=True):
        assert tuple(each.hours) == contender.settings("exact")
        assert all(each.hours.values())


def test_ratios_are_over_proportional_shares(small: Reproduction) -> None:
    for each in small.slides:
        against = next(
            other
            for other in small.slides
            if (other.slide, other.measure, other.mechanism) == (each.slide, each.measure, BASELINE)
        )
        for setting, hours in each.hours.items():
            there = against.hours[setting]
            assert hours is not None
            assert there is not None
            assert each.times[setting] == pytest.approx(there / hours)


def test_arrivals_have_every_order_with_both_mechanisms(small: Reproduction) -> None:
    assert [(each.scene.gangs, each.order, each.mechanism) for each in small.loads] == [
        (gangs, order, name)
        for gangs in (False, True)
        for order in ORDERS
        for name in (BASELINE, TUNE)
    ]
    assert [(each.scene.rate, each.scene.split) for each in small.mixes[::2]] == [
        (rate, split) for rate in MIX_RATES for split in MIXES
    ]


def test_language_models_alone_gain_nothing(small: Reproduction) -> None:
    words_only = [each for each in small.mixes if each.scene.hungry == 0]
    assert {each.times for each in words_only} == {1.0}


def test_document_is_one_and_has_all_rows(small: Reproduction) -> None:
    document = small.document
    assert (document["paper"], document["evidence"], document["form"]) == (
        "synergy",
        "simulated",
        "quick",
    )
    sizes = [len(document[name]) for name in ("slides", "loads", "mixes")]
    assert sizes == [len(small.slides), len(small.loads), len(small.mixes)]
    assert not any(each["stands_in"] for each in document["slides"])


def test_forms_have_the_papers_load() -> None:
    """Method: 128 GPUs are just full with 7.63 jobs of 16.77 h an hour."""
    assert (FULL.gpus, QUICK.gpus) == (128, 32)
    assert replace(SCENE, form=FULL).load == SCENE.load == pytest.approx(7.5 * 16.77 / 128, 1e-3)
    assert SCENE.jobs_per_hour == 7.5 / 4


def test_opt_is_corrected_where_highs_solves_it() -> None:
    opt = CONTENDERS[-1]
    assert opt.mechanism == "opt"
    assert opt.settings("exact") == ("peer",)
    assert opt.settings("highs") == ("peer", "corrected")


def test_missing_trace_is_told() -> None:
    with pytest.raises(TraceError, match="none"):
        reproduce(Asked(jobs=3, static=Path("none.csv")))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (3.5, "reached under FIFO at 7.5 jobs an hour, mix 20/70/10; the best is 3.50×"),
        (3.4, "reached under FIFO"),
        (3.3, "not reached here; the best is 3.30× under FIFO at 7.5 jobs an hour"),
    ],
)
def test_claim_is_reached_exactly_at_its_ratio(times: float, said: str) -> None:
    told = verdicts((), (row(1.0, BASELINE), row(times)), ())
    assert [
        line
        for line in told
        if line.startswith(f"Up to 3.4× lower average JCT (OSDI 2022): {said}")
    ]


def test_what_gets_worse_is_told() -> None:
    told = verdicts((), (row(1.0, BASELINE), row(0.9)), ())
    assert (
        "Worse than proportional shares: under FIFO at 7.5 jobs an hour, mix 20/70/10 (0.90×)"
        in told
    )


def test_mixes_are_told_in_order_with_the_best() -> None:
    mixes = [row(1.0, split=(0.0, 100.0, 0.0)), row(2.0), row(1.5, split=(50.0, 0.0, 50.0))]
    told = verdicts((), (), mixes)
    assert (
        "By the mix of models under FIFO at 7.5 jobs an hour: 0/100/0 1.00×, 20/70/10 2.00×, "
        "50/0/50 1.50×; most where 30 % are image and speech models" in told
    )


def test_empty_and_overfull_clusters_are_told() -> None:
    never = replace(FILLED, wanted_most=10, full_part=0.0)
    always = replace(FILLED, full_part=1.0)
    lame = replace(FILLED, left=2, arrivals_end_early=True)

    assert any(
        line.endswith(": proportional under FIFO at 7.5; tune under FIFO at 7.5")
        for line in verdicts((), (row(1.0, BASELINE, met=never), row(1.0, met=never)), ())
    )
    assert any(
        line.endswith("depend on when jobs are measured: proportional under FIFO at 7.5")
        for line in verdicts((), (row(1.0, BASELINE, met=always), row(2.0)), ())
    )
    told = verdicts((), (row(1.0, BASELINE), row(2.0, met=lame)), ())
    assert any(line.startswith("2 measured jobs of tune") for line in told)
    assert told[-1].endswith("an emptying cluster: tune under FIFO at 7.5")


@pytest.mark.parametrize(
    ("part", "told"), [(0.0, "0%"), (0.9949, "99%"), (0.9996, "99%"), (1.0, "100%")]
)
def test_a_cluster_is_told_to_be_full_all_the_time_only_if_it_was(part: float, told: str) -> None:
    assert in_full_part(part, is_never=False) == told
    assert in_full_part(part, is_never=True) == "never"


def test_stand_ins_and_ratios_of_the_slides_are_told() -> None:
    told = verdicts((slide_row(BASELINE, 15.25, 1.0), slide_row(TUNE, 11.0, 15.25 / 11.0)), (), ())
    assert told[0].startswith("No --static was named: made-up jobs")
    assert told[1] == "FIFO makespan with tune: slides 1.38×, public code 1.39×, here peer 1.39×"
    read = verdicts((slide_row(BASELINE, 15.25, 1.0, Path("static.csv")),), (), ())
    assert read == []
