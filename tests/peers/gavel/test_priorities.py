"""Priorities: targets over received shares, and what is carried over at a computation."""

import pytest

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Fractions
from shunter_peers.gavel.ledger import Ledger, priority

V100, P100, K80 = (GpuType(name) for name in ("v100", "p100", "k80"))
TYPES = (V100, P100, K80)
GANGS = tuple((JobId(f"j{number}"),) for number in range(3))
X = ((0.6, 0.4, 0.0), (0.2, 0.6, 0.2), (0.2, 0.0, 0.8))
RECEIVED = ((3, 1, 0), (1, 3, 0), (0, 0, 4))


def talk() -> Fractions:
    return {gang: dict(zip(TYPES, row, strict=True)) for gang, row in zip(GANGS, X, strict=True)}


def ledger() -> Ledger:
    found = Ledger(list(TYPES))
    for gang in GANGS:
        found.add(gang)
    found.reset(talk(), 0.0)
    return found


def from_nothing() -> Ledger:
    """Return one in which nobody has received anything, not even the half round of the start."""
    found = ledger()
    found.received_s = {gang: dict.fromkeys(TYPES, 0.0) for gang in GANGS}
    found.whole_s = dict.fromkeys(TYPES, 0.0)
    return found


def test_example_of_the_talk_has_the_priorities_by_hand() -> None:
    """There they are X over rounds; ours are over the share of each type's four rounds."""
    found = from_nothing()
    for gang, row in zip(GANGS, RECEIVED, strict=True):
        for gpu_type, rounds in zip(TYPES, row, strict=True):
            found.credit(gang, gpu_type, float(rounds))

    ranks = [[found.rank(gang, gpu_type)[0] for gpu_type in TYPES] for gang in GANGS]

    never = 1e9
    by_hand = [[0.2, 0.4, 0.0], [0.2, 0.2, never * 0.2 / 4], [never * 0.2 / 4, 0.0, 0.2]]
    assert ranks == [pytest.approx([4 * each for each in row]) for row in by_hand]


def test_priority_is_the_target_over_the_received_share() -> None:
    assert priority(0.5, 1.0, 4.0) == 2.0


def test_gang_that_received_nothing_comes_before_all_that_did() -> None:
    assert priority(0.01, 0.0, 100.0) > priority(1.0, 0.001, 100.0)


def test_gang_without_a_target_has_no_claim() -> None:
    assert ledger().rank(GANGS[0], K80) == (0.0, 0.0, 0.0)


def test_what_was_not_received_is_carried_over_as_deficit() -> None:
    found = ledger()
    found.credit(GANGS[0], V100, 10.0)

    found.reset(talk(), 100.0)

    assert found.deficit_s[GANGS[0]][V100] == pytest.approx(0.6 * 100 - 10)
    assert found.share(GANGS[0], V100) == pytest.approx(1 / 3)


def test_gang_that_comes_between_two_computations_has_no_target() -> None:
    found = ledger()

    found.add((JobId("j9"),))

    assert found.target((JobId("j9"),), V100) == 0.0
    assert found.is_dirty


def test_job_that_leaves_takes_its_pairs_along() -> None:
    found = ledger()
    found.add((JobId("j0"), JobId("j1")))

    found.remove(JobId("j1"))

    assert list(found.received_s) == [GANGS[0], GANGS[2]]


def test_computation_waits_for_its_interval_unless_the_last_was_at_zero() -> None:
    found = ledger()
    found.add((JobId("j9"),))
    assert found.is_due(1.0)
    found.reset(talk(), 10.0)
    found.remove(JobId("j9"))

    assert not found.is_due(1929.0)
    assert found.is_due(1930.0)


def test_half_a_round_counts_as_received_by_everybody() -> None:
    found = ledger()

    assert found.share(GANGS[0], V100) == pytest.approx(1 / 3)
    assert found.rank(GANGS[0], V100)[0] == pytest.approx(0.6 * 3)
