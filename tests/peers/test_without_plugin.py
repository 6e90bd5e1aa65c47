"""Shunter with and without shunter-peers: old logs, and what is said where it is missing."""

import asyncio
import sys
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter.app import plugins
from shunter.app.cli import app
from shunter.app.plugins import BRINGS, PEERS
from shunter.events.log import import_jsonl, open_log

ROOT = Path(__file__).resolve().parents[2]
LOGS = sorted((ROOT / "tests" / "peers" / "logs").glob("*.jsonl"))
"""Written before the emulators were a distribution of their own; never written again."""

EXAMPLE = ROOT / "examples" / "peers" / "gavel" / "isolated.toml"


@pytest.fixture(params=LOGS, ids=lambda path: path.stem)
def kept(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def old_log(kept: Path, tmp_path: Path) -> Path:
    """Return the database of an old log."""
    path, lines = tmp_path / "old.db", kept.read_bytes().splitlines(keepends=True)

    async def written() -> None:
        async with open_log(str(path)) as log:
            await import_jsonl(lines, log)

    asyncio.run(written())
    return path


@pytest.fixture
def without_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as if the distribution were not installed."""

    def others(group: str) -> EntryPoints:
        return EntryPoints(
            point
            for point in entry_points(group=group)
            if not point.value.startswith("shunter_peers")
        )

    monkeypatch.setattr(plugins, "entry_points", others)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shunter_peers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "shunter_peers", None)


def run(*command: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in command])


@pytest.mark.usefixtures("without_plugin")
def test_old_log_replays_and_is_explained_without_the_plugin(old_log: Path) -> None:
    replayed, asked = run("replay", old_log), run("why", "1", "--log", old_log)

    assert (replayed.exit_code, asked.exit_code) == (0, 0), replayed.stderr + asked.stderr
    assert "finished" in replayed.stdout


@pytest.mark.usefixtures("without_plugin")
def test_verifying_names_the_missing_plugin_on_one_line(old_log: Path, kept: Path) -> None:
    name = kept.stem.partition("-")[0]
    done = run("replay", old_log, "--verify")

    assert done.exit_code == 3
    assert done.stderr == f"error: there is no policy {name!r}; {BRINGS}\n"


def test_plugin_decides_an_old_log_again(old_log: Path) -> None:
    done = run("replay", old_log, "--verify")

    assert done.exit_code == 0, done.stdout + done.stderr
    assert run("replay", old_log).stdout in done.stdout


@pytest.mark.usefixtures("without_plugin")
@pytest.mark.parametrize(
    "command",
    [
        ("simulate", EXAMPLE),
        ("simulate", EXAMPLE, "--set", "policy.params={}"),
        ("reproduce", "gavel", "--jobs", "3", "-j", "1"),
    ],
    ids=["simulate", "without its table", "reproduce"],
)
def test_command_that_needs_the_plugin_says_what_brings_it(command: tuple[object, ...]) -> None:
    done = run(*command)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"policy.name: no policy 'gavel_peer'; {BRINGS}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("without_plugin")
def test_comparison_of_synergy_says_what_brings_its_peer() -> None:
    done = run("reproduce", "synergy", "--jobs", "3", "-j", "1")

    assert (done.exit_code, done.stdout) == (2, "")
    assert f"policy.name: no policy 'synergy_peer'; {BRINGS}\n" in done.stderr


@pytest.mark.usefixtures("without_plugin")
def test_world_that_is_not_installed_says_what_brings_it() -> None:
    example = ROOT / "examples" / "peers" / "tiresias" / "dlas.toml"

    done = run("simulate", example, "--policy", "fifo", "--set", "policy.params={}")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"simulation.world: no world 'remembered_ends'; {BRINGS}\n")
    assert done.stderr.count("\n") == 1


def test_list_has_the_policies_once_they_are_installed(
    request: pytest.FixtureRequest,
) -> None:
    with_it = run("policy", "list").stdout
    request.getfixturevalue("without_plugin")
    without_it = run("policy", "list").stdout

    assert all(name in with_it and name not in without_it for name in PEERS["shunter.policies"])
    assert "las" in without_it
