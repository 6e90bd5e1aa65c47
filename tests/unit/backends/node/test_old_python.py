"""What runs on a node runs on Python 3.8: hosts of a cluster are older than its scheduler."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.backends.node import supervisor
from shunter.backends.node.supervisor import command

FILES = sorted(Path(supervisor.__file__).parent.glob("*.py"))
OURS = "shunter.backends.node"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_is_python_38_and_imports_the_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    strange = [name for name in imported if not name.startswith(OURS)]
    assert [name for name in strange if name not in sys.stdlib_module_names] == []


@pytest.mark.live
def test_supervisor_starts_under_python_38(tmp_path: Path) -> None:
    call = command(str(tmp_path), "python3.8")
    try:
        subprocess.run(["python3.8", "-c", ""], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs python3.8")
    ran = subprocess.run(call, input="{", capture_output=True, text=True, check=False)
    assert "JSONDecodeError" in ran.stderr
