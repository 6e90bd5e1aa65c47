from collections.abc import Callable

import pytest

from shunter_papers.tables import Row, Table
from tests.unit.app.conftest import generated

__all__ = ["generated", "make_row", "make_table"]

MakeRow = Callable[..., Row]
MakeTable = Callable[..., Table]


@pytest.fixture
def make_row() -> MakeRow:
    """Make a row by hand; completion times are (mean, median, 95th percentile)."""

    def make(
        label: str,
        jct_s: tuple[float | None, float | None, float | None],
        *,
        variant: str = "free",
        growth: float | None = None,
        oracle: bool = False,
        values: tuple[float, ...] = (),
    ) -> Row:
        return Row(
            label=label,
            variant=variant,
            variant_title={"free": "free", "costs": "60 s"}[variant],
            document={
                "policy": label.lower(),
                "oracle": oracle,
                "jct_s": dict(zip(("mean", "p50", "p95"), jct_s, strict=True)),
                "preemptions": 0,
            },
            cluster={"gpus": 8, "nodes": 2},
            trace={"source": "made", "jobs": 10},
            growth=growth,
            jct_s=values,
        )

    return make


@pytest.fixture
def make_table() -> MakeTable:
    """Make a table of rows by hand."""

    def make(*rows: Row, trace: str = "made", load: float = 0.9) -> Table:
        return Table(trace=trace, load=load, load_offered=load, rows=rows)

    return make
