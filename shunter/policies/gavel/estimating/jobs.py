"""Rates of single jobs on types they never tried, from other jobs that did."""

from collections.abc import Mapping, Sequence

import numpy as np

from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.estimating.completion import complete

__all__ = ["guessed_rates"]

Known = Mapping[JobId, Mapping[GpuType, float]]


def guessed_rates(
    measured: Known, types: Sequence[GpuType]
) -> tuple[dict[JobId, dict[GpuType, float]], float | None]:
    """Return rates of measured jobs on all types, and how far off guesses are.

    Nothing is guessed before two jobs were measured on two types each: no type is known to be
    faster then.
    """
    jobs = [job_id for job_id, row in measured.items() if row]
    several = [job_id for job_id in jobs if sum(name in types for name in measured[job_id]) > 1]
    if len(several) < 2:
        return {}, None
    rates = np.array([[measured[job_id].get(name, 0.0) for name in types] for job_id in jobs])
    known = np.greater(rates, 0.0)
    found = complete(rates, known, factors=1)
    tried = known.any(axis=0)
    guessed = {
        job_id: {
            name: float(found.values[row, column])
            for column, name in enumerate(types)
            if tried[column]
        }
        for row, job_id in enumerate(jobs)
    }
    return guessed, found.error
