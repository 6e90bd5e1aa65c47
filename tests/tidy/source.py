"""The files of the repository as the checkers see them: a path, a text, a syntax tree."""

import ast
import gc
import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

__all__ = ["ROOT", "Finding", "Source", "comments", "qualified_name", "repository_sources"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Finding:
    """One broken rule, in a form an editor can jump to."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Source:
    """One file: its path relative to the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; only asked of Python files."""
        return ast.parse(self.text, self.path)

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found = defaultdict[type[ast.AST], list[ast.AST]](list)
        for node in ast.walk(self.tree):
            found[type(node)].append(node)
        return found

    def nodes(self, *kinds: type[ast.AST]) -> Sequence[ast.AST]:
        """Return the nodes of some kinds; the tree is walked once for all that ask."""
        return [node for kind in kinds for node in self._by_kind.get(kind, ())]

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)

    def lines(self) -> list[str]:
        return self.text.splitlines()

    def is_under(self, *folders: str) -> bool:
        return any(self.path.startswith(f"{folder}/") for folder in folders)

    def finding(self, line: int, what: str) -> Finding:
        return Finding(self.path, line, what)


def comments(source: Source, sought: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield line and text of every comment if any may hold what is sought.

    A hash inside a string begins none.
    """
    if not sought.search(source.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def qualified_name(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression, the empty string for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = qualified_name(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def repository_sources(*folders: str) -> tuple[Source, ...]:
    """Return every text file git tracks or would track, in the order of their paths.

    Those of some folders alone, if any are named. Python files are parsed.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = sorted({path for path in listing.stdout.split("\0") if path})
    gc.disable()  # millions of nodes, which stay: looking for garbage takes longer than parsing
    try:
        found = tuple(source for path in paths if (source := _read(path)) is not None)
        assert all(source.nodes(ast.Module) for source in found if source.is_python)
    finally:
        gc.enable()
    return found


def _read(path: str) -> Source | None:
    """Read a file; None when it was deleted since git listed it, or is no text."""
    try:
        return Source(path, (ROOT / path).read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
        return None
