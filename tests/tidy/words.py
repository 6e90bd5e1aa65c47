"""Names, docstrings, comments and addresses (style guide, sections 3, 9 and 10)."""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from tests.tidy.source import Finding, Source, comments

__all__ = [
    "docstrings",
    "file_names",
    "ignores",
    "machine_paths",
    "package_files",
    "registry_addresses",
    "todos",
]

BANNED_FILE_NAMES = frozenset({"base.py", "common.py", "helpers.py", "manager.py", "utils.py"})
SUMMARY_LENGTH_MAX = 80

# Spelled in pieces: this file is checked too.
MACHINE_FOLDERS = "work|root|home"
MACHINE_PATH = re.compile(rf"(?<![\w.~*\]-])/(?:{MACHINE_FOLDERS})(?:/|\b)")
REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("pypi", "python", "org"),
        ("download", "pytorch", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("crates", "io"),
        ("conda", "anaconda", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("nvcr", "io"),
        ("huggingface", "co"),
        ("raw", "githubusercontent", "com"),
        ("cdn", "jsdelivr", "net"),
        ("unpkg", "com"),
    )
)
DOWNLOAD = re.compile(
    r"https?://\S+(?:/releases/download/|/simple/|/archive/|\.(?:whl|zip|tgz|tar\.(?:gz|xz|bz2)))"
)
INDEX_OPTIONS = "index-url|extra-index-url|find-links"
INDEX_OPTION = re.compile(rf"--(?:{INDEX_OPTIONS})[ =]")

IGNORE = re.compile(r"#\s*(?:type:\s*ignore|noqa|pyright:\s*ignore)")
NAMED_IGNORE = re.compile(
    r"#\s*(?:(?:type|pyright):\s*ignore\[[\w\-, ]+\]|noqa:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)"
    r"\s+#?\s*\w.{4,}"
)
TODO = re.compile(r"\b(?:TO" + r"DO|FIXME|XXX|HACK)\b")
NUMBERED_TODO = re.compile(r"#\s*TO" + r"DO\(#\d+\): \S")

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def file_names(source: Source) -> Iterator[Finding]:
    """A file is named after what is in it, never after the drawer."""
    if source.name in BANNED_FILE_NAMES:
        yield source.finding(1, f"{source.name} says nothing: name the noun inside")


def docstrings(source: Source) -> Iterator[Finding]:
    """Modules, public functions and classes say what they are, in under 80 characters.

    A method needs no docstring, since a port documents it once for all who implement it.
    """
    if not source.is_under("shunter", "papers", "peers"):
        return
    if ast.get_docstring(source.tree) is None:
        yield source.finding(1, "the module has no docstring")
    for top in source.tree.body:
        if _needs_docstring(top) and not ast.get_docstring(top):
            yield source.finding(top.lineno, f"{top.name} has no docstring")
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        assert isinstance(node, Documented)
        summary = (ast.get_docstring(node) or "").partition("\n")[0]
        if len(summary) >= SUMMARY_LENGTH_MAX:
            yield source.finding(node.lineno, f"{node.name}: first line over 79 characters")


def package_files(source: Source) -> Iterator[Finding]:
    """An `__init__.py` is a face: it hands on names, at once or when asked, and holds no logic."""
    if source.name != "__init__.py":
        return
    for node in source.tree.body:
        if not _is_reexport(node):
            yield source.finding(node.lineno, "logic in an __init__.py")


def ignores(source: Source) -> Iterator[Finding]:
    """Every ignore names its code and its reason: `# noqa: X123  the reason`."""
    for line, comment in comments(source, IGNORE):
        if IGNORE.search(comment) and not NAMED_IGNORE.search(comment):
            yield source.finding(line, "an ignore without code or reason")


def todos(source: Source) -> Iterator[Finding]:
    """A note for later names the issue that will take it up."""
    for line, comment in comments(source, TODO):
        if TODO.search(comment) and not NUMBERED_TODO.search(comment):
            yield source.finding(line, "a note for later without an issue number")


def machine_paths(source: Source) -> Iterator[Finding]:
    """No file names a folder of the machine it was written on."""
    yield from _matching_lines(source, [MACHINE_PATH], "a path of one machine")


def registry_addresses(source: Source) -> Iterator[Finding]:
    """No file names a package index or a download: the reader's settings decide."""
    hosts = [re.compile(rf"\b{re.escape(host)}\b") for host in REGISTRIES if host in source.text]
    yield from _matching_lines(source, [*hosts, DOWNLOAD, INDEX_OPTION], "a download address")


def _needs_docstring(node: ast.stmt) -> TypeGuard[Documented]:
    """Say so for public functions and classes; of overloads, the implementation is enough."""
    if not isinstance(node, Documented) or node.name.startswith("_"):
        return False
    return not any(ast.unparse(name).endswith("overload") for name in node.decorator_list)


def _assigned_names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [name for target in targets for name in getattr(target, "elts", [target])]
    return [name.id for name in names if isinstance(name, ast.Name)]


def _is_reexport(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Try):  # a face that is there where the package behind it is installed
        inside = [*node.body, *(line for each in node.handlers for line in each.body), *node.orelse]
        return all(map(_is_reexport, inside))
    return bool(_assigned_names(node)) and all(
        name.startswith("__") and name.endswith("__") for name in _assigned_names(node)
    )


def _matching_lines(
    source: Source, patterns: Iterable[re.Pattern[str]], what: str
) -> Iterator[Finding]:
    every = [pattern for pattern in patterns if pattern.search(source.text)]
    if not every:
        return
    for number, line in enumerate(source.lines(), start=1):
        for pattern in every:
            if found := pattern.search(line):
                yield source.finding(number, f"{what}: {found.group()}")
