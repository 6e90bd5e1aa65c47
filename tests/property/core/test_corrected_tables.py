"""What holds of every corrected table, whatever was measured: it is a table as any other."""

from itertools import pairwise

from hypothesis import given, strategies as st

from shunter.core.speeds import (
    CELLS_MOST,
    MeasuredCell,
    Sensitivity,
    SensitivityTable,
    corrected,
    with_cell,
)
from shunter.events import JobSpec, Resources
from tests.slices import searched

SPEC = JobSpec(model="m")
POINTS = st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True)
SPEEDS = st.integers(0, 400)


@st.composite
def tables(draw: st.DrawFn) -> SensitivityTable:
    """Draw a table that rises along both axes and is 1 at one of its points."""
    cpus, memory = sorted(draw(POINTS)), sorted(draw(POINTS))
    raised = [[draw(SPEEDS) for _ in memory] for _ in cpus]
    sums = [
        [sum(sum(row[: column + 1]) for row in raised[: line + 1]) for column in range(len(memory))]
        for line in range(len(cpus))
    ]
    row, column = draw(st.integers(0, len(cpus) - 1)), draw(st.integers(0, len(memory) - 1))
    unit = sums[row][column]
    speeds = [tuple([speed / unit if unit else 1.0 for speed in line]) for line in sums]
    matrix = Sensitivity(tuple(cpus), tuple(memory), tuple(speeds))
    return SensitivityTable({"m": {1: matrix}}, Resources(0, cpus[row], memory[column]))


CELLS = st.lists(
    st.builds(
        MeasuredCell,
        st.just(1),
        st.integers(1, 50),
        st.integers(1, 50),
        st.floats(0, 8, allow_nan=False),
    ),
    max_size=8,
)


def matrix_of(table: SensitivityTable) -> Sensitivity:
    found = table.of(SPEC)
    assert found is not None
    return found


@searched(50)
@given(tables(), CELLS)
def test_corrected_table_never_falls_and_is_1_at_its_proportional_share(
    table: SensitivityTable, cells: list[MeasuredCell]
) -> None:
    again = corrected(table, {"m": cells})
    matrix, fair = matrix_of(again), table.proportional
    assert all(low < high for low, high in pairwise(matrix.cpus_milli))
    assert all(low < high for low, high in pairwise(matrix.memory_mb))
    for line in (*matrix.speeds, *zip(*matrix.speeds, strict=True)):
        assert all(0 <= low <= high for low, high in pairwise((0.0, *line)))
    assert matrix.speed(fair.cpus_milli, fair.memory_mb) == 1.0
    assert {cell.share for cell in cells} <= {
        (cpus, memory) for cpus in matrix.cpus_milli for memory in matrix.memory_mb
    }


@searched(50)
@given(tables(), tables(), st.data())
def test_what_another_table_says_of_some_cells_is_said_there_afterwards(
    table: SensitivityTable, truth: SensitivityTable, data: st.DataObject
) -> None:
    """Measurements that could be true together stay as they are, in whatever order they came."""
    truth = SensitivityTable(truth.models, truth.proportional)
    table = _with_share(table, truth.proportional)
    shares = data.draw(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=6))
    cells = [MeasuredCell(1, *share, matrix_of(truth).speed(*share)) for share in shares]
    matrix = matrix_of(corrected(table, {"m": cells}))
    for cell in cells:
        assert matrix.speed(*cell.share) == cell.speed
    assert matrix == matrix_of(corrected(table, {"m": data.draw(st.permutations(cells))}))


@searched(50)
@given(tables(), st.data())
def test_measuring_what_the_table_says_changes_no_speed(
    table: SensitivityTable, data: st.DataObject
) -> None:
    share = data.draw(st.tuples(st.integers(1, 50), st.integers(1, 50)))
    cell = MeasuredCell(1, *share, matrix_of(table).speed(*share))
    matrix = matrix_of(corrected(table, {"m": [cell]}))
    for cpus in range(1, 52, 3):
        for memory in range(1, 52, 3):
            before, after = matrix_of(table).speed(cpus, memory), matrix.speed(cpus, memory)
            assert abs(before - after) <= 1e-9 * max(1.0, before)


@searched(50)
@given(CELLS.map(lambda cells: cells * 3))
def test_only_the_last_measurements_of_as_many_cells_are_kept(cells: list[MeasuredCell]) -> None:
    known: tuple[MeasuredCell, ...] = ()
    for cell in cells:
        known = with_cell(known, cell)
        assert known[-1] == cell
    shares = [cell.share for cell in known]
    assert len(shares) == len(set(shares)) <= CELLS_MOST


def _with_share(table: SensitivityTable, share: Resources) -> SensitivityTable:
    """Return a table whose speeds are relative to another share, which is one of its points."""
    matrix = matrix_of(table)
    cpus = sorted({*matrix.cpus_milli, share.cpus_milli})
    memory = sorted({*matrix.memory_mb, share.memory_mb})
    unit = matrix.speed(share.cpus_milli, share.memory_mb)
    rows = tuple(
        tuple(matrix.speed(row, column) / unit if unit else 1.0 for column in memory)
        for row in cpus
    )
    return SensitivityTable({"m": {1: Sensitivity(tuple(cpus), tuple(memory), rows)}}, share)
