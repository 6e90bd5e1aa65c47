"""Gandiva's AutoML experiment: its baseline, its search as facts of a log, and its sentences."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.core import Command, View
from shunter.run import simulate
from shunter_papers.gandiva import comparison
from shunter_papers.gandiva.automl.comparison import AutoMl, AutoMlRow, Found, compare, found_min
from shunter_papers.gandiva.automl.curves import (
    FITTED,
    SHORTER,
    SPREAD,
    Curve,
    Family,
    like_published,
)
from shunter_papers.gandiva.automl.figures import (
    CONFIGS,
    EPOCH_S,
    GPUS,
    PUBLISHED_BASELINE_MIN,
    THRESHOLDS,
    WAVES,
)
from shunter_papers.gandiva.automl.scenes import MAIN, Variant, config, job_ids, jobs
from shunter_papers.gandiva.automl.search import BACKGROUND, EPOCH_US, Rule, Search
from shunter_papers.gandiva.automl.verdicts import verdicts
from shunter_papers.gandiva.work_curves import WorkCurves

pytestmark = pytest.mark.fidelity

SEED = 3


def epochs_to(curve: Curve, threshold: float) -> int | None:
    """Return the first whole epoch above a threshold, by trying all."""
    return next((e for e in range(1, curve.epochs + 1) if curve.accuracy(e) > threshold), None)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Return the log of one search as described, and its facts."""
    path = tmp_path_factory.mktemp("automl") / "run.db"
    configurations = like_published(SEED)
    curves = dict(zip(job_ids(configurations), configurations, strict=True))
    simulate(
        config("gandiva", log=str(path)),
        trace=jobs(configurations),
        driver=Search(curves, MAIN.rule),
    )
    exported = CliRunner().invoke(app, ["log", "export", str(path)]).output.splitlines()
    return path, [json.loads(line) for line in exported]


@pytest.mark.parametrize("family", [FITTED, SHORTER])
def test_baseline_of_200_searches_is_the_published_one_within_a_tenth(family: Family) -> None:
    drawn = [found_min(like_published(seed, family)) for seed in range(200)]
    for place, published in enumerate(PUBLISHED_BASELINE_MIN):
        minutes = [each[place] for each in drawn]
        assert median(m for m in minutes if m is not None) == pytest.approx(published, rel=0.1)
        assert None not in minutes


def test_closed_form_is_what_the_simulator_does() -> None:
    for seed in range(2):
        configurations, work = like_published(seed), WorkCurves()
        simulate(config("fifo"), trace=jobs(configurations), listeners=[work.observers()])
        for threshold, minutes in zip(THRESHOLDS, found_min(configurations), strict=True):
            passed = [
                work.curves[job_id].passed_us(epochs * EPOCH_US)
                for job_id, curve in zip(job_ids(configurations), configurations, strict=True)
                if (epochs := epochs_to(curve, threshold)) is not None
            ]
            assert minutes == pytest.approx(min(us for us in passed if us is not None) / 60e6)


def test_thresholds_are_passed_in_the_waves_of_the_published_search() -> None:
    for seed in range(100):
        configurations = like_published(seed)
        assert len(configurations) == CONFIGS
        for threshold, wave in zip(THRESHOLDS, WAVES, strict=True):
            slots = [n for n, curve in enumerate(configurations) if curve.final > threshold]
            assert slots[0] // GPUS + 1 == wave


@pytest.mark.parametrize("family", [FITTED, SPREAD, SHORTER])
def test_half_of_all_searches_are_as_quick_as_the_published_one(family: Family) -> None:
    """The formula of the fit, over a grid of accuracies and time constants."""
    normal, cells = NormalDist(), 60
    scores = [normal.inv_cdf((n + 0.5) / cells) for n in range(cells)]
    taus = [family.tau * exp(family.spread * score) for score in scores]
    training_min = family.epochs * EPOCH_S / 60
    for place, (threshold, wave, published) in enumerate(
        zip(THRESHOLDS, WAVES, PUBLISHED_BASELINE_MIN, strict=True)
    ):
        left_min = published - (wave - 1) * training_min
        there = 0.0
        for low, high, share in family.classes:
            curves = [
                Curve(low + (high - low) * (n + 0.5) / cells, tau, family.epochs)
                for n in range(cells)
                for tau in taus
            ]
            epochs = [curve.epochs_to(threshold) for curve in curves]
            count = sum(e is not None and e * EPOCH_S / 60 <= left_min for e in epochs)
            there += share * count / len(curves)
        never = (1 - family.above[place]) ** (GPUS * (wave - 1))
        never *= (1 - there) ** min(GPUS, CONFIGS - GPUS * (wave - 1))
        assert never == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("final", [0.3, 0.71, 0.805, 0.95])
@pytest.mark.parametrize("tau", [5.0, 14.0, 60.0])
def test_first_epoch_above_a_threshold_is_found(final: float, tau: float) -> None:
    curve = Curve(final, tau, 217)
    for threshold in THRESHOLDS:
        assert curve.epochs_to(threshold) == epochs_to(curve, threshold)


def test_orders_of_a_search_are_facts_and_the_log_verifies(
    logged: tuple[Path, list[dict[str, Any]]],
) -> None:
    path, events = logged
    verified = CliRunner().invoke(app, ["replay", str(path), "--verify"])
    assert verified.exit_code == 0, verified.output
    ordered = [e for e in events if e["kind"] in ("JobPriorityChanged", "JobCancelRequested")]
    assert {event["by"] for event in ordered} == {"search"}
    assert {e["at_us"] % EPOCH_US for e in ordered} == {0}
    kinds = Counter(event["kind"] for event in events)
    assert kinds["JobCancelRequested"] == kinds["JobCancelled"] == CONFIGS
    assert {e["priority"] for e in ordered if "priority" in e} == {BACKGROUND}


def test_times_of_a_search_are_recomputed_from_its_turns(
    logged: tuple[Path, list[dict[str, Any]]],
) -> None:
    """A configuration is trained while it has its turn, and at no other time."""
    _, events = logged
    curves = dict(zip(job_ids(like_published(SEED)), like_published(SEED), strict=True))
    row = compare(SEED, 1, 1, variants=[MAIN]).rows[0]
    for place, threshold in enumerate(THRESHOLDS):
        first_us: list[int] = []
        needs_us = {
            job_id: (epochs_to(curve, threshold) or 10**6) * EPOCH_US
            for job_id, curve in curves.items()
        }
        begun_us: dict[str, int] = {}
        for event in events:
            if event["kind"] == "TurnStarted":
                begun_us[event["job_id"]] = event["at_us"]
            elif event["kind"] in ("TurnEnded", "JobCancelled") and event["job_id"] in begun_us:
                since_us, job_id = begun_us.pop(event["job_id"]), event["job_id"]
                had_us = event["at_us"] - since_us
                if 0 < needs_us[job_id] <= had_us:
                    first_us.append(since_us + needs_us[job_id])
                needs_us[job_id] -= had_us
        assert row.found[place].median_min == pytest.approx(min(first_us) / 60e6)


class Counted(Search):
    """A search that counts its orders of each kind, up to those with which it is over."""

    ordered: Counter[str]

    def orders(self, now_us: int, view: View) -> list[Command]:
        found = super().orders(now_us, view)
        if self.wake_at() is not None:
            self.ordered.update(type(order).__name__ for order in found)
        return found


def played(rule: Rule) -> Counter[str]:
    """Return how many orders of each kind a search gave before it was over."""
    configurations = like_published(SEED)
    search = Counted(dict(zip(job_ids(configurations), configurations, strict=True)), rule)
    search.ordered = Counter()
    simulate(config("gandiva"), trace=jobs(configurations), driver=search)
    return search.ordered


def test_search_orders_what_its_rule_allows() -> None:
    only_ends = played(Rule(every=2, gives_priority=False))
    assert set(only_ends) == {"CancelJob"}
    assert set(played(Rule(every=2, ends_hopeless=False))) == {"ChangePriority"}
    assert not played(Rule(every=500))
    oracle = played(Rule(is_oracle=True))
    hopeless = sum(curve.final <= THRESHOLDS[-1] for curve in like_published(SEED))
    assert CONFIGS - GPUS <= oracle["CancelJob"] <= hopeless


def found_as(minutes: tuple[float | None, ...], searches: int = 4) -> AutoMl:
    """Return an outcome with one row, whose baseline is the published one."""
    before = tuple(Found(4, each) for each in PUBLISHED_BASELINE_MIN)
    own = tuple(Found(searches, each) for each in minutes)
    ups = tuple(
        None if two is None else one / two
        for one, two in zip(PUBLISHED_BASELINE_MIN, minutes, strict=True)
    )
    return AutoMl(before, before, (AutoMlRow(MAIN, 4, own, ups),))


def test_sentences_say_what_is_as_published() -> None:
    said = verdicts(found_as((134.1, 543.1, 935.4)))
    assert said[0].endswith("within 10% of what was published")
    assert sum(each.endswith("as published (4.2 to 6.3)") for each in said) == 1
    assert not any("not as published" in each for each in said)
    assert "as described (1.00×, 5.25×, 5.66×)" in said[4]


def test_sentences_say_what_is_missed_and_lost() -> None:
    outcome = found_as((268.2, 300.0, None), searches=1)
    said = verdicts(replace(outcome, baseline=(Found(4, 200.0), *outcome.baseline[1:])))
    assert ": not within 10%" in said[0]
    assert "predicted 0.50× (268.2 min), slides 1×, an error of -50%: not as published" in said[1]
    assert "predicted 9.50×" in said[2]
    assert said[3].endswith("90%: not found by most searches (slides: 5.66×)")
    assert said[4].endswith("above 90%: 3 of 4 with as described")
    assert said[5].endswith("none")


def test_command_runs_only_the_part_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of the variants, since all take half a minute."""
    quick = (MAIN, Variant("quantum 300 s", quantum_s=300))
    monkeypatch.setattr(comparison, "compare", partial(compare, variants=quick))
    command = ["reproduce", "gandiva", "--part", "automl", "--searches", "1", "-j", "1"]
    told = CliRunner().invoke(app, [*command, "--json"])
    assert told.exit_code == 0, told.output
    document = json.loads(told.output)
    assert document["feedback"] == document["shares"] == []
    rows = document["automl"]["rows"]
    assert [(row["variant"], row["searches"]) for row in rows] == [
        (variant.name, 1) for variant in quick
    ]
    told = CliRunner().invoke(app, command)
    assert "one after the other, published" in told.output
    assert "six jobs on four GPUs" not in told.output
