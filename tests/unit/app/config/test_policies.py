"""Policies by name: ours, those of other packages, and plugins that are none."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import POLICIES, built, find_policy
from shunter.core.planning import PLACEMENTS
from shunter.errors import ConfigError, NotFoundError
from shunter.policies import FAMILIES
from tests.unit.app.conftest import Install

ROOT = Path(__file__).parents[4]
PLUGIN = "tests.unit.app.runs.plugin"


def test_every_policy_can_be_loaded_and_bears_its_name_in_one_family() -> None:
    assert [find_policy(name).name for name in POLICIES.names()] == list(POLICIES.names())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [name for family in FAMILIES for name in family.policies]
    assert sorted(named) == sorted(project["entry-points"]["shunter.policies"])
    with pytest.raises(NotFoundError, match="there is no policy 'fifi'; did you mean 'fifo'"):
        find_policy("fifi")


def test_a_package_adds_a_policy_by_its_entry_point(install: Install) -> None:
    install(POLICIES, mine="shunter.policies.las:Las")

    assert POLICIES.names() == ("mine",)
    assert find_policy("mine").name == "las"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (f"{PLUGIN}:NoParams", r"is no policy: it lacks Params \(a class below"),
        (f"{PLUGIN}:Untyped", "policy 'mine' cannot be loaded from .*Untyped"),
        ("tests.unit.app.config.exits:Policy", "cannot be loaded from .*: SystemExit: 3"),
        ("no_such_package:Policy", "'mine' cannot be loaded from no_such_package:Policy"),
    ],
)
def test_plugin_that_is_no_policy_says_what_it_lacks(
    install: Install, value: str, words: str
) -> None:
    install(POLICIES, mine=value)
    with pytest.raises(ConfigError, match=words):
        find_policy("mine")


def test_policy_that_is_built_without_hooks_is_an_error_of_the_config(install: Install) -> None:
    install(POLICIES, mine=f"{PLUGIN}:Unversioned")
    plugin = find_policy("mine")
    with pytest.raises(ConfigError, match=r"lacks name \(str\), version \(str\), .* plan\(\)"):
        built(plugin, plugin.Params(), PLACEMENTS["spread"]())


def test_one_broken_plugin_does_not_break_the_list(install: Install) -> None:
    install(
        POLICIES,
        bare=f"{PLUGIN}:NoParams",
        gone="no_such_package:Policy",
        las="shunter.policies.las:Las",
        untyped=f"{PLUGIN}:Untyped",
    )
    done = CliRunner().invoke(app, ["policy", "list"])
    assert done.exit_code == 0
    assert done.stdout.count("cannot be used: ") == 3
    assert "\n  las  " in done.stdout

    told = json.loads(CliRunner().invoke(app, ["policy", "list", "--json"]).stdout)
    assert ["problem" in one for one in told] == [True, True, False, True]
