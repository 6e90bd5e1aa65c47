import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter import plugins
from shunter.cli import app
from shunter.config import POLICIES, built, find_policy
from shunter.core.planning import PLACEMENTS
from shunter.errors import ConfigError, NotFoundError
from shunter.policies import FAMILIES

ROOT = Path(__file__).parents[4]


def _install(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    found = [EntryPoint(name, value, POLICIES.group) for name, value in points.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)


def test_every_policy_can_be_loaded_and_bears_its_name() -> None:
    assert [find_policy(name).name for name in POLICIES.names()] == list(POLICIES.names())


def test_an_unknown_policy_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="there is no policy 'fifi'; did you mean 'fifo'"):
        find_policy("fifi")


def test_a_package_adds_a_policy_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, mine="shunter.policies.las:Las")

    assert POLICIES.names() == ("mine",)
    assert find_policy("mine").name == "las"


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, mine="no_such_package:Policy")

    with pytest.raises(ConfigError, match="'mine' cannot be loaded from no_such_package:Policy"):
        find_policy("mine")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tests.unit.app.runs.plugin:NoParams", "is no policy: it lacks Params (a class below"),
        ("tests.unit.app.config.exits:Policy", "cannot be loaded from .*: SystemExit: 3"),
        ("no_such_package:Policy", "cannot be loaded from"),
    ],
)
def test_plugin_that_is_no_policy_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    _install(monkeypatch, mine=value)
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        find_policy("mine")


def test_policy_that_is_built_without_hooks_is_an_error_of_the_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _install(monkeypatch, mine="tests.unit.app.runs.plugin:Unversioned")
    plugin = find_policy("mine")
    with pytest.raises(ConfigError, match=r"lacks name \(str\), version \(str\), .* plan\(\)"):
        built(plugin, plugin.Params(), PLACEMENTS["spread"]())


def test_parameter_of_no_known_type_is_told_with_the_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _install(monkeypatch, untyped="tests.unit.app.runs.plugin:Untyped")
    with pytest.raises(ConfigError, match=r"policy 'untyped' cannot be loaded from .*Untyped"):
        find_policy("untyped")


def test_each_policy_of_ours_is_in_one_family() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [name for family in FAMILIES for name in family.policies]
    assert sorted(named) == sorted(project["entry-points"]["shunter.policies"])


def test_one_broken_plugin_does_not_break_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(
        monkeypatch,
        bare="tests.unit.app.runs.plugin:NoParams",
        gone="no_such_package:Policy",
        las="shunter.policies.las:Las",
        untyped="tests.unit.app.runs.plugin:Untyped",
    )
    done = CliRunner().invoke(app, ["policy", "list"])
    assert done.exit_code == 0
    assert done.stdout.count("cannot be used: ") == 3
    assert "\n  las  " in done.stdout

    told = json.loads(CliRunner().invoke(app, ["policy", "list", "--json"]).stdout)
    assert ["problem" in one for one in told] == [True, True, False, True]
