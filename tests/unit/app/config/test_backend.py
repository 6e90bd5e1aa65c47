"""The sections of a live cluster."""

import json
from typing import Any

from shunter.config import BackendSection, LoadedConfig, make_config, record_of

NODES = [{"name": "n0", "gpus": 4}]
LOCAL = {"kind": "local", "local": {"root": "/srv/shunter"}}


def live(backend: Any = LOCAL, url: str = "log.db", **sections: Any) -> LoadedConfig:
    tree = {"cluster": {"nodes": NODES}, "backend": backend, "log": {"url": url}} | sections
    return make_config(tree)


def test_live_cluster_needs_no_workload() -> None:
    assert live().config.backend.is_live


def test_live_cluster_may_have_a_table_of_throughputs() -> None:
    nodes = [{"name": "n0", "gpus": 4, "type": "v100"}]
    loaded = live(cluster={"nodes": nodes}, workload={"throughputs": "builtin:gavel"})
    assert loaded.throughputs is not None


def test_record_names_the_kind_and_no_folder() -> None:
    record = record_of(live(), instant=False, workload={})
    assert json.loads(record)["backend"] == {
        "kind": "local",
        "checkpoints_stay": False,
        "retries_elsewhere": True,
    }
    assert json.loads(record)["reactor"] == 3
    assert "/srv/shunter" not in record


def test_simulated_is_the_default() -> None:
    assert BackendSection().kind == "simulated"
