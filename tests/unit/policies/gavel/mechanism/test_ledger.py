"""What gangs are owed: targets less receipts, within a window that computations do not end."""

import pytest

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Fractions, Gang, Ledger

V100, K80 = GpuType("v100"), GpuType("k80")
A, B, C = ((JobId(name),) for name in ("a", "b", "c"))
HALVES: Fractions = {A: {V100: 0.5}, B: {V100: 0.5}}


def ledger(*gangs: Gang, reset_s: float = 0.0) -> Ledger:
    found = Ledger([V100, K80], 100.0, reset_s)
    for gang in gangs or (A, B):
        found.add(gang)
    found.reset(HALVES, 0.0)
    return found


def test_whoever_received_nothing_since_is_owed_its_target_of_the_time() -> None:
    found = ledger()
    found.credit(A, V100, 10.0)

    found.pass_time(10.0)

    assert found.owed(A, V100) == pytest.approx((-5.0, 0.5))
    assert found.owed(B, V100) == pytest.approx((5.0, 0.5))


def test_what_is_owed_is_carried_over_a_computation_up_to_half_the_window() -> None:
    found = ledger()
    found.credit(A, V100, 10.0)
    found.reset(HALVES, 10.0)
    assert found.owed(B, V100)[0] == pytest.approx(5.0)

    found.credit(A, V100, 1000.0)
    found.reset(HALVES, 1010.0)

    assert found.owed(B, V100)[0] == pytest.approx(50.0)
    assert found.owed(A, V100)[0] == pytest.approx(-50.0)


def test_gang_without_a_target_is_owed_nothing() -> None:
    assert ledger().owed(A, K80) == (0.0, 0.0)


def test_gang_that_comes_between_two_computations_has_no_target() -> None:
    found = ledger()

    found.add(C)

    assert found.target(C, V100) == 0.0
    assert found.is_dirty


def test_job_that_leaves_takes_its_pairs_along() -> None:
    found = ledger(A, B, (*A, *B))

    found.remove(*B)

    assert list(found.received_s) == [A]


def test_computation_is_due_at_once_after_a_change() -> None:
    found = ledger()
    assert not found.is_due(1.0)

    found.remove(*A)

    assert found.is_due(1.0)


def test_computation_waits_for_the_least_time_between_two() -> None:
    found = ledger(reset_s=60.0)

    found.remove(*A)

    assert (found.is_due(59.0), found.is_due(60.0)) == (False, True)
