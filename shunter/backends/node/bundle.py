"""The supervisor as one file, for hosts on which Shunter is not installed.

The modules of this folder are joined in the order in which they need each other; their imports of
each other fall away, since they share one namespace then. The same sources give the same bytes, so
that a host that has a file of this digest needs no other. It is run as verbs.py says.
"""

import ast
from hashlib import sha256
from pathlib import Path

__all__ = ["bundle", "digest", "installer"]

TYPES = ("messages/wire",)
"""Modules that the type checker alone reads."""

MODULES = (
    "failpoints",
    "records",
    "messages/shapes",
    "messages/channel",
    "messages/journal",
    "messages/attempt_records",
    "processes/open_files",
    "processes/marks",
    "processes/attempt_files",
    "cgroups",
    "division",
    "output/files",
    "output/times",
    "usage",
    "ranks",
    "processes/reaper",
    "attempts",
    "processes/attempt_watch",
    "heartbeat",
    "sampling",
    "stopping",
    "supervision",
    "supervisor",
    "remote/base_folder",
    "remote/nvml",
    "remote/gpus",
    "remote/wiring",
    "remote/pruning",
    "remote/ownership",
    "remote/accounts",
    "remote/file_trees",
    "remote/tree_building",
    "remote/checkpoint_transfer",
    "remote/reports",
    "remote/session",
    "remote/host_inventory",
    "verbs",
)
INSTALLER = ("failpoints", "records", "remote/base_folder")
OURS = "shunter.backends.node"
HEAD = '"""The supervisor of Shunter; made by shunter/backends/node/bundle.py."""\n\n'
FOOT = '\n\nif __name__ == "__main__":\n    main()\n'


def bundle() -> bytes:
    """Return the file; it needs the standard library of Python 3.8 or later."""
    return _joined(MODULES, FOOT)


def installer() -> bytes:
    """Return the program that puts the file on a host: see remote/base_folder.py."""
    return _joined(INSTALLER, "\n\ninstall(*sys.argv[3:])\n")


def _joined(names: tuple[str, ...], foot: str) -> bytes:
    folder = Path(__file__).parent
    sources = [(folder / f"{name}.py").read_text(encoding="utf-8") for name in names]
    merged = "\n".join(_without_own_imports(source) for source in sources)
    return f"{HEAD}from __future__ import annotations\n\n{merged}{foot}".encode()


def digest(content: bytes) -> str:
    """Return what a bundle is named by: 16 hexadecimal digits of its SHA-256."""
    return sha256(content).hexdigest()[:16]


def _without_own_imports(source: str) -> str:
    """Return a module without what only a module of its own needs."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if _is_for_types(node) or (isinstance(node, ast.ImportFrom) and _falls_away(node)):
            assert node.end_lineno is not None, "the parser always tells where a statement ends"
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "".join(lines)


def _is_for_types(node: ast.stmt) -> bool:
    """Return whether a statement is read by the type checker only."""
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _falls_away(node: ast.ImportFrom) -> bool:
    module = node.module or ""
    assert all(name.asname is None for name in node.names), "a renamed import cannot fall away"
    return module == "__future__" or module.startswith(OURS)
