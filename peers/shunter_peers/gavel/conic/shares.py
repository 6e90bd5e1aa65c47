"""The unknowns of every form: which part of its time a gang has on each GPU type.

They lie type by type, and within a type gang by gang: first the jobs alone, then the pairs, in the
order of arrival. Limits follow in the order of the public code: no share below 0, no type beyond
its GPUs, no job beyond all of its time (OSDI 2020, section 3.1).
"""

from dataclasses import dataclass

import numpy as np

from shunter.errors import PlanError
from shunter.policies.gavel import Arrays, Demands, Fractions, Gang
from shunter_peers.gavel.arrays import rated
from shunter_peers.gavel.conic.cones import Floats, Places, Program
from shunter_peers.gavel.forms import Form


@dataclass(frozen=True, slots=True)
class Space:
    """Gangs and what they do, by part: a part is a job in a gang, a pair has two.

    Args:
        found: the claims in arrays, with rates alone.
        gangs: alone, then in pairs.
        sizes: shape (gangs,), GPUs.
        job: shape (parts,), whose part it is.
        gang: shape (parts,), in which.
        rates: shape (parts, types), steps a second; rounded to 32 bits where jobs are packed.
        packed: whether two jobs may share GPUs.
    """

    found: Arrays
    gangs: tuple[Gang, ...]
    sizes: Floats
    job: Places
    gang: Places
    rates: Floats
    packed: bool = False

    @property
    def jobs(self) -> int:
        """How many there are."""
        return len(self.found.sizes)

    @property
    def unknowns(self) -> int:
        """Gangs times types."""
        return len(self.gangs) * len(self.found.types)

    def columns(self, gang: Places) -> Places:
        """Return the unknowns of gangs, of shape (gangs asked for, types)."""
        types = np.arange(len(self.found.types), dtype=np.int64)
        return gang[:, None] + types * len(self.gangs)

    def weighed(self) -> Floats:
        """Return rates over the weights of jobs, rounded to 32 bits."""
        weights = self.found.weights[self.job, None].astype(np.float32)
        return (self.rates.astype(np.float32) / weights).astype(np.float64)

    def throughputs(self, x: Floats) -> Floats:
        """Return the steps a second of each job, summed as the public code does."""
        shares = x.reshape(len(self.found.types), -1).T
        if not self.packed:
            steps: Floats = (self.rates * shares).sum(axis=1)
            return steps
        rates = self.rates.astype(np.float32)
        parts = [np.flatnonzero(self.job == job) for job in range(self.jobs)]
        return np.array([np.sum(rates[part] * shares[self.gang[part]]) for part in parts])

    def limit(self, program: Program, offset: int) -> None:
        """Add the limits of all shares, whose unknowns begin at a column."""
        types = np.arange(len(self.found.types), dtype=np.int64)
        unknowns = np.arange(self.unknowns, dtype=np.int64)
        row = program.at_most(np.zeros(self.unknowns))
        program.put(row + unknowns, offset + unknowns, -1.0)
        row = program.at_most(self.found.capacity)
        all_columns = self.columns(np.arange(len(self.gangs), dtype=np.int64))
        program.put(row + types, offset + all_columns, self.sizes[:, None])
        row = program.at_most(np.ones(self.jobs))
        program.put(row + self.job[:, None], offset + self.columns(self.gang), 1.0)

    def at_least(self, program: Program, offset: int, rates: Floats, least: Floats) -> int:
        """Add a row for each job: rates times shares are enough; return the first.

        Args:
            program: what is stated.
            offset: the first unknown's column.
            rates: shape (parts, types).
            least: shape (jobs,).
        """
        row = program.at_most(-least)
        program.put(row + self.job[:, None], offset + self.columns(self.gang), -rates)
        return row

    def fractions(self, x: Floats) -> Fractions:
        """Return the shares of all gangs, between 0 and 1."""
        rows = np.clip(x, 0.0, 1.0).reshape(len(self.found.types), -1).T.tolist()
        return {
            gang: dict(zip(self.found.types, row, strict=True))
            for gang, row in zip(self.gangs, rows, strict=True)
        }


def space_of(form: Form, demands: Demands) -> Space:
    """Return the unknowns of a problem.

    Raises:
        PlanError: a job can run nowhere.
    """
    found = rated(form, demands)
    if not bool((found.rates > 0).any(axis=1).all()):
        raise PlanError("no target shares: a job has no throughput on any GPU type there is")
    alone = np.arange(len(found.sizes), dtype=np.int64)
    gangs: list[Gang] = [(request.job_id,) for request in demands.requests]
    if not form.packed:
        return Space(found, tuple(gangs), found.sizes, alone, alone, found.rates)
    first, second = np.triu_indices(len(alone), 1)
    equal = found.sizes[first] == found.sizes[second]
    first, second = first[equal], second[equal]
    gangs += [
        (*gangs[one], *gangs[two]) for one, two in zip(first.tolist(), second.tolist(), strict=True)
    ]
    numbers = np.repeat(np.arange(len(alone), len(gangs), dtype=np.int64), 2)
    rates = np.concatenate([found.rates, _together(demands, first, second)])
    return Space(
        found,
        tuple(gangs),
        np.concatenate([found.sizes, found.sizes[first]]),
        np.concatenate([alone, np.column_stack([first, second]).reshape(-1)]),
        np.concatenate([alone, numbers]),
        rates.astype(np.float32).astype(np.float64),
        packed=True,
    )


def _together(demands: Demands, first: Places, second: Places) -> Floats:
    """Return the rates of both jobs of each pair in turn, of shape (2 pairs, types)."""
    table, types = demands.table, tuple(demands.gpus)
    kinds = list(dict.fromkeys(request.kind for request in demands.requests))
    numbers = {kind: number for number, kind in enumerate(kinds)}
    known = np.array(
        [
            [[table.pair_rates(name, one, two) or (0.0, 0.0) for name in types] for two in kinds]
            for one in kinds
        ]
    )
    kind = np.array([numbers[request.kind] for request in demands.requests])
    rates: Floats = known[kind[first], kind[second]].transpose(0, 2, 1).reshape(-1, len(types))
    return rates
