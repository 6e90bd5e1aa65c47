"""Imports that come back to where they began, also those that only a type checker follows."""

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from tests.tidy.source import Source

__all__ = ["circle_of_imports"]


def circle_of_imports(sources: Iterable[Source]) -> list[str]:
    """Return the modules of one circle, the first of them again at its end; empty: there is none.

    A package that hands on what its modules define is no circle: a module that imports it from
    within is one.
    """
    by_name = {_module(source): source for source in sources if source.is_python}
    graph = {
        name: {found for found in _imported(source, by_name) if found != name}
        for name, source in by_name.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def _module(source: Source) -> str:
    return source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(source: Source, known: dict[str, Source]) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known:
                    yield name
                elif node.module in known:
                    yield node.module
