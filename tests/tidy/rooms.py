"""Rooms: the folders of a package, what of them others import, and in which direction.

A room is a folder with chapters in it; what it holds lies in its chapters, what others import of it
in its face (`__init__.py`, with the names in `__init__.pyi`). One table of imports answers all.
"""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.tidy.source import Finding, Source

__all__ = ["House", "class_names", "faces", "folder_circles", "module_circle"]

AGENT = "shunter.backends.node"
"""Runs on a server with the standard library only, where no face can be read: inside of it, and of
its folders, each chapter is imported by name."""
SDK = "is a distribution of its own, which may depend on nothing"
FACELESS = {
    "shunter.backends": "holds one chapter, which the simulated backend and the live ones share",
    "shunter.train": SDK,
    "shunter.train.adapters": SDK,
    "shunter.train.check": SDK,
    "shunter.events.log.migrations": "is a folder that Alembic reads",
    "shunter.events.log.migrations.versions": "is a folder that Alembic reads",
}
"""The rooms without a face, and why: their chapters are imported by name."""


FACE = "__init__.pyi"


class Import(NamedTuple):
    """One name that a module imports: `name` of `module`, or the module itself."""

    source: Source
    line: int
    module: str
    name: str | None


class House:
    """The modules of a package by dotted name, its faces, and every import of one of them."""

    def __init__(self, sources: Collection[Source], top: str) -> None:
        self.top = top
        python = [source for source in sources if source.is_python]
        self.modules = {
            module_name(source): source
            for source in python
            if source.path.startswith(f"{top}/") or f"/{top}/" in source.path
        }
        self.folders = {
            name for name, source in self.modules.items() if source.name == "__init__.py"
        }
        self.faces = {source.folder: source.text for source in sources if source.name == FACE}
        self.imports = [found for source in python for found in self._imports_of(source)]

    def chapter_of(self, found: Import) -> str:
        """Return the module that an import reads, be it named whole or taken as a name."""
        whole = f"{found.module}.{found.name}"
        return whole if whole in self.modules else found.module

    def face_of(self, folder: str) -> str:
        """Return what the face of a folder hands on, as text; empty: nothing."""
        return self.faces.get(self.modules[folder].folder, "")

    @cached_property
    def within(self) -> Sequence[tuple[str, str]]:
        """Importer and imported of each import between two modules of the package."""
        pairs = ((module_name(found.source), self.chapter_of(found)) for found in self.imports)
        return [(one, read) for one, read in pairs if one in self.modules and one != read]

    def _imports_of(self, source: Source) -> Iterator[Import]:
        for node in source.nodes(ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self.modules:
                        yield Import(source, node.lineno, alias.name, None)
            elif isinstance(node, ast.ImportFrom) and node.module in self.modules:
                for alias in node.names:
                    yield Import(source, node.lineno, node.module, alias.name)


def module_name(source: Source) -> str:
    """Return the dotted name of a file; that of a plug-in begins at its package."""
    path = source.path.removesuffix(".py").removesuffix("/__init__")
    return path.removeprefix("papers/").removeprefix("peers/").replace("/", ".")


def module_circle(house: House) -> list[str]:
    """Return the modules of one circle, the first of them again at its end; empty: there is none.

    A package that hands on what its modules define is no circle: a module that imports it from
    within is one.
    """
    return _circle((importer, read) for importer, read in house.within)


def folder_circles(house: House) -> Iterator[list[str]]:
    """Yield a circle among the parts of each folder that has one.

    The parts of a folder are its modules, each alone, and the folders in it, each with all that it
    holds. Its own `__init__.py` is none: it hands on what they define.
    """
    for folder in sorted(house.folders):
        parts = ((_part(folder, importer), _part(folder, read)) for importer, read in house.within)
        if found := _circle((one, other) for one, other in parts if one and other):
            yield found


def faces(house: House) -> Iterator[Finding]:
    """What lies outside of a folder imports its face, never a chapter of it.

    A test may import a chapter as a module, to put something in the place of one of its parts, and
    a private name of it.
    """
    for found in house.imports:
        chapter = house.chapter_of(found)
        folder = chapter.rpartition(".")[0]
        importer = module_name(found.source)
        if _is_in(importer, AGENT) and _is_in(chapter, AGENT):
            if chapter in house.folders:
                yield found.source.finding(found.line, f"on a node {chapter} hands on nothing")
            continue
        if chapter in house.folders or folder == house.top or folder in FACELESS:
            continue
        if _is_in(importer, folder):
            continue
        as_module = chapter != found.module or found.name is None
        if as_module and f"from . import {found.name} as" in house.face_of(folder):
            continue
        is_inner = as_module or (found.name or "").startswith("_")
        if is_inner and found.source.path.startswith("tests/"):
            continue
        yield found.source.finding(
            found.line, f"imports from {chapter}: put the name into the face of {folder}"
        )


def class_names(house: House) -> Iterator[Finding]:
    """A class has a name of its own in its folder."""
    known: dict[tuple[str, str], str] = {}
    for name, source in house.modules.items():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                first = known.setdefault((source.folder, node.name), name)
                if first != name:
                    yield source.finding(node.lineno, f"{node.name} is a class of {first} as well")


def _is_in(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def _part(folder: str, module: str) -> str | None:
    """Return the part of a folder to which a module belongs, None if to none."""
    if not module.startswith(f"{folder}."):
        return None
    return f"{folder}.{module.removeprefix(f'{folder}.').partition('.')[0]}"


def _circle(edges: Iterable[tuple[str, str]]) -> list[str]:
    graph: dict[str, set[str]] = defaultdict(set)
    for one, other in edges:
        if one != other:
            graph[one].add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []
