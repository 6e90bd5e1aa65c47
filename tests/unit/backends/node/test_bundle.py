"""The supervisor as one file: the same bytes each time, and it works on a bare, old Python."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node.bundle import MODULES, TYPES, bundle, digest
from tests.faults.supervised import wait_for

PATIENCE_S = 20.0


@cache
def old_python(version: str = "3.8") -> str | None:
    """Return a Python of this machine that really starts (a version manager's may not)."""
    name = f"python{version}"
    managed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/{name}"))
    for candidate in [shutil.which(name), *reversed(managed)]:
        if candidate is None:
            continue
        ran = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        said = ran.stdout or ran.stderr  # where a Python 2 says it
        if ran.returncode == 0 and said.startswith(f"Python {version}."):
            return str(candidate)
    return None


PYTHONS = [
    pytest.param(sys.executable, id="this"),
    pytest.param(
        old_python(), id="3.8", marks=pytest.mark.skipif(not old_python(), reason="no Python 3.8")
    ),
]


def names_of(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]


def test_bundle_is_the_same_every_time_and_under_every_hash_seed() -> None:
    program = (
        "from shunter.backends.node.bundle import bundle, digest; print(digest(bundle()), end='')"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert digests == {digest(bundle())}


def test_no_module_of_the_folder_is_forgotten() -> None:
    folder = Path(str(sys.modules[bundle.__module__].__file__)).parent
    paths = [path.relative_to(folder).with_suffix("") for path in sorted(folder.rglob("*.py"))]
    names = {path.as_posix() for path in paths if path.name not in ("__init__", "bundle")}
    assert names == {*MODULES, *TYPES}


def test_no_two_modules_of_the_bundle_define_one_name() -> None:
    counts = Counter(name for each in ast.parse(bundle()).body for name in names_of(each))
    assert [name for name, count in counts.items() if count > 1] == []


def test_bundle_imports_the_standard_library_only() -> None:
    tree = ast.parse(bundle(), feature_version=(3, 8))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    assert [
        name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names
    ] == []


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_bundle_runs_an_attempt_from_one_file(tmp_path: Path, python: str) -> None:
    """Goal: the file alone is enough. Method: away from the package, with -I -S, every verb."""
    file, root = tmp_path / "supervisor.py", str(tmp_path / "root")
    file.write_bytes(bundle())

    def ask(verb: str, *arguments: str, order: object = None) -> dict[str, Any]:
        ran = subprocess.run(
            [python, "-I", "-S", str(file), verb, root, *arguments],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=tmp_path,
        )
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    suspend = {"mode": "cooperative", "cooperative_s": 5, "signal_s": 5, "restart_s": 5}
    argv = ["/bin/sh", "-c", "while ! test -e $SHUNTER_SUSPEND; do sleep 0.02; done; exit 75"]
    order = {
        "job": "j0",
        "attempt": 1,
        "term": 3,
        "placement": [],
        "ranks": [{"argv": argv, "env": {}, "cpus": [], "directory": "/"}],
        "suspend": {**suspend, "signal": 10},
        "grace_s": 1,
        "heartbeat": None,
    }
    assert ask("term", "3") == {"term": 3}
    assert ask("probe", "j0", "1")["state"] == "absent"
    assert ask("start", order=order) == {"answer": "started"}
    assert ask("start", order=order) == {"answer": "known"}
    assert ask("probe", "j0", "1")["state"] == "running"
    assert ask("send", "j0", "1", order={"do": "suspend", "term": 3}) == {"taken": True}
    wait_for(lambda: ask("probe", "j0", "1")["state"] == "ended", "its end")
    (known,) = ask("inventory")["attempts"]
    assert known["status"]["suspended"]
    assert [note["what"] for note in known["notes"]] == ["requested"]
    assert ask("fence", "j0", "2") == {"attempt": 2}
    assert ask("start", order={**order, "attempt": 2})["answer"] == "refused"
    assert ask("sweep", "j0", "1") == {"left": 0}
