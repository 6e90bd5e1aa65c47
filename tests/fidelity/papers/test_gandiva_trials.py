"""What packs and moves gain, recomputed from the table and from what the runs did."""

from typing import Final

import pytest

from shunter.events import GpuType
from shunter.workloads import builtin_throughputs
from shunter_papers.gandiva.introspection import gathering, packing, pairs
from shunter_papers.gandiva.introspection.comparison import Trials
from shunter_papers.gandiva.introspection.packing import Crowd, PackingRow
from shunter_papers.gandiva.introspection.verdicts import verdicts
from shunter_papers.gandiva.scenes import Form

pytestmark = pytest.mark.fidelity

SMALL: Final = Form("quick", 2, 0, (1, 1))
TABLE: Final = builtin_throughputs().table


def row(gpu_type: str, crowding: float, sliced: float, packed: float) -> PackingRow:
    return PackingRow(gpu_type, crowding, 16, sliced, packed, 10, 4, 0.001)


def test_jobs_take_as_long_as_the_time_that_counts_alone_on_their_type() -> None:
    for gpu_type in packing.GPU_TYPES:
        for job in Crowd(SMALL, gpu_type, 2.0, 0, packs=False).trace(TABLE).jobs:
            kind = TABLE.kind_of(job.spec)
            assert kind is not None
            rate = TABLE.rate(GpuType(gpu_type), kind)
            assert rate
            assert job.spec.total_steps == pytest.approx(rate * packing.WINDOW_S, abs=1)


def test_packs_do_more_than_turns_and_turns_lose_only_changes_of_hands() -> None:
    for gpu_type in ("v100", "k80"):
        sliced, packed = (
            packing._play(Crowd(SMALL, gpu_type, 2.0, 0, packs=packs)) for packs in (False, True)
        )
        assert 0.995 < sliced.rate <= 1.0
        assert not sliced.tried
        assert packed.rate > sliced.rate
        assert 0 <= packed.undone < packed.tried
        lost = packed.undone_us / (packing.WINDOW_S * 1e6 * SMALL.gpus)
        assert lost < 0.02


def test_without_a_crowd_nothing_is_tried() -> None:
    played = packing._play(Crowd(SMALL, "p100", 1.0, 0, packs=True))
    assert (played.tried, played.undone) == (0, 0)
    assert played.rate == pytest.approx(1.0)


def test_pairs_end_as_the_table_says() -> None:
    for found in pairs.compare():
        kind = next(kind for kind in TABLE.kinds if kind == (found.model, 1))
        gpu_type = GpuType(found.gpu_type)
        alone, pair = TABLE.rate(gpu_type, kind), TABLE.pair_rates(gpu_type, kind, kind)
        assert alone
        assert pair is not None
        assert found.table == pytest.approx(sum(pair) / alone)
        assert found.measured == pytest.approx(found.table, abs=1e-3)
        assert (found.verdict == "kept") == (found.table > 1)
    assert [found.verdict for found in pairs.compare()] == ["kept", "given up", "given up"]


def test_three_gangs_come_together_when_the_large_job_ends() -> None:
    rows = gathering.compare()
    assert [len(each.first) for each in rows] == [1, 2, 2, 2]
    assert [each.moved_s for each in rows] == [None, 200.0, 200.0, 200.0]
    assert all(each.is_together for each in rows)
    # Two servers leave 0.72 of the speed of resnet50 in one (SOSP-SRC 2017).
    assert [each.measured for each in rows[1:]] == [pytest.approx(1 / 0.72, abs=1e-3)] * 3


@pytest.mark.parametrize(
    ("gains", "said"),
    [((1.1, 1.25), "within 20% to 32% for v100 at 2"), ((1.1, 1.4), "not reached here")],
)
def test_the_published_gain_is_found_where_it_is(gains: tuple[float, float], said: str) -> None:
    rows = (row("p100", 1.5, 1.0, gains[0]), row("v100", 2.0, 1.0, gains[1]))
    first, second, *_, last = verdicts(Trials(rows, (), tuple(gathering.compare())))
    assert said in first
    assert "8 of 20 packs were undone" in second
    assert "+10.0% (p100 at 1.5)" in second
    assert last.endswith("as published")
