import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import load_config, parse_value
from shunter.errors import ConfigError, NotFoundError

WriteConfig = Callable[[str], Path]


def test_command_line_beats_environment_beats_file_beats_default(config_file: Path) -> None:
    environ = {"SHUNTER_SEED": "4", "SHUNTER_POLICY__NAME": "sjf"}

    loaded = load_config(config_file, [("--set", "policy.name=las")], environ)

    assert loaded.config.policy.name == "las"
    assert loaded.config.seed == 4
    assert loaded.config.policy.trigger == "event"
    assert loaded.config.policy.placement == "consolidated"


def test_the_last_of_equal_overrides_wins(config_file: Path) -> None:
    loaded = load_config(config_file, [("--set", "seed=5"), ("--set", "seed=6")], {})

    assert loaded.config.seed == 6


def test_list_items_are_set_by_their_place(config_file: Path) -> None:
    environ = {"SHUNTER_CLUSTER__NODES__0__CPUS": "2"}

    loaded = load_config(config_file, [("--set", "cluster.nodes.0.gpus=6")], environ)

    assert loaded.config.cluster.nodes[0].gpus == 6
    assert loaded.config.cluster.nodes[0].cpus == 2


def test_an_item_can_be_added_to_a_list(config_file: Path) -> None:
    settings = [("--set", "cluster.nodes.1.name=x"), ("--set", "cluster.nodes.1.gpus=1")]

    assert load_config(config_file, settings, {}).config.cluster.gpus == 9


def test_a_place_past_the_end_of_a_list_is_refused(config_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set cluster.nodes.5.gpus: .* from 0 to 1, not '5'"):
        load_config(config_file, [("--set", "cluster.nodes.5.gpus=1")], {})


def test_a_key_below_a_value_is_refused(config_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.name is .fifo., so it has no key .x."):
        load_config(config_file, [("--set", "policy.name.x=1")], {})


def test_a_setting_without_a_value_is_refused(config_file: Path) -> None:
    with pytest.raises(ConfigError, match="--set seed: expected KEY=VALUE"):
        load_config(config_file, [("--set", "seed")], {})


def test_a_key_that_is_none_is_refused(config_file: Path) -> None:
    with pytest.raises(ConfigError, match="is no key"):
        load_config(config_file, [("--set", "a b=1")], {})


def test_variables_that_set_no_key_are_left_alone(config_file: Path) -> None:
    environ = {"SHUNTER_ATTEMPT": "2", "SHUNTER_RESUME": "1", "PATH": "/bin"}

    assert load_config(config_file, [], environ).config.seed == 3


def test_a_variable_with_an_unknown_key_is_refused(config_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"SHUNTER_POLICY__NAEM: policy\.naem: unknown key"):
        load_config(config_file, [], {"SHUNTER_POLICY__NAEM": "las"})


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("SHUNTER_POLIZY__NAME", "las", "SHUNTER_POLIZY__NAME: polizy: unknown key"),
        ("SHUNTER_SERVER__TLS__KEY", "a", "SHUNTER_SERVER__TLS__KEY: server.tls.certificate: miss"),
        ("SHUNTER_SERVER__LISTEN", "x", "; SHUNTER_SERVER__LISTEN sets values there"),
    ],
)
def test_fault_of_a_table_names_the_variable_that_set_what_is_in_it(
    name: str, value: str, line: str, config_file: Path
) -> None:
    with config_file.open("a") as file:
        file.write("\n[server]\nadmins = []\n")
    with pytest.raises(ConfigError) as refused:
        load_config(config_file, [], {name: value})
    assert line in str(refused.value)


def test_variables_find_keys_that_are_not_lower_case(write_config: WriteConfig) -> None:
    text = Path(write_config("")).parent / "base.toml"
    text.write_text(
        '[[cluster.nodes]]\nname = "a"\ngpus = 1\n'
        "[workload.generate]\n[queues.Prod]\nweight = 1.0\n"
    )

    loaded = load_config(text, [], {"SHUNTER_QUEUES__PROD__WEIGHT": "2.5"})

    assert loaded.config.queues["Prod"].weight == 2.5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ('"3"', "3"),
        ('["1h", 2]', ["1h", 2]),
        ("60s", "60s"),
        ("las", "las"),
        ("", ""),
        ("2024-05-01", "2024-05-01"),
        ("1\nb = 2", "1\nb = 2"),
    ],
)
def test_values_are_toml_else_text(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_paths_in_a_file_are_relative_to_the_file(config_file: Path) -> None:
    loaded = load_config(config_file, [], {})

    assert loaded.config.workload.trace == str(config_file.parent / "jobs.csv")


def test_log_addresses_in_a_file_are_relative_to_the_file(write_config: WriteConfig) -> None:
    base = write_config(
        '[[cluster.nodes]]\nname="a"\ngpus=1\n[workload.generate]\n[log]\nurl="r.db"'
    )
    url = base.read_text().replace("r.db", "sqlite+aiosqlite:///r.db")

    assert load_config(base, [], {}).config.log.url == str(base.parent / "r.db")
    base.write_text(url)
    expected = f"sqlite+aiosqlite:///{base.parent / 'r.db'}"
    assert load_config(base, [], {}).config.log.url == expected


@pytest.mark.parametrize("url", ["memory:", "none:"])
def test_logs_without_a_file_have_no_folder(write_config: WriteConfig, url: str) -> None:
    path = write_config(
        f'[[cluster.nodes]]\nname="a"\ngpus=1\n[workload.generate]\n[log]\nurl="{url}"'
    )

    assert load_config(path, [], {}).config.log.url == url


def test_other_paths_are_relative_to_the_working_directory(config_file: Path) -> None:
    by_option = load_config(config_file, [("--set", "workload.trace=x.csv")], {})
    by_variable = load_config(config_file, [], {"SHUNTER_WORKLOAD__TRACE": "y.csv"})

    assert by_option.config.workload.trace == "x.csv"
    assert by_variable.config.workload.trace == "y.csv"


def test_a_generator_chosen_later_takes_the_place_of_a_trace(config_file: Path) -> None:
    loaded = load_config(config_file, [("--set", "workload.generate.jobs=5")], {})

    assert loaded.config.workload.trace is None
    assert loaded.config.workload.generate is not None


def test_a_trace_chosen_later_takes_the_place_of_a_generator(write_config: WriteConfig) -> None:
    path = write_config('[[cluster.nodes]]\nname="a"\ngpus=1\n[workload.generate]\n')

    loaded = load_config(path, [("--set", "workload.trace=x.csv")], {})

    assert loaded.config.workload.generate is None


def test_the_environment_of_the_process_counts(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SHUNTER_SEED", "99")

    assert load_config(config_file).config.seed == 99


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no config file .*nope\.toml"):
        load_config(tmp_path / "nope.toml", [], {})


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, [], {})


def test_broken_toml_names_the_line(write_config: WriteConfig) -> None:
    with pytest.raises(ConfigError, match=r"run\.toml: not TOML: .*line 2"):
        load_config(write_config("seed = 1\nseed = \nx = 1"), [], {})


def test_a_file_that_is_no_text_is_refused(write_config: WriteConfig) -> None:
    path = write_config("")
    path.write_bytes(b"seed = \xff")

    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_config(path, [], {})


def test_a_config_with_other_values_leaves_the_first_alone(config_file: Path) -> None:
    first = load_config(config_file, [], {})

    second = first.replaced({"policy.name": "las", "cluster.nodes.0.gpus": 2}, "test")

    assert (first.config.policy.name, first.config.cluster.gpus) == ("fifo", 8)
    assert (second.config.policy.name, second.config.cluster.gpus) == ("las", 4)
