"""What is to be solved: groups of identical jobs, the cluster, and pairs that may share a GPU.

Jobs of equal throughputs, gang and weight have equal rows. The programs are convex and symmetric
under their exchange, so that an optimum with equal fractions for equal jobs exists, and a group
of them is one row with a count (OSDI 2020, section 3; the specification calls it type
aggregation). `alike` finds the groups.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.interior import Floats
from shunter.policies.gavel.solving.pair_form import Places


class Status(StrEnum):
    """What became of a problem."""

    optimal = "optimal"
    stalled = "stalled"  # fractions keep every limit, but the objective is not certified to 1e-6
    infeasible = "infeasible"  # no fractions satisfy the demands: deadlines, say
    unrunnable = "unrunnable"  # a group has no throughput on any GPU type there is
    invalid = "invalid"  # shapes that do not fit, or numbers that are negative or not finite
    empty = "empty"  # no jobs


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of groups whose jobs may share GPUs, each pair once.

    Args:
        first: shape (pairs,), a group.
        second: shape (pairs,), a group of the same gang; the same one needs two jobs in it.
        first_rates: shape (pairs, types), steps a second of a job of the first beside the second.
        second_rates: shape (pairs, types), steps a second of the second; both 0 do not fit.
    """

    first: Places
    second: Places
    first_rates: Floats
    second_rates: Floats

    @classmethod
    def none(cls, groups: "Groups") -> "Pairs":
        """Return no pairs."""
        nobody, nothing = np.zeros(0, np.intp), np.zeros((0, len(groups.capacity)))
        return cls(nobody, nobody, nothing, nothing)

    def weights(self, counts: Floats) -> Floats:
        """Return how many pairs of jobs each pair of groups is."""
        same = self.first == self.second
        both = counts[self.first] * (counts[self.second] - same)
        weights: Floats = both / np.where(same, 2.0, 1.0)
        return weights


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of identical jobs, and the cluster.

    Args:
        rates: shape (groups, types), steps a second of a whole gang; 0 where it cannot run.
        counts: shape (groups,), jobs of each.
        gangs: shape (groups,), GPUs a job.
        capacity: shape (types,), GPUs.
        pairs: what may share GPUs, if anything.
        idle: do as the public code does: let time without throughput take part in the centre,
            and leave what the path has of fractions that are 0 at its end. It is in the order of
            what little they cost, and so is who gets left-over GPUs there.
    """

    rates: Floats
    counts: Floats
    gangs: Floats
    capacity: Floats
    pairs: Pairs | None = None
    idle: bool = False

    def fault(self) -> Status | None:
        """Return what keeps any policy from an answer."""
        groups = len(self.counts)
        if self.rates.shape != (groups, len(self.capacity)) or self.gangs.shape != (groups,):
            return Status.invalid
        if not groups:
            return Status.empty
        if not (_at_least(self.rates, 0) and _at_least(self.capacity, 0)):
            return Status.invalid
        if not (_at_least(self.counts, 1) and _at_least(self.gangs, 1)) or self._pairs_unfit():
            return Status.invalid
        runnable = ((self.rates > 0) & (self.capacity > 0)).any(axis=1)
        return None if runnable.all() else Status.unrunnable

    def only(self, chosen: NDArray[np.bool_]) -> "Groups":
        """Return some groups, of which none may share GPUs."""
        assert self.pairs is None
        counts, gangs = self.counts[chosen], self.gangs[chosen]
        return replace(self, rates=self.rates[chosen], counts=counts, gangs=gangs)

    def fastest(self, types: NDArray[np.bool_] | None = None) -> Floats:
        """Return the most steps a second of a job of each group, on GPU types of some."""
        usable = (self.capacity > 0) & (True if types is None else types)
        most: Floats = (self.rates * usable).max(axis=1)
        if self.pairs is not None and len(self.pairs.first):
            np.maximum.at(most, self.pairs.first, (self.pairs.first_rates * usable).max(axis=1))
            np.maximum.at(most, self.pairs.second, (self.pairs.second_rates * usable).max(axis=1))
        return most

    def _pairs_unfit(self) -> bool:
        pairs = self.pairs
        if pairs is None:
            return False
        shape = (len(pairs.first), len(self.capacity))
        if pairs.first_rates.shape != shape or pairs.second_rates.shape != shape:
            return True
        if pairs.second.shape != shape[:1]:
            return True
        groups = np.concatenate([pairs.first, pairs.second])
        if groups.size and not 0 <= groups.min() <= groups.max() < len(self.counts):
            return True
        if (self.gangs[pairs.first] != self.gangs[pairs.second]).any():
            return True
        return not (_at_least(pairs.first_rates, 0) and _at_least(pairs.second_rates, 0))


@dataclass(frozen=True, slots=True)
class Shares:
    """An answer.

    Args:
        status: whether it is one.
        objective: what the fractions reach; what it means is the policy's business.
        bound: what no fractions can beat, from the duals; equal to the objective where the
            policy solves no program.
        fractions: shape (groups, types), of the time of each job of a group.
        pair_fractions: shape (pairs, types), of each two jobs, of the time of both.
        throughputs: shape (groups,), steps a second of each job, pairs included.
        solves: how many programs it took.
    """

    status: Status
    objective: float
    bound: float
    fractions: Floats
    pair_fractions: Floats
    throughputs: Floats
    solves: int = 1

    @classmethod
    def none(cls, groups: Groups, status: Status) -> "Shares":
        """Return no shares, and why."""
        count, types = len(groups.counts), len(groups.capacity)
        pairs = len(groups.pairs.first) if groups.pairs else 0
        nothing = np.zeros((count, types)), np.zeros((pairs, types)), np.zeros(count)
        return cls(status, 0.0, 0.0, *nothing, solves=0)


def proportional_rates(groups: Groups) -> Floats:
    """Return p: the throughput of a share of every type in proportion to its GPUs.

    The normalisation of OSDI 2020, section 4.1, as the public code has it.
    """
    total = max(float(groups.capacity.sum()), 1e-300)
    share: Floats = (groups.rates * (groups.capacity / total)).sum(axis=1)
    return share


def alike(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Find identical rows.

    Returns:
        the first row of each group, in order of appearance; the group of each row; the counts.
    """
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    mixed = np.zeros(len(rows), np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first[group]], rows):  # two rows of one hash
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    group = place[group.reshape(-1)]
    return first[order], group, np.bincount(group, minlength=len(first))


def _at_least(values: Floats, least: float) -> bool:
    return bool(np.isfinite(values).all() and (values >= least).all())
