"""AlloX: jobs to places in the queues of GPUs, at the least sum of finish times.

Le et al., AlloX: Compute Allocation in Hybrid Clusters, EuroSys 2020, section 4: a job that is
k-th from the end on a GPU delays k jobs, itself included, so it costs k times its duration there.
GPUs of a type are alike, so that no place beyond the jobs over the GPUs of its type is needed.
The assignment is found by shortest augmenting paths (Jonker and Volgenant, Computing 38, 1987).
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def first_in_queues(durations: Floats, free: Places) -> Places:
    """Return the GPU type on which each job runs now, −1 for those that wait.

    Args:
        durations: shape (jobs, types), seconds alone on a GPU; infinite where it cannot run.
        free: shape (types,), GPUs to be filled.
    """
    jobs, kinds = len(durations), np.flatnonzero(free)
    runs = np.full(jobs, -1, np.intp)
    if not jobs or not len(kinds):
        return runs
    lengths = -(-jobs // free[kinds])
    kind = np.repeat(kinds, lengths * free[kinds])
    place = np.concatenate(
        [np.tile(np.arange(1, n + 1), free[k]) for k, n in zip(kinds, lengths, strict=True)]
    )
    gpu = np.cumsum(place == 1) - 1
    finite = np.isfinite(durations)
    worst = float(durations[finite].max(initial=1.0))
    costs = np.where(finite, durations, worst * (jobs + 1) ** 2)[:, kind] * place
    taken = least_cost_assignment(costs)
    for job in np.argsort(-place[taken], kind="stable"):
        ahead = gpu[taken[job]] == gpu[taken[runs >= 0]]
        if not ahead.any() and finite[job, kind[taken[job]]]:
            runs[job] = kind[taken[job]]
    return runs


def least_cost_assignment(costs: Floats) -> Places:
    """Return a column for each row, none twice, at the least sum of costs.

    Args:
        costs: shape (rows, columns), finite, with at least as many columns as rows.
    """
    rows, columns = costs.shape
    assert rows <= columns
    owner = np.full(columns, -1, np.intp)
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    for new in range(rows):
        shortest, before = np.full(columns, np.inf), np.full(columns, -1, np.intp)
        done = np.zeros(columns, np.bool_)
        row, column, length = new, -1, 0.0
        while True:
            reach = length + costs[row] - row_price[row] - column_price
            nearer = ~done & (reach < shortest)
            shortest[nearer], before[nearer] = reach[nearer], column
            column = int(np.where(done, np.inf, shortest).argmin())
            length = float(shortest[column])
            done[column] = True
            if owner[column] < 0:
                break
            row = int(owner[column])
        passed = np.flatnonzero(done)
        row_price[new] += length
        held = passed[owner[passed] >= 0]
        row_price[owner[held]] += length - shortest[held]
        column_price[passed] -= length - shortest[passed]
        while before[column] >= 0:
            owner[column] = owner[before[column]]
            column = int(before[column])
        owner[column] = new
    answer = np.empty(rows, np.intp)
    taken = np.flatnonzero(owner >= 0)
    answer[owner[taken]] = taken
    return answer
