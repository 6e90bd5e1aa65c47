"""The extra `ecos`: who needs it, what is said where it is missing, and that a replay does not."""

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from shunter.config import equipped, policy_plugins
from shunter.core import Policy
from shunter.core.planning import PLACEMENTS
from shunter.errors import ConfigError
from shunter_peers.gavel import GavelPeer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "peers" / "gavel"


def peer(**params: str) -> Policy[Any]:
    chosen = GavelPeer.Params.model_validate(params)
    return equipped(GavelPeer.build(chosen, PLACEMENTS["first_fit"]()))


@pytest.fixture
def without_ecos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_plugins, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "_ecos", None)


def run(*command: str) -> Result:
    return CliRunner().invoke(app, list(command))


@pytest.mark.usefixtures("without_ecos")
def test_missing_extra_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"pip install 'shunter-peers\[ecos\]'.*solver = 'centred'"
    ):
        peer(policy="max_min_fairness_perf")


@pytest.mark.usefixtures("without_ecos")
@pytest.mark.parametrize(
    "params",
    [{"policy": "isolated"}, {"policy": "max_min_fairness_perf", "solver": "centred"}],
    ids=["without a solver", "with our own"],
)
def test_who_does_not_use_it_needs_no_extra(params: dict[str, str]) -> None:
    assert peer(**params).name == "gavel_peer"


def test_solver_is_recorded_only_where_there_is_one() -> None:
    recorded = [
        GavelPeer.Params.model_validate({"policy": name}).record()
        for name in ("isolated", "max_min_fairness_perf")
    ]

    assert [found.get("solver") for found in recorded] == [None, "ecos"]


def test_replay_takes_recorded_fractions_without_ecos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("_ecos", reason="needs the extra `ecos`")
    log = f"sqlite+aiosqlite:///{tmp_path / 'run.db'}"
    made = run("simulate", str(EXAMPLES / "max_min_fairness_perf.toml"), "--log", log)
    monkeypatch.setitem(sys.modules, "_ecos", None)

    verified = run("replay", log, "--verify")
    solved = run("replay", log, "--verify", "--resolve")

    assert (made.exit_code, verified.exit_code) == (0, 0)
    assert solved.exit_code == 2
    assert "'shunter-peers[ecos]'" in solved.output
