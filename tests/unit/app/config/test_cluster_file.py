"""`[cluster] file`: servers from a file instead of tables."""

import json
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, record_of, settings
from shunter.errors import ConfigError
from tests.unit.app.config.texts import GENERATED
from tests.unit.app.conftest import WriteConfig

CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,2,4,64,256\n"
CONFIG = '[cluster]\nfile = "cluster.csv"\n[workload.generate]\n'
NODES = "".join(
    f'[[cluster.nodes]]\nname = "node[{names}]"\ngpus = 4\ncpus = 64\nmemory_gb = 256.0\n'
    f'rack = "{rack}"\n'
    for names, rack in (("1-2", "switch1"), ("3-4", "switch2"))
)
RACKS_FAIL = '[simulation.failures]\nrack_mtbf = "1d"\n'


@pytest.fixture(autouse=True)
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.csv"
    path.write_text(CLUSTER)
    return path


def loaded(path: Path, *options: str, **environ: str) -> LoadedConfig:
    return load_config(path, [("--set", option) for option in options], environ)


def test_a_file_gives_the_servers_of_every_switch_as_tables_would(
    write_config: WriteConfig,
) -> None:
    by_file, by_tables = (
        loaded(write_config(text)) for text in (CONFIG, f"{NODES}[workload.generate]\n")
    )
    record, same = (record_of(each, instant=True, workload={}) for each in (by_file, by_tables))

    assert record == same
    assert "file" not in json.loads(record)["cluster"]
    servers = by_file.config.cluster.servers()
    assert [(name, where.rack, where.gpus) for name, where in servers] == [
        ("node1", "switch1", 4),
        ("node2", "switch1", 4),
        ("node3", "switch2", 4),
        ("node4", "switch2", 4),
    ]
    assert {(where.cpus_milli, where.memory_mb) for _, where in servers} == {(64_000, 256_000)}
    assert loaded(write_config(CONFIG + RACKS_FAIL)).config.cluster.racks == ("switch1", "switch2")


def test_a_file_is_looked_for_beside_the_config_and_an_override_in_the_working_directory(
    write_config: WriteConfig, cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = cluster_file.parent / "sub"
    below.mkdir()
    cluster_file.rename(below / "mine.csv")
    beside = write_config(CONFIG.replace("cluster.csv", "sub/mine.csv"))
    assert loaded(beside).config.cluster.gpus == 16

    monkeypatch.chdir(below)
    path = write_config(CONFIG)
    assert loaded(path, "cluster.file=mine.csv").config.cluster.gpus == 16
    assert loaded(path, SHUNTER_CLUSTER__FILE="mine.csv").config.cluster.gpus == 16


def test_of_a_file_and_tables_the_one_named_later_counts(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    by_file = loaded(write_config(GENERATED), f"cluster.file={cluster_file}")
    assert by_file.config.cluster.servers()[0][0] == "node1"
    assert by_file.config.cluster.gpus == 16
    by_tables = loaded(write_config(CONFIG), 'cluster.nodes=[{name = "a", gpus = 2}]')
    assert by_tables.config.cluster.gpus == 2
    with pytest.raises(ConfigError, match="cluster: file and nodes are both given: expected one"):
        loaded(write_config(f'[cluster]\nfile = "cluster.csv"\n{GENERATED}'))


def test_faults_name_both_files_and_stand_beside_those_of_other_keys(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    cluster_file.write_text(CLUSTER.replace("2,2,4,64,256", "2,x,4,64,much"))
    path = write_config(f'{CONFIG}{RACKS_FAIL}[policy]\nname = "fido"\n')

    with pytest.raises(ConfigError) as caught:
        loaded(path)

    key = f"{path}:2: cluster.file: {cluster_file}, line 2, column"
    first, second, third = str(caught.value).splitlines()
    assert first.startswith(f"{key} num_node_p_switch: expected a whole number from 1 to 100000")
    assert second.startswith(f"{key} mem_p_node: expected a number of GB")
    assert "no policy 'fido'" in third


def test_a_missing_file_names_the_key_that_asked_for_it(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    cluster_file.unlink()
    with pytest.raises(ConfigError, match=r"run\.toml:2: cluster\.file: there is no file .*csv"):
        loaded(write_config(CONFIG))


def test_a_file_is_read_once(write_config: WriteConfig, cluster_file: Path) -> None:
    first = loaded(write_config(CONFIG))
    cluster_file.unlink()

    again = first.replaced({"policy.name": "las"}, "test")

    assert again.config.cluster == first.config.cluster


def test_the_servers_in_effect_come_from_a_line_of_the_file(
    write_config: WriteConfig, cluster_file: Path
) -> None:
    origins = {each.key: each.origin for each in settings(loaded(write_config(CONFIG)))}
    assert origins["cluster.nodes.0.rack"] == f"{cluster_file}:2"
    assert "cluster.file" not in origins
