"""The command as a process: its exit code, its streams, and what it imports for what."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HEAVY = ("pydantic", "sqlalchemy", "anyio", "orjson", "ClusterShell", "alembic")


def _python(
    *words: str, stdout: int = subprocess.PIPE, environ: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Return the exit status of a process of Python, and what it printed on both streams."""
    done = subprocess.run(
        [sys.executable, *words],
        check=False,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        timeout=60,
    )
    return done.returncode, done.stdout or "", done.stderr


def _imported(names: tuple[str, ...], *arguments: str, **environment: str) -> tuple[str, str]:
    """Return which of some modules a command has imported at its end, and its errors."""
    code = (
        "import sys\n"
        "from shunter.cli import main\n"
        "try:\n"
        "    main() if sys.argv[1:] else None\n"
        "finally:\n"
        f"    print([name for name in {names!r} if name in sys.modules])"
    )
    _, out, errors = _python("-c", code, *arguments, environ=environment)
    return out.splitlines()[-1], errors


def test_errors_leave_stdout_empty() -> None:
    code, out, errors = _python("-m", "shunter", "simulate", "no-such-file.toml", "--json")
    assert (code, out) == (3, "")
    assert errors.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [("--version", ""), ("--help", "1"), ("policy list", ""), ("queue --help", "")],
)
def test_output_onto_a_full_disk_is_one_line_of_error(arguments: str, unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        words = ("-m", "shunter", *arguments.split())
        done = _python(*words, stdout=full.fileno(), environ={"PYTHONUNBUFFERED": unbuffered})
    assert done == (1, "", "error: the output cannot be written: No space left on device\n")


def test_help_imports_nothing_heavy() -> None:
    assert _imported(HEAVY) == ("[]", "")


@pytest.mark.parametrize("arguments", ["submit --gpus 2 --name a -- true", "logs j1", "queue -a"])
def test_request_to_a_daemon_imports_neither_pydantic_nor_other_commands(
    arguments: str, tmp_path: Path
) -> None:
    """Goal: a start that costs half, though Typer would convert options with pydantic."""
    url = f"unix:{tmp_path}/s"
    names = ("pydantic", "shunter.cli.why")
    imported, errors = _imported(names, *arguments.split(), SHUNTER_URL=url)
    assert imported == "[]"
    assert "no daemon answers" in errors


def test_log_of_this_version_is_written_and_read_without_what_upgrades_it(
    config_file: Path, tmp_path: Path
) -> None:
    """Goal: a start that imports neither SQLAlchemy nor Alembic, a third of its CPU."""
    log = str(tmp_path / "run.db")
    for words in (["simulate", str(config_file), "--log", log], ["why", "b", "--log", log]):
        assert _imported(("sqlalchemy", "alembic"), *words) == ("[]", "")


def test_no_colour_where_no_color_is_set(config_file: Path) -> None:
    words = ("-m", "shunter", "simulate", str(config_file))
    code, out, _ = _python(*words, environ={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert (code, "\x1b[3" in out) == (0, False)
