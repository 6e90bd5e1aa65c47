from importlib.metadata import EntryPoint

import pytest

from shunter.app.config import find_policy, make_config, policies, policy_names
from shunter.app.config.resolved import decider_of
from shunter.errors import ConfigError, NotFoundError


def _install(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    found = [EntryPoint(name, value, policies.GROUP) for name, value in points.items()]
    monkeypatch.setattr(policies, "entry_points", lambda group: found)


def test_every_policy_can_be_loaded_and_bears_its_name() -> None:
    assert [find_policy(name).name for name in policy_names()] == list(policy_names())


def test_an_unknown_policy_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="there is no policy 'fifi'; did you mean 'fifo'"):
        find_policy("fifi")


def test_a_package_adds_a_policy_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, mine="shunter.policies.las:Las")

    assert policy_names() == ("mine",)
    assert find_policy("mine").name == "las"


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, mine="no_such_package:Policy")

    with pytest.raises(ConfigError, match="'mine' cannot be loaded from no_such_package:Policy"):
        find_policy("mine")


def test_gpu_type_without_a_price_is_an_error_of_the_config() -> None:
    nodes = [{"name": name, "gpus": 1, "type": name} for name in ("v100", "k80")]
    loaded = make_config(
        {
            "policy": {"name": "min_cost", "params": {"min_cost": {"prices": {"v100": 2.5}}}},
            "cluster": {"nodes": nodes},
            "backend": {"kind": "local", "local": {"root": "/srv/shunter"}},
            "log": {"url": "log.db"},
        }
    )

    with pytest.raises(ConfigError, match=r"policy\.params\.min_cost\.prices: no price of k80"):
        decider_of(loaded, instant=True)
