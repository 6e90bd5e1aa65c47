"""What runs on a node runs on Python 3.8: hosts of a cluster are older than its scheduler."""

import ast
import sys
from pathlib import Path

import pytest

from shunter.backends.node import supervision

FILES = sorted(Path(supervision.__file__).parent.rglob("*.py"))
OURS = "shunter.backends.node"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_is_python_38_and_imports_the_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    faces = [node for node in tree.body if isinstance(node, ast.Try)]  # for the daemon's side alone
    for face in faces if path.name == "__init__.py" else ():
        assert [ast.unparse(handler.type or face) for handler in face.handlers] == ["ImportError"]
        tree.body.remove(face)
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    strange = [name for name in imported if not name.startswith(OURS)]
    assert [name for name in strange if name.partition(".")[0] not in sys.stdlib_module_names] == []
