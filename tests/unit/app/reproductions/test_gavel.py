"""The comparison of Gavel: a small one as a whole, and what its sentences say."""

import pytest

from shunter.app.reproductions.gavel import CONTINUOUS, STATIC, Found, reproduce, verdicts
from shunter.app.reproductions.gavel_figures import AVERAGES_H, MAKESPANS_H
from shunter.app.reproductions.gavel_solving import Solved


def found(label: str, against: str, hours: float, times: float, at: float = 4.0) -> Found:
    return Found(label, against, at, hours, times, AVERAGES_H[label].get(at), {})


def test_small_comparison_has_every_contender_beside_its_agnostic_form() -> None:
    reproduction = reproduce(jobs=9, rates=(4.0,))

    assert [each.label for each in reproduction.averages] == [each.label for each in CONTINUOUS]
    assert [each.label for each in reproduction.makespans] == [each.label for each in STATIC]
    for each in (*reproduction.averages, *reproduction.makespans):
        assert each.times is not None
        assert (each.times == 1.0) >= (each.label == each.against)
    assert reproduction.document["jobs"] == 9
    assert {row["jobs_per_hour"] for row in reproduction.document["continuous"]} == {4.0}
    assert all(row["wall_s"] > 0 for row in reproduction.document["solving"])


def test_figures_are_those_of_contenders() -> None:
    assert set(AVERAGES_H) == {each.label for each in CONTINUOUS}
    assert set(MAKESPANS_H) < {each.label for each in STATIC}


@pytest.mark.parametrize(("times", "said"), [(3.6, "3.5× lower average JCT (OSDI 2020): reached")])
def test_claim_is_reached_where_one_ratio_reaches_it(times: float, said: str) -> None:
    rows = [found("LAS", "LAS", 36.0, 1.0), found("LAS, aware", "LAS", 10.0, times)]

    assert said in verdicts(rows, [], [])[0]


def test_claim_that_is_missed_names_the_best() -> None:
    rows = [found("LAS, aware", "LAS", 10.0, 1.4), found("FTF, aware", "FTF", 20.0, 0.9)]

    first, worse, *_ = verdicts(rows, [], [])
    assert "not reached here; the best is LAS, aware at 4 jobs an hour with 1.40×" in first
    assert worse == "Worse than the agnostic form: FTF, aware at 4 (0.90×)"


def test_longest_solves_stand_beside_the_claim() -> None:
    said = verdicts([], [], [Solved("LAS, aware", 128, 0.1), Solved("LAS, aware", 2048, 0.02)])

    assert said == ["LAS, aware: shares for 2,048 jobs took 20 ms; the claim is 60 s"]
