"""`workload.throughputs`: the table, its errors, and what the log records of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, record_of, recorded_throughputs
from shunter.core.speeds import JobKind
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import compact_throughputs

TABLE = """{
"v100": {"('LM', 1)": {"null": 100.0, "('LM', 1)": [70.1, 70.1]}, "('A3C', 1)": {"null": 7.0}},
"p100": {"('LM', 1)": {"null": 80.5}, "('A3C', 1)": {"null": 6.0}},
"k80": {"('LM', 1)": {"null": 25.0}, "('A3C', 1)": {"null": 0.0}}
}"""
CONFIG = """\
[[cluster.nodes]]
name = "n"
gpus = 4
type = "k80"
[[cluster.nodes]]
name = "m"
gpus = 4
type = "v100"
[workload]
trace = "jobs.csv"
throughputs = "rates.json"
"""
LM, A3C = JobKind("LM", 1), JobKind("A3C", 1)
V100, K80 = GpuType("v100"), GpuType("k80")

WriteConfig = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _table(tmp_path: Path) -> None:
    (tmp_path / "rates.json").write_text(TABLE)


def loaded_from(path: Path, *settings: str) -> LoadedConfig:
    return load_config(path, [("--set", setting) for setting in settings], {})


def fault_of(path: Path, *settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded_from(path, *settings)
    return str(caught.value)


def test_a_file_beside_the_config_is_narrowed_to_the_cluster(write_config: WriteConfig) -> None:
    table = loaded_from(write_config(CONFIG)).throughputs
    assert table is not None
    assert list(table.alone) == [K80, V100]
    assert (table.base_type, table.speed(K80, LM)) == ("v100", 0.25)


def test_base_type_stays_though_no_server_has_it(write_config: WriteConfig) -> None:
    table = loaded_from(write_config(CONFIG), "workload.base_type=p100").throughputs
    assert table is not None
    assert list(table.alone) == ["k80", "p100", "v100"]
    assert table.speed(V100, LM) == 100.0 / 80.5


def test_no_table_is_the_default(write_config: WriteConfig) -> None:
    loaded = loaded_from(write_config(CONFIG.replace('throughputs = "rates.json"\n', "")))
    assert loaded.throughputs is None
    assert recorded_throughputs(record_of(loaded, instant=True, workload={})) is None


def test_a_table_is_read_once(write_config: WriteConfig, tmp_path: Path) -> None:
    loaded = loaded_from(write_config(CONFIG))
    (tmp_path / "rates.json").unlink()
    assert loaded.replaced({"seed": 5}, "test").throughputs == loaded.throughputs


def test_another_cluster_gets_its_types_from_the_same_table(write_config: WriteConfig) -> None:
    loaded = loaded_from(write_config(CONFIG)).replaced({"cluster.nodes.0.type": "p100"}, "test")
    assert loaded.throughputs is not None
    assert list(loaded.throughputs.alone) == ["p100", "v100"]


def test_faults_of_the_file_name_it_and_the_key(write_config: WriteConfig, tmp_path: Path) -> None:
    path = write_config(CONFIG)
    (tmp_path / "rates.json").write_text(TABLE.replace("[70.1, 70.1]", "[70.1, 70]"))
    said = fault_of(path)
    assert said.startswith(f"{path}:11: workload.throughputs: {tmp_path}/rates.json: v100, 'LM' on")
    assert "not symmetric" in said


def test_servers_without_gpus_need_no_type_of_the_table(write_config: WriteConfig) -> None:
    config = f'{CONFIG}[[cluster.nodes]]\nname = "c"\ngpus = 0\ncpus = 8\n'
    assert loaded_from(write_config(config)).throughputs is not None


def test_the_record_gives_the_same_table_in_the_same_order(write_config: WriteConfig) -> None:
    table = loaded_from(write_config(CONFIG)).throughputs
    assert table is not None
    workload = {"throughputs": compact_throughputs(table)}
    again = recorded_throughputs(json.dumps({"workload": workload}, sort_keys=True))
    assert again == table
    assert [list(again.alone), list(again.alone[V100])] == [[K80, V100], [A3C, LM]]
    assert again.pair_rates(V100, LM, LM) == (70.1, 70.1)


def test_a_record_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="recorded in the log cannot be read"):
        recorded_throughputs("[]")
