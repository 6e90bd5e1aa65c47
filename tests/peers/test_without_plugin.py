"""Shunter with and without its plug-ins: old logs, and what is said where one is missing."""

import asyncio
import sys
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter import plugins
from shunter.cli import app
from shunter.events.log import import_jsonl, open_log
from shunter.plugins import BROUGHT, PAPERS, PEERS, brings

ROOT = Path(__file__).resolve().parents[2]
LOGS = sorted((ROOT / "tests" / "peers" / "logs").glob("*.jsonl"))
"""Written before the emulators were a distribution of their own; never written again."""

BRINGS = brings(PEERS)
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
            if not point.value.startswith(("shunter_papers", "shunter_peers"))
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
    ],
    ids=["simulate", "without its table"],
)
def test_command_that_needs_the_plugin_says_what_brings_it(command: tuple[object, ...]) -> None:
    done = run(*command)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"policy.name: no policy 'gavel_peer'; {BRINGS}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("without_plugin")
@pytest.mark.parametrize("words", [(), ("--help",), ("tiresias",)], ids=str)
def test_comparisons_of_papers_say_what_brings_them(words: tuple[str, ...]) -> None:
    done = run("reproduce", *(words or ("gavel",)))

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: no command 'reproduce'; {brings(PAPERS)}\n"


@pytest.mark.usefixtures("without_plugin")
@pytest.mark.parametrize("name", BROUGHT["shunter.trace_formats"])
def test_trace_of_another_simulator_says_what_reads_it(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("0\tx\n")

    named, guessed = (
        run("trace", "describe", trace, "--format", name),
        run("trace", "describe", trace),
    )

    assert (named.exit_code, guessed.exit_code) == (2, 2)
    assert named.stderr == f"error: no trace format {name!r}; {BRINGS}\n"
    assert guessed.stderr.endswith(
        f"; if it is {' or '.join(BROUGHT['shunter.trace_formats'])}: {BRINGS}\n"
    )


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

    assert all(name in with_it and name not in without_it for name in BROUGHT["shunter.policies"])
    assert "las" in without_it
