"""Writes the built-in factors into their reference: `python -m docs.factors_page`.

A test compares the page with what this would write, so it cannot fall behind.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from shunter.core.speeds import ModelFactors
from shunter.events import Level
from shunter.workloads import BUILTIN_FACTORS, load_factors

K = TypeVar("K")
MARK = "<!-- from here on written by docs/factors_page.py -->"
HEAD = ("| model | place | left | | source |", "|---|---|---|---|---|")
PAGE = Path(__file__).with_name("reference") / "factors.md"


def page() -> str:
    """Return the page."""
    file = load_factors(BUILTIN_FACTORS, lambda _: "")
    models: dict[int, tuple[str, ModelFactors]] = {}  # each once, by the first of its names
    for model, factors in file.table.models.items():
        models.setdefault(id(factors), (model, factors))
    rows = [
        f"| {model} | {place} | {left:.3g} | {mark} | {file.sources[model]} |"
        for model, factors in models.values()
        for place, left, mark in _places(factors)
    ]
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return "\n".join([before + MARK, "", *HEAD, *rows, ""])


def _places(factors: ModelFactors) -> Iterator[tuple[str, float, str]]:
    """Yield where a table says anything of a model: place, what is left, how it is known."""
    if factors.levels:
        known_levels = (Level.switch, *factors.levels)
        left_in = {
            level: left
            for level, left in factors.in_server.items()
            if level is not Level.nvlink or level in factors.levels
        }
        yield from _marked("GPUs in one", left_in, known_levels)
    for gpus in sorted({over * each for over, each in factors.shapes}):
        left = {over: factors.spread(gpus, over) for over in range(2, gpus + 1)}
        known = [over for over, each in factors.shapes if over * each == gpus]
        yield from _marked(f"{gpus} GPUs, servers:", left, known)
    if factors.beside:
        known_beside = (*factors.beside, Level.rack)
        *beside, _ = _marked("neighbour in one", factors.neighbourhood, known_beside)
        yield from beside


def _marked(
    what: str, left: Mapping[K, float], known: Collection[K]
) -> Iterator[tuple[str, float, str]]:
    places = list(left)
    for number, place in enumerate(places):
        has_later = any(later in known for later in places[number:])
        mark = "" if place in known else "interpolated" if has_later else "at most"
        yield f"{what} {place}", left[place], mark


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
