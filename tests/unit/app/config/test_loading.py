"""Where the values of a config come from: options, variables, the file, and defaults."""

import os
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig, load_config, parse_value
from shunter.errors import ConfigError, NotFoundError
from tests.unit.app.config.texts import GENERATED, written
from tests.unit.app.conftest import CONFIG as PLAIN, WriteConfig

LOG = f'{GENERATED}[log]\nurl = "{{}}"\n'
QUEUE = f"{GENERATED}[queues.Prod]\nweight = 1.0\n"
VALUES = """
seed = 3
SHUNTER_SEED=4 : seed = 4
SHUNTER_SEED=4; --set seed=5 : seed = 5
--set seed=5; --set seed=6 : seed = 6
SHUNTER_POLICY__NAME=sjf; --set policy.name=las : policy.name = las
SHUNTER_POLICY__NAME=sjf : policy.trigger = event
SHUNTER_POLICY__NAME=sjf : policy.placement = consolidated
SHUNTER_ATTEMPT=2; SHUNTER_RESUME=1; PATH=/bin : seed = 3
SHUNTER_CLUSTER__NODES__0__CPUS=2; --set cluster.nodes.0.gpus=6 : cluster.nodes.0.gpus = 6
SHUNTER_CLUSTER__NODES__0__CPUS=2; --set cluster.nodes.0.gpus=6 : cluster.nodes.0.cpus = 2
--set cluster.nodes.1.name=x; --set cluster.nodes.1.gpus=1 : cluster.gpus = 9
workload.trace = FOLDER/jobs.csv
--set workload.trace=x.csv : workload.trace = x.csv
SHUNTER_WORKLOAD__TRACE=y.csv : workload.trace = y.csv
--set workload.generate.jobs=5 : workload.trace = None
--set workload.generate.jobs=5 : workload.generate.jobs = 5
"""
REFUSED = """
--set cluster.nodes.5.gpus=1 : --set cluster.nodes.5.gpus: | from 0 to 1, not '5'
--set policy.name.x=1 : policy.name is 'fifo', so it has no key 'x'
--set seed : --set seed: expected KEY=VALUE
--set a b=1 : is no key
SHUNTER_POLICY__NAEM=las : SHUNTER_POLICY__NAEM: policy.naem: unknown key
SHUNTER_POLIZY__NAME=las : SHUNTER_POLIZY__NAME: polizy: unknown key
SHUNTER_SERVER__TLS__KEY=a : SHUNTER_SERVER__TLS__KEY: server.tls.certificate: miss
SHUNTER_SERVER__LISTEN=x : ; SHUNTER_SERVER__LISTEN sets values there
"""


def rows(table: str) -> list[list[str]]:
    """Return what is set, and what comes of it, of each row."""
    return [["", *row.split(" : ")][-2:] for row in table.strip().split("\n")]


def loaded(path: Path, settings: str = "") -> LoadedConfig:
    """Return a config with options and variables, parted by semicolons."""
    each = [setting for setting in settings.split("; ") if setting]
    options = [("--set", one.removeprefix("--set ")) for one in each if one.startswith("--set")]
    environ = dict(one.split("=", 1) for one in each if not one.startswith("--set"))
    return load_config(path, options, environ)


def value_of(config: LoadedConfig, key: str) -> Any:
    def part(of: Any, name: str) -> Any:
        return of[int(name)] if name.isdigit() else getattr(of, name)

    return reduce(part, key.split("."), config.config)


@pytest.mark.parametrize(("settings", "result"), rows(VALUES))
def test_command_line_beats_environment_beats_file_beats_default(
    tmp_path: Path, settings: str, result: str
) -> None:
    """And paths in a file are relative to the file, others to the working directory."""
    key, expected = result.replace("FOLDER", str(tmp_path)).split(" = ")
    assert str(value_of(loaded(written(tmp_path, PLAIN), settings), key)) == expected


@pytest.mark.parametrize(("settings", "words"), rows(REFUSED))
def test_setting_that_sets_no_key_is_refused_by_its_name(
    tmp_path: Path, settings: str, words: str
) -> None:
    path = written(tmp_path, f"{PLAIN}\n[server]\nadmins = []\n")
    with pytest.raises(ConfigError) as refused:
        loaded(path, settings)
    assert [part for part in words.split(" | ") if part not in str(refused.value)] == []


def test_variables_find_keys_that_are_not_lower_case(tmp_path: Path) -> None:
    found = loaded(written(tmp_path, QUEUE), "SHUNTER_QUEUES__PROD__WEIGHT=2.5")
    assert found.config.queues["Prod"].weight == 2.5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ('"3"', "3"),
        ('["1h", 2]', ["1h", 2]),
        *((text, text) for text in ("60s", "las", "", "2024-05-01", "1\nb = 2")),
    ],
)
def test_values_are_toml_else_text(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("url", ["r.db", "sqlite+aiosqlite:///r.db", "memory:", "none:"])
def test_log_of_a_file_lies_beside_it_if_it_is_one(tmp_path: Path, url: str) -> None:
    expected = url.replace("r.db", str(tmp_path / "r.db"))
    assert loaded(written(tmp_path, LOG.format(url))).config.log.url == expected


def test_a_trace_chosen_later_takes_the_place_of_a_generator(tmp_path: Path) -> None:
    found = loaded(written(tmp_path, GENERATED), "--set workload.trace=x.csv")
    assert found.config.workload.generate is None


def test_the_environment_of_the_process_counts(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SHUNTER_SEED", "99")
    assert load_config(config_file).config.seed == 99


def test_file_that_cannot_be_read_says_why(tmp_path: Path, write_config: WriteConfig) -> None:
    with pytest.raises(NotFoundError, match=r"no config file .*nope\.toml"):
        loaded(tmp_path / "nope.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        loaded(tmp_path)
    with pytest.raises(ConfigError, match=r"run\.toml: not TOML: .*line 2"):
        loaded(write_config("seed = 1\nseed = \nx = 1"))
    path = write_config("")
    path.write_bytes(b"seed = \xff")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        loaded(path)


def test_a_config_with_other_values_leaves_the_first_alone(config_file: Path) -> None:
    first = loaded(config_file)

    second = first.replaced({"policy.name": "las", "cluster.nodes.0.gpus": 2}, "test")

    assert (first.config.policy.name, first.config.cluster.gpus) == ("fifo", 8)
    assert (second.config.policy.name, second.config.cluster.gpus) == ("las", 4)
