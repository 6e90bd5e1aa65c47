"""The command as a process: its exit code, its streams, and what it imports for what."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKS = ("pydantic", "shunter.config", "shunter.policies")
"""What checks a config and builds a policy: the dearest import of all."""

PLANS = (
    *("shunter.core.plan", "shunter.core.view", "shunter.core.planning", "shunter.core.sizing"),
    *("shunter.core.ranking.policy", "shunter.core.ranking.ranking", "shunter.core.reactor"),
)
AWAITS = ("anyio", "asyncio", "ssl", "concurrent.futures")
UPGRADES = ("sqlalchemy", "alembic")
LIVE = ("shunter.api", "shunter.daemon", "shunter.backends.slurm", "httpx")
NO_LOG = ("msgspec", "shunter.core", "shunter.events", "sqlite3")
OTHERS = ("rich", "numpy", "ClusterShell")

ASKS = ("submit --gpus 2 --cpus 1.5 --name a -- true", "logs j1", "queue -a", "nodes")
NOT_IMPORTED = {
    "": (*CHECKS, *AWAITS, *UPGRADES, *LIVE, *NO_LOG, *OTHERS, "typer"),
    "--version": (*CHECKS, *AWAITS, *UPGRADES, *LIVE, *NO_LOG, *OTHERS, "shunter.client"),
    "--help": (*CHECKS, *AWAITS, *UPGRADES, *LIVE, *NO_LOG, *OTHERS, "h11"),
    "submit --help": (*CHECKS, *AWAITS, *UPGRADES, *LIVE, *NO_LOG, *OTHERS, "h11"),
    **dict.fromkeys(
        ASKS, (*CHECKS, *AWAITS, *UPGRADES, *LIVE, *NO_LOG, *OTHERS, "shunter.cli.why")
    ),
    "why b --log LOG": (*CHECKS, *PLANS, *UPGRADES, *LIVE, *OTHERS, "h11", "shunter.backends"),
    "why nobody --log LOG": (*CHECKS, *PLANS, *UPGRADES, *LIVE, *OTHERS, "h11"),
    "simulate CONFIG --log LOG": (*UPGRADES, *LIVE, "rich", "numpy", "h11", "shunter.ask"),
}
"""By command, what it does not need, and so may not import: a module, or any below it.

Nearly all the CPU of a command is its imports. LOG is one of a simulation in which `b` ends.
"""


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
        f"    print([name for name in {names!r} if any(module == name or\n"
        "        module.startswith(name + '.') for module in sys.modules)])"
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


@pytest.mark.parametrize("command", NOT_IMPORTED)
def test_command_imports_nothing_that_it_does_not_need(
    command: str, config_file: Path, tmp_path: Path
) -> None:
    log = tmp_path / "run.db"
    if "why" in command:
        assert _imported((), "simulate", str(config_file), "--log", str(log)) == ("[]", "")
    words = command.replace("CONFIG", str(config_file)).replace("LOG", str(log)).split()
    imported, errors = _imported(NOT_IMPORTED[command], *words, SHUNTER_URL=f"unix:{tmp_path}/s")
    assert imported == "[]"
    said = (
        "no daemon answers" if command in ASKS else "no job 'nobody'" if "nobody" in words else ""
    )
    assert (said in errors) if said else errors == "", "it did what it was to do"


def test_no_colour_where_no_color_is_set(config_file: Path) -> None:
    words = ("-m", "shunter", "simulate", str(config_file))
    code, out, _ = _python(*words, environ={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert (code, "\x1b[3" in out) == (0, False)
