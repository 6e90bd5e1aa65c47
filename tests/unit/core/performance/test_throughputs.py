"""What a table of throughputs says, and what it does not know."""

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType
from tests.factories import job_spec

V100, K80, T4 = GpuType("v100"), GpuType("k80"), GpuType("t4")
SMALL, LARGE, A3C = (
    JobKind("LM (batch size 5)", 1),
    JobKind("LM (batch size 5)", 2),
    JobKind("A3C", 1),
)
TABLE = ThroughputTable(
    {V100: {SMALL: 100.0, LARGE: 160.0, A3C: 7.0}, K80: {SMALL: 25.0, A3C: 0.0}, T4: {SMALL: 30.0}},
    {V100: {(SMALL, A3C): (80.0, 5.0), (A3C, SMALL): (5.0, 80.0)}},
    V100,
)


def test_kinds_are_numbered_in_order_of_model_and_gpus() -> None:
    assert list(TABLE.kinds.items()) == [(A3C, 0), (SMALL, 1), (LARGE, 2)]


@pytest.mark.parametrize(
    ("model", "batch_size", "gpus", "kind"),
    [
        ("LM (batch size 5)", 5, 1, SMALL),
        ("LM (batch size 5)", None, 2, LARGE),
        ("LM", 5, 2, LARGE),
        ("A3C", 64, 1, A3C),
        ("LM", 6, 1, None),
        ("LM", None, 1, None),
        ("A3C", None, 2, None),
        ("", None, 1, None),
    ],
)
def test_kind_of_a_job_is_by_its_model_with_or_without_the_batch_size(
    model: str, batch_size: int | None, gpus: int, kind: JobKind | None
) -> None:
    assert TABLE.kind_of(job_spec(gpus, model=model, batch_size=batch_size)) == kind


def test_what_was_not_measured_is_none_and_what_cannot_run_is_zero() -> None:
    assert TABLE.rate(K80, A3C) == 0.0
    assert TABLE.rate(K80, LARGE) is None
    assert TABLE.rate(GpuType("h100"), SMALL) is None


def test_pair_is_found_in_both_orders() -> None:
    assert TABLE.pair_rates(V100, SMALL, A3C) == (80.0, 5.0)
    assert TABLE.pair_rates(V100, A3C, SMALL) == (5.0, 80.0)
    assert TABLE.pair_rates(V100, A3C, A3C) is None
    assert TABLE.pair_rates(K80, SMALL, A3C) is None


def test_speed_is_the_rate_over_that_on_the_base_type() -> None:
    assert (TABLE.speed(V100, SMALL), TABLE.speed(K80, SMALL)) == (1.0, 0.25)
    assert TABLE.speed(K80, A3C) == 0.0
    assert TABLE.speed(K80, LARGE) is None


def test_speed_needs_a_rate_above_zero_on_the_base_type() -> None:
    table = ThroughputTable({V100: {A3C: 7.0}, K80: {A3C: 0.0}}, base_type=K80)
    assert table.speed(V100, A3C) is None


def test_narrowed_table_keeps_the_base_type_and_puts_all_in_order() -> None:
    narrowed = TABLE.narrowed([T4, GpuType("h100")])
    assert list(narrowed.alone) == list(narrowed.paired) == [T4, V100]
    assert list(narrowed.alone[V100]) == [A3C, SMALL, LARGE]
    assert list(narrowed.paired[V100]) == [(A3C, SMALL), (SMALL, A3C)]
    assert narrowed.base_type == V100
