"""A problem as it is stated, row by row, and what of it is handed over."""

import numpy as np

from shunter_peers.gavel.conic.cones import Program


def test_matrix_lies_by_columns_with_rows_in_order_and_without_zeros() -> None:
    program = Program.of(2)
    row = program.at_most([5.0, 6.0])
    program.put([row + 1, row], [0, 1], [3.0, 4.0])
    program.put(row, 0, 2.0)
    program.put(row + 1, 1, 0.0)

    matrix = program.matrix()

    assert matrix.shape == (2, 2)
    assert matrix.begins.tolist() == [0, 2, 3]
    assert matrix.rows.tolist() == [0, 1, 0]
    assert matrix.values.tolist() == [2.0, 3.0, 4.0]
    assert program.limit().tolist() == [5.0, 6.0]


def test_cones_come_after_all_half_lines() -> None:
    program = Program.of(1)
    program.at_most([1.0])

    first = program.in_cones(np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 3.0]]))

    assert first == 1
    assert (program.linear, program.quadratic, program.rows) == (1, 2, 7)
    assert program.limit().tolist() == [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0]
