"""Answers: programs followed to their end, what rounding left taken off, limits kept exactly."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.groups import Groups, Shares, Status
from shunter.policies.gavel.solving.interior import CENTRED, Floats, Point, centred, follow
from shunter.policies.gavel.solving.programs import Program

ACCURACY = 1e-9  # of the objective: where the path is left
CERTIFIED = 1e-6  # of the objective: within what an answer is called optimal

_RESIDUES = 1e-5  # how exactly residues have to be on the path, where their order counts
_TINY = 1e-8  # of the time of a job: what the path leaves of fractions that are 0 at its end


@dataclass(frozen=True, slots=True)
class Level:
    """The largest level of throughputs over demands, and what limits it.

    Args:
        value: the level.
        bound: what it cannot exceed.
        weight: shape (groups,), the duals of the demands; they sum to 1 over all jobs.
        held: shape (groups,), whether a group has this level in every optimum.
        scarce: shape (types,), whether GPUs of a type are used up at a price.
    """

    value: float
    bound: float
    weight: Floats
    held: NDArray[np.bool_]
    scarce: NDArray[np.bool_]
    program: Program
    point: Point


def largest_level(groups: Groups, demand: Floats, accuracy: float = ACCURACY) -> Level:
    """Return the largest t at which throughputs are at least t times the demand.

    Strict complementarity tells what holds the level in every optimum: the path ends where of a
    slack and its dual just one is 0 (Goldman and Tucker, 1956).
    """
    program = Program.for_level(groups, demand)
    point = follow(program.form, program.start(program.spread(), 1.0), accuracy)
    slack, dual, terms = point.slack, point.dual, program.form.terms
    held = (terms.slope > 0) & (dual.rate * terms.counts.sum() > slack.rate)
    scarce = dual.gpus > slack.gpus
    bound = program.bound(dual)
    return Level(point.t, bound, dual.rate, held, scarce, program, point)


def finished(program: Program, point: Point) -> Shares:
    """Return the fractions of a point, centred, with all limits kept exactly."""
    groups = program.groups
    within = _RESIDUES if groups.idle else CENTRED
    single, paired = program.split(centred(program.form, point, within).x)
    if groups.idle:
        return shares_of(groups, single, paired)
    time = _time(groups, single, paired)
    single = np.where(single < _TINY * time[:, None], 0.0, single)
    pairs = groups.pairs
    if pairs is not None and len(paired):
        counts = groups.counts
        total = pairs.weights(counts) / np.minimum(counts[pairs.first], counts[pairs.second])
        least = _TINY * np.minimum(time[pairs.first], time[pairs.second])
        paired = np.where(paired * total[:, None] < least[:, None], 0.0, paired)
    return shares_of(groups, single, paired)


def shares_of(groups: Groups, single: Floats, paired: Floats) -> Shares:
    """Return fractions as an answer, scaled down where rounding has passed a limit."""
    over = np.maximum(_time(groups, single, paired), 1.0)
    single = single / over[:, None]
    pairs = groups.pairs
    used = (groups.counts * groups.gangs) @ single
    if pairs is not None and len(paired):
        paired = paired / np.maximum(over[pairs.first], over[pairs.second])[:, None]
        used = used + (pairs.weights(groups.counts) * groups.gangs[pairs.first]) @ paired
    fits = np.minimum(1.0, groups.capacity / np.maximum(used, 1e-300))
    single, paired = single * fits, paired * fits
    rates = throughputs(groups, single, paired)
    return Shares(Status.optimal, 0.0, 0.0, single, paired, rates)


def throughputs(groups: Groups, single: Floats, paired: Floats) -> Floats:
    """Return each job's steps a second: effective throughput (OSDI 2020, 3.1)."""
    rates: Floats = (groups.rates * single).sum(axis=1)
    pairs = groups.pairs
    if pairs is None or not len(paired):
        return rates
    weights = pairs.weights(groups.counts)
    for side, beside in ((pairs.first, pairs.first_rates), (pairs.second, pairs.second_rates)):
        steps = weights * (beside * paired).sum(axis=1)
        rates = rates + np.bincount(side, steps, len(rates)) / groups.counts
    return rates


def concluded(shares: Shares, objective: float, bound: float, solves: int) -> Shares:
    """Return an answer with its objective, and whether the bound certifies it."""
    certain = abs(bound - objective) <= CERTIFIED * max(abs(objective), 1e-300)
    status = Status.optimal if certain else Status.stalled
    return replace(shares, status=status, objective=objective, bound=bound, solves=solves)


def _time(groups: Groups, single: Floats, paired: Floats) -> Floats:
    time: Floats = single.sum(axis=1)
    pairs = groups.pairs
    if pairs is None or not len(paired):
        return time
    together = pairs.weights(groups.counts) * paired.sum(axis=1)
    both = np.bincount(pairs.first, together, len(time)) + np.bincount(
        pairs.second, together, len(time)
    )
    return time + both / groups.counts
