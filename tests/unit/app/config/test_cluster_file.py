"""`[cluster] file`: servers from a file instead of tables."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, record_of, settings
from shunter.errors import ConfigError

CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,2,4,64,256\n"
CONFIG = '[cluster]\nfile = "cluster.csv"\n[workload.generate]\n'
NODES = """\
[[cluster.nodes]]
name = "node[1-2]"
gpus = 4
cpus = 64
memory_gb = 256.0
rack = "switch1"
[[cluster.nodes]]
name = "node[3-4]"
gpus = 4
cpus = 64
memory_gb = 256.0
rack = "switch2"
[workload.generate]
"""

WriteConfig = Callable[[str], Path]


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.csv"
    path.write_text(CLUSTER)
    return path


def _record(loaded: LoadedConfig) -> str:
    return record_of(loaded, instant=True, workload={})


@pytest.mark.usefixtures("cluster_file")
def test_a_file_gives_the_servers_of_every_switch(write_config: WriteConfig) -> None:
    cluster = load_config(write_config(CONFIG), [], {}).config.cluster

    servers = [(name, where.rack, where.gpus) for name, where in cluster.servers()]
    assert servers == [
        ("node1", "switch1", 4),
        ("node2", "switch1", 4),
        ("node3", "switch2", 4),
        ("node4", "switch2", 4),
    ]
    assert {where.cpus_milli for _, where in cluster.servers()} == {64_000}
    assert {where.memory_mb for _, where in cluster.servers()} == {256_000}


@pytest.mark.usefixtures("cluster_file")
def test_a_file_and_the_tables_it_stands_for_record_the_same_bytes(
    write_config: WriteConfig,
) -> None:
    by_file = _record(load_config(write_config(CONFIG), [], {}))
    by_tables = _record(load_config(write_config(NODES), [], {}))

    assert by_file == by_tables
    assert "file" not in json.loads(by_file)["cluster"]


def test_a_file_is_looked_for_beside_the_config(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    path = write_config(CONFIG.replace("cluster.csv", "sub/cluster.csv"))
    (path.parent / "sub").mkdir()
    cluster_file.rename(path.parent / "sub" / "cluster.csv")

    assert load_config(path, [], {}).config.cluster.gpus == 16


def test_an_override_is_relative_to_the_working_directory(
    write_config: WriteConfig, cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cluster_file.parent / "here"
    here.mkdir()
    cluster_file.rename(here / "mine.csv")
    monkeypatch.chdir(here)
    path = write_config(CONFIG)

    by_option = load_config(path, [("--set", "cluster.file=mine.csv")], {})
    by_variable = load_config(path, [], {"SHUNTER_CLUSTER__FILE": "mine.csv"})

    assert by_option.config.cluster.gpus == by_variable.config.cluster.gpus == 16


def test_a_file_named_later_takes_the_place_of_tables(
    config_file: Path, cluster_file: Path
) -> None:
    loaded = load_config(config_file, [("--set", f"cluster.file={cluster_file}")], {})

    assert loaded.config.cluster.servers()[0][0] == "node1"
    assert loaded.config.cluster.gpus == 16


@pytest.mark.usefixtures("cluster_file")
def test_tables_named_later_take_the_place_of_a_file(write_config: WriteConfig) -> None:
    nodes = 'cluster.nodes=[{name = "a", gpus = 2}]'

    loaded = load_config(write_config(CONFIG), [("--set", nodes)], {})

    assert loaded.config.cluster.gpus == 2


@pytest.mark.usefixtures("cluster_file")
def test_a_file_and_tables_in_one_config_are_refused(write_config: WriteConfig) -> None:
    path = write_config('[cluster]\nfile = "cluster.csv"\n' + NODES)

    with pytest.raises(ConfigError, match="cluster: file and nodes are both given: expected one"):
        load_config(path, [], {})


def test_faults_name_both_files_and_stand_beside_those_of_other_keys(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    cluster_file.write_text(CLUSTER.replace("2,2,4,64,256", "2,x,4,64,much"))
    failing = '[simulation.failures]\nrack_mtbf = "1d"\n[policy]\nname = "fido"\n'
    path = write_config(CONFIG + failing)

    with pytest.raises(ConfigError) as caught:
        load_config(path, [], {})

    key = f"{path}:2: cluster.file: {cluster_file}, line 2, column"
    first, second, third = str(caught.value).splitlines()
    assert first.startswith(f"{key} num_node_p_switch: expected a whole number from 1 to 100000")
    assert second.startswith(f"{key} mem_p_node: expected a number of GB")
    assert "no policy 'fido'" in third


def test_a_missing_file_names_the_key_that_asked_for_it(write_config: WriteConfig) -> None:
    path = write_config(CONFIG)

    with pytest.raises(ConfigError, match=r"run\.toml:2: cluster\.file: there is no file .*csv"):
        load_config(path, [], {})


@pytest.mark.usefixtures("cluster_file")
def test_racks_of_a_file_can_fail(write_config: WriteConfig) -> None:
    path = write_config(CONFIG + '[simulation.failures]\nrack_mtbf = "1d"\n')

    assert load_config(path, [], {}).config.cluster.racks == ("switch1", "switch2")


def test_a_file_is_read_once(write_config: WriteConfig, cluster_file: Path) -> None:
    loaded = load_config(write_config(CONFIG), [], {})
    cluster_file.unlink()

    again = loaded.replaced({"policy.name": "las"}, "test")

    assert again.config.cluster == loaded.config.cluster


def test_the_servers_in_effect_come_from_a_line_of_the_file(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    shown = settings(load_config(write_config(CONFIG), [], {}))

    origins = {setting.key: setting.origin for setting in shown}
    assert origins["cluster.nodes.0.rack"] == f"{cluster_file}:2"
    assert "cluster.file" not in origins
