"""What `shunter submit FILE` runs: scripts, programs, files of Python, and when."""

import os
import sys
from pathlib import Path

import pytest

from tests.live.api.serving import PATIENCE_S, Served

pytestmark = pytest.mark.live


def printed(shared: Served, *words: str, **variables: str) -> tuple[str, str]:
    """Submit a job; return what it printed, and what the submission said on stderr."""
    found = shared.run("submit", "--parsable", *words, **variables)
    assert found.returncode == 0, found.stderr
    job_id = found.stdout.strip()
    assert shared.handle(job_id).result(PATIENCE_S) == 0
    return shared.run("logs", "--stdout", job_id).stdout, found.stderr


@pytest.mark.parametrize("path", [sys.executable, "venv/bin/python"])
def test_compiled_program_needs_no_dashes(shared: Served, path: str) -> None:
    """A virtual environment's python is a link, and is one of it only under its own name."""
    venv = shared.root / "venv/bin"
    venv.mkdir(parents=True, exist_ok=True)
    if not (venv / "python").exists():
        (venv / "python").symlink_to(sys.executable)
    (shared.root / "train.py").write_text("import sys; print(sys.argv, sys.executable)\n")
    out, err = printed(shared, path, "train.py", "--lr", "1")
    where = os.path.normpath(shared.root / path)
    assert out == f"['train.py', '--lr', '1'] {where}\n"
    assert err == ""


def test_file_of_python_without_a_first_line_runs_with_the_python_of_the_caller(
    shared: Served, tmp_path: Path
) -> None:
    python = tmp_path / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho mine\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (shared.root / "plain.py").write_text("#SHUNTER --name plain\nimport sys\nprint(sys.argv[1])\n")
    out, err = printed(shared, "plain.py", "x", VIRTUAL_ENV=str(tmp_path / "env"))
    assert out == "mine\nx\n"
    assert f"it runs with {python}" in err
