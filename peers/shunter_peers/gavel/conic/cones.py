"""Problems in the form ECOS takes: minimise c'x such that h − G x lies in a product of cones.

First come half-lines, a row each, then second-order cones of three rows (Domahidi, Chu and Boyd,
ECOS: An SOCP Solver for Embedded Systems, European Control Conference 2013, section II). Where the
optimum is not unique, the order of rows and columns is part of the problem: ECOS eliminates by it,
and stops somewhere else in another order.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sparse:
    """A matrix by columns: entries, their rows, and where each column begins."""

    shape: tuple[int, int]
    values: Floats
    rows: Places
    begins: Places


@dataclass(slots=True)
class Program:
    """A problem that is being stated: rows are added, and none is taken back.

    Args:
        cost: shape (columns,), c.
    """

    cost: Floats
    linear: int = 0
    quadratic: int = 0
    limits: list[Floats] = field(default_factory=list)
    entries: list[tuple[Places, Places, Floats]] = field(default_factory=list)

    @classmethod
    def of(cls, columns: int) -> "Program":
        """Return an empty problem."""
        return cls(np.zeros(columns))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.linear + 3 * self.quadratic

    def at_most(self, limits: ArrayLike) -> int:
        """Add a row G x <= h for each limit; return the number of the first."""
        assert not self.quadratic, "half-lines come first"
        first, added = self.rows, np.asarray(limits, np.float64)
        self.limits.append(added)
        self.linear += len(added)
        return first

    def in_cones(self, limits: Floats) -> int:
        """Add second-order cones by limits of shape (cones, 3); return the first row."""
        first = self.rows
        self.limits.append(limits.reshape(-1))
        self.quadratic += len(limits)
        return first

    def put(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Set entries of G, none of them twice; zeros are left out."""
        broadcast = np.broadcast_arrays(rows, columns, values)
        at, to, what = (array.reshape(-1) for array in broadcast)
        kept = what != 0
        self.entries.append(
            (at[kept].astype(np.int64), to[kept].astype(np.int64), what[kept].astype(np.float64))
        )

    def matrix(self) -> Sparse:
        """Return G."""
        shape = self.rows, len(self.cost)
        rows, columns, values = (np.concatenate(parts) for parts in zip(*self.entries, strict=True))
        order = np.argsort(columns * shape[0] + rows, kind="stable")
        begins = np.zeros(shape[1] + 1, np.int64)
        np.cumsum(np.bincount(columns, minlength=shape[1]), out=begins[1:])
        return Sparse(shape, values[order], rows[order], begins)

    def limit(self) -> Floats:
        """Return h."""
        return np.concatenate(self.limits)
