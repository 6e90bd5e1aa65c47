"""Learning curves of a search, made up so that its baseline is the published one.

The configurations of the paper are not public. A configuration here ends with an accuracy A after
all its epochs, and comes there with a time constant tau: after e of N epochs it has
A (1 - exp(-e / tau)) / (1 - exp(-N / tau)). A is uniform between `CHANCE`, the thresholds and
`BEST`, tau is log-normal, and neither hangs on the other. Accuracy is known at the ends of epochs,
without noise.

What is fitted, and to the baseline alone (`figures`): the shares p of configurations that end above
a threshold, so that half of all searches come to it before the published time; and the median of
tau, so that those above 90 % take as long as the published time leaves of the seventh wave. If a
part F of those above a threshold are there by the time x in wave w, half of all searches come there
before when (1 - p)^(16 (w - 1)) (1 - p F(x))^n = 1/2, with n configurations in that wave.

A search is one *like the published one*: its configurations above 70, 80 and 90 % come first in
waves 1, 4 and 7, as the published times say if all trainings are equally long. Without that, half
of all searches would have no configuration above 90 % at all.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, log
from statistics import NormalDist
from typing import Final

from shunter.core import RandomStream
from shunter_papers.gandiva.automl.figures import CONFIGS, GPUS, THRESHOLDS, WAVES

CHANCE: Final = 0.1
"""The accuracy of a guess among ten classes, below which no configuration ends."""

BEST: Final = 0.95
"""The most that a configuration ends with: what residual networks reach on CIFAR-10."""


@dataclass(frozen=True)
class Family:
    """From what configurations are drawn, all of which train for as many `epochs`.

    `above` are the shares of those that end above each threshold; `tau` is the median of the time
    constants in epochs, and `spread` the standard deviation of their logarithm.
    """

    epochs: int
    above: tuple[float, float, float]
    tau: float
    spread: float

    @property
    def classes(self) -> tuple[tuple[float, float, float], ...]:
        """From which accuracy to which, and the share that ends there."""
        bounds = pairwise((CHANCE, *THRESHOLDS, BEST))
        shares = (before - after for before, after in pairwise((1.0, *self.above, 0.0)))
        return tuple((low, high, share) for (low, high), share in zip(bounds, shares, strict=True))


FITTED: Final = Family(217, (0.1040, 0.0108, 0.0071), 14.0, 0.3)
"""Trainings of 848 minutes. 100 configurations on 16 GPUs are seven waves, and the published 2849.1
is three trainings and a part of one, 5296.7 six and a part: between 757 and 883 minutes. Near 850
one time constant explains those parts and the 134.1 too, so its spread is taken to be small."""

SPREAD: Final = Family(217, (0.0929, 0.0110, 0.0070), 13.7, 0.6)
"""Fitted the same way with twice the spread."""

SHORTER: Final = Family(205, (0.2595, 0.0117, 0.0070), 33.4, 1.0)
"""Trainings of 802 minutes, where only a spread of time constants explains the 134.1."""

_NORMAL: Final = NormalDist()
_ULPS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """The accuracy of one configuration by epoch; `final` is that of the last one."""

    final: float
    tau: float
    epochs: int

    def accuracy(self, epochs: int) -> float:
        """Return the accuracy after so many whole epochs."""
        return self.final * (1 - exp(-epochs / self.tau)) / (1 - exp(-self.epochs / self.tau))

    def epochs_to(self, threshold: float) -> int | None:
        """Return after how many epochs its accuracy is above a threshold; None: never."""
        if self.final <= threshold:
            return None
        part = threshold / self.final * (1 - exp(-self.epochs / self.tau))
        return min(self.epochs, ceil(-self.tau * log(1 - part) + _ULPS))


Curves = tuple[Curve, ...]
"""The configurations of a search, in the order in which they are tried."""


def like_published(seed: int, family: Family = FITTED) -> Curves:
    """Return the search of a seed.

    Waves depend on nothing but themselves, so each is drawn anew until it is as published: that
    gives the same searches as drawing whole ones until one is, a thousand times as quickly.
    """
    rng = RandomStream("gandiva automl", seed)
    places = list[float]()
    while len(places) < CONFIGS:
        wave, size = len(places) // GPUS + 1, min(GPUS, CONFIGS - len(places))
        drawn = [rng.random() for _ in range(size)]
        if _is_as_published(wave, min(drawn), family):
            places += drawn
    return tuple(_curve(place, family, rng) for place in places)


def _is_as_published(wave: int, best: float, family: Family) -> bool:
    """Say whether a wave with this best place passes thresholds as published."""
    return all(
        wave > first or (best < above) is (wave == first)
        for above, first in zip(family.above, WAVES, strict=True)
    )


def _curve(place: float, family: Family, rng: RandomStream) -> Curve:
    """Return the configuration at a place, from 0 (the best) to 1."""
    spread = family.spread * _NORMAL.inv_cdf(max(rng.random(), _ULPS))
    tau = family.tau * exp(spread)
    for low, high, share in reversed(family.classes):
        if place < share:
            return Curve(high - (high - low) * place / share, tau, family.epochs)
        place -= share
    return Curve(CHANCE, tau, family.epochs)
