"""The command as a process: exit codes, streams, and what it imports to print its help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pydantic", "sqlalchemy", "anyio", "orjson", "ClusterShell", "alembic")


def _shunter(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shunter", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["simulate", "--help"], 0),
        (["no-such-command"], 2),
        (["simulate"], 2),
        (["simulate", "no-such-file.toml"], 3),
        (["policy", "show", "no-such-policy"], 3),
    ],
)
def test_the_exit_code_of_the_process(arguments: list[str], code: int) -> None:
    assert _shunter(*arguments).returncode == code


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["submit", "--", "true"], "cd to another one, or name one with --chdir"),
        (["submit", "--dry-run", "true"], "cd to another one, or name one with --chdir"),
        (["doctor"], "cd to another one"),
        (["log", "verify", "run.db"], "cd to another one"),
        (["why", "j1", "--log", "run.db"], "cd to another one"),
    ],
)
def test_folder_that_is_gone_is_told_in_one_line(
    arguments: list[str], advice: str, tmp_path: Path
) -> None:
    code = (
        "import os, sys\n"
        "from shunter.cli import main\n"
        "os.chdir(sys.argv.pop(1))\n"
        "os.rmdir(os.getcwd())\n"
        "main()"
    )
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(gone), *arguments],
        env={**os.environ, "SHUNTER_URL": f"unix:{tmp_path}/s"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = f"error: the current folder is gone: {advice}\n"
    assert (done.returncode, done.stderr) == (3, said)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["policy", "list"], ["queue", "--help"]]
)
def test_output_onto_a_full_disk_is_one_line_of_error(
    arguments: list[str], unbuffered: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "shunter", *arguments],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=60,
        )
    said = "error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["log", "j1"], "`shunter logs j1`"),
        (["status"], "`shunter show JOB` or `shunter queue`"),
        (["squeue", "-u", "ana"], "`shunter queue`"),
        (["scancel", "j1"], "`shunter cancel JOB`"),
        (["quue"], "'queue'"),
    ],
)
def test_verb_that_is_none_of_ours_is_answered_with_ours(arguments: list[str], advice: str) -> None:
    done = _shunter(*arguments)
    assert (done.returncode, advice in done.stderr) == (2, True), done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import shunter.cli\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [["submit", "--gpus", "2", "--name", "a", "--", "true"], ["logs", "j1"], ["queue", "-a"]],
)
def test_request_to_a_daemon_imports_neither_pydantic_nor_other_commands(
    arguments: list[str], tmp_path: Path
) -> None:
    """Goal: a start that costs half, though Typer would convert options with pydantic."""
    code = (
        "import sys\n"
        "from shunter.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print([n for n in ('pydantic', 'shunter.cli.why') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "SHUNTER_URL": f"unix:{tmp_path}/s"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "[]"
    assert "no daemon answers" in done.stderr


def test_log_of_this_version_is_written_and_read_without_what_upgrades_it(
    config_file: Path, tmp_path: Path
) -> None:
    """Goal: a start that imports neither SQLAlchemy nor Alembic, a third of its CPU."""
    log = str(tmp_path / "run.db")
    code = (
        "import sys\n"
        "from shunter.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    )

    for words in (["simulate", str(config_file), "--log", log], ["why", "b", "--log", log]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.splitlines()[-1] == "[]"


def test_no_colour_where_no_color_is_set(config_file: Path) -> None:
    done = _shunter("simulate", str(config_file), NO_COLOR="1", FORCE_COLOR="1")

    assert "\x1b[3" not in done.stdout
    assert done.returncode == 0


def test_errors_leave_stdout_empty() -> None:
    done = _shunter("simulate", "no-such-file.toml", "--json")

    assert done.stdout == ""
    assert done.stderr.startswith("error: ")


def test_two_processes_with_different_hash_seeds_write_the_same_log(config_file: Path) -> None:
    documents = [
        _shunter("simulate", str(config_file), "--json", PYTHONHASHSEED=seed).stdout
        for seed in ("0", "1", "2")
    ]

    digests = {
        document.partition('"digest": ')[2].partition("elapsed")[0] for document in documents
    }
    assert len(digests) == 1
