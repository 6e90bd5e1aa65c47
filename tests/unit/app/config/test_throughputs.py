"""`workload.throughputs`: the table, and what the log records of it."""

import json
from pathlib import Path

import pytest

from shunter.config import record_of, recorded_throughputs
from shunter.core.speeds import JobKind
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import compact_throughputs
from tests.unit.app.config.texts import FILES, RATED, loaded

TABLE = """{
"v100": {"('LM', 1)": {"null": 100.0, "('LM', 1)": [70.1, 70.1]}, "('A3C', 1)": {"null": 7.0}},
"p100": {"('LM', 1)": {"null": 80.5}, "('A3C', 1)": {"null": 6.0}},
"k80": {"('LM', 1)": {"null": 25.0}, "('A3C', 1)": {"null": 0.0}}
}"""
LM, A3C = JobKind("LM", 1), JobKind("A3C", 1)
V100, K80 = GpuType("v100"), GpuType("k80")


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "rates.json", TABLE)


def test_a_file_beside_the_config_is_read_once_and_narrowed_to_the_cluster(tmp_path: Path) -> None:
    config = loaded(tmp_path, RATED)
    table = config.throughputs
    assert table is not None
    assert list(table.alone) == [K80, V100]
    assert (table.base_type, table.speed(K80, LM)) == ("v100", 0.25)
    (tmp_path / "rates.json").unlink()
    assert config.replaced({"seed": 5}, "test").throughputs == table
    other = config.replaced({"cluster.nodes.1.type": "p100"}, "test").throughputs
    assert other is not None
    assert list(other.alone) == ["p100", "v100"]


def test_base_type_stays_though_no_server_has_it(tmp_path: Path) -> None:
    table = loaded(tmp_path, RATED, "workload.base_type=p100").throughputs
    assert table is not None
    assert list(table.alone) == ["k80", "p100", "v100"]
    assert table.speed(V100, LM) == 100.0 / 80.5


def test_no_table_is_the_default_and_servers_without_gpus_need_none(tmp_path: Path) -> None:
    plain = loaded(tmp_path, RATED, "workload={trace='jobs.csv'}")
    assert plain.throughputs is None
    assert recorded_throughputs(record_of(plain, instant=True, workload={})) is None
    cpus = "cluster.nodes.2={name='c', gpus=0, cpus=8}"
    assert loaded(tmp_path, RATED, cpus).throughputs is not None


def test_faults_of_the_file_name_it_and_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILES, "rates.json", TABLE.replace("[70.1, 70.1]", "[70.1, 70]"))
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, RATED)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/run.toml:11: workload.throughputs: {tmp_path}/rates.json: ")
    assert "v100, 'LM' on" in said
    assert "not symmetric" in said


def test_the_record_gives_the_same_table_in_the_same_order(tmp_path: Path) -> None:
    table = loaded(tmp_path, RATED).throughputs
    assert table is not None
    workload = {"throughputs": compact_throughputs(table)}
    again = recorded_throughputs(json.dumps({"workload": workload}, sort_keys=True))
    assert again == table
    assert [list(again.alone), list(again.alone[V100])] == [[K80, V100], [A3C, LM]]
    assert again.pair_rates(V100, LM, LM) == (70.1, 70.1)
    with pytest.raises(ConfigError, match="recorded in the log cannot be read"):
        recorded_throughputs("[]")
