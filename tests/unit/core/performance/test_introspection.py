"""Trials end by what was measured, and say by how much."""

import pytest

from shunter.core.performance.introspection import (
    MILLION,
    ChangeKey,
    Proposal,
    TrialReason,
    TrialRules,
    Verdict,
    next_proposal,
)
from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType, JobId

A, B = JobId("a"), JobId("b")
PAIR = Proposal(ChangeKey("pack", ("x", "y"), GpuType("p100")), {A: 100, B: 200}, MILLION)


def test_a_pair_that_gains_is_kept_at_the_end_of_its_probe() -> None:
    trial = TrialRules(60, 60).begin(PAIR, 5)
    assert trial.judged({A: 160, B: 320}, 64) is None
    assert trial.judged({A: 160, B: 320}, 65) == Verdict(TrialReason.gained, MILLION, 1_250_000)


@pytest.mark.parametrize("epsilon", [0, 250_000])
def test_what_is_only_as_good_is_reverted(epsilon: int) -> None:
    taken_us = {0: (200, 400), 250_000: (160, 320)}[epsilon]
    trial = TrialRules(60, 60, epsilon).begin(PAIR, 0)
    verdict = trial.judged(dict(zip((A, B), taken_us, strict=True)), 60)
    assert verdict is not None
    assert (verdict.is_kept, verdict.reason) == (False, TrialReason.lost)


def test_a_job_that_fails_ends_the_trial_at_once() -> None:
    verdict = TrialRules(60, 60).begin(PAIR, 0).judged({A: 100, B: None}, 1)
    assert verdict == Verdict(TrialReason.no_progress, MILLION, MILLION)


def test_a_trial_that_measured_nothing_is_reverted_and_may_be_tried_again() -> None:
    verdict = TrialRules(60, 60).begin(PAIR, 0).judged({A: 50}, 60)
    assert verdict == Verdict(TrialReason.not_measured, MILLION, 2 * MILLION)
    assert not verdict.is_kept
    assert next_proposal([PAIR], {PAIR.key: verdict}) is PAIR


def test_a_known_loser_is_tried_again_on_another_type_only() -> None:
    lost = Verdict(TrialReason.lost, MILLION, 900_000)
    other = Proposal(ChangeKey("pack", ("x", "y"), GpuType("v100")), PAIR.batch_us, MILLION)
    assert next_proposal([PAIR], {PAIR.key: lost}) is None
    assert next_proposal([PAIR, other], {PAIR.key: lost}) is other


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ((-1, 60, 0), "probe of -1 us is shorter than the quantum of 60 us"),
        ((59, 60, 0), "set it to at least the quantum"),
        ((60, 60, -1), "epsilon of -1 millionths"),
        ((60, 0, 0), "quantum of 0 us"),
    ],
)
def test_bad_rules_are_told(rules: tuple[int, int, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TrialRules(*rules)
