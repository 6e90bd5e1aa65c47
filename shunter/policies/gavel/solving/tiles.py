"""Cholesky factors of dense matrices of a few hundred rows, in tiles.

Linear algebra libraries turn to threads from a size on that depends on how they were built. A tile
is below every such size, so that the factors are computed by one thread, in one order, whatever
the environment says. The method is the right-looking blocked one (Golub and Van Loan, Matrix
Computations, 4th edition, section 4.2.9).
"""

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.interior import Floats

__all__ = ["Tiles", "tile_positions", "tiled_entries"]

_TILE = 48
_LEAST = 1e-14  # of a unit diagonal: keeps rows apart that say the same


def tile_positions(
    size: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return where entries of a square matrix lie in its flat array of tiles."""
    tile = (first // _TILE) * -(-size // _TILE) + second // _TILE
    return (tile * _TILE + first % _TILE) * _TILE + second % _TILE


def tiled_entries(size: int) -> int:
    """Return the length of the flat array of tiles of a square matrix."""
    return (-(-size // _TILE) * _TILE) ** 2


class Tiles:
    """A factorised positive definite matrix: an array of tiles, and a diagonal."""

    def __init__(self, size: int, entries: Floats, diagonal: Floats) -> None:
        self.size = size
        side = -(-size // _TILE)
        tiles = entries.reshape(side, side, _TILE, _TILE)
        steps = np.arange(side * _TILE)
        block, place = steps // _TILE, steps % _TILE
        whole = tiles[block, block, place, place]
        whole[:size] += diagonal
        whole[size:] = 1.0
        self.norm = (1.0 / np.sqrt(whole)).reshape(side, _TILE)
        tiles = tiles * self.norm[:, None, :, None] * self.norm[None, :, None, :]
        tiles[block, block, place, place] = 1.0 + _LEAST
        self.inverses = np.empty((side, _TILE, _TILE))
        for k in range(side):
            self.inverses[k] = np.linalg.inv(np.linalg.cholesky(tiles[k, k]))
            panel = tiles[k + 1 :, k] @ self.inverses[k].T
            tiles[k + 1 :, k] = panel
            tiles[k + 1 :, k + 1 :] -= panel[:, None] @ panel[None].transpose(0, 1, 3, 2)
        self.lower = tiles

    def solve(self, right: Floats) -> Floats:
        """Return the solution for one right side."""
        full = np.zeros_like(self.norm)
        full.reshape(-1)[: self.size] = right
        full *= self.norm
        for k in range(len(full)):
            full[k] = self.inverses[k] @ full[k]
            full[k + 1 :] -= self.lower[k + 1 :, k] @ full[k]
        for k in reversed(range(len(full))):
            full[k] -= (self.lower[k + 1 :, k] * full[k + 1 :, :, None]).sum(axis=(0, 1))
            full[k] = self.inverses[k].T @ full[k]
        full *= self.norm
        return full.reshape(-1)[: self.size]
