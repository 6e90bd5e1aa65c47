"""The sections of a live cluster."""

import json
from typing import Any

import pytest

from shunter.config import BackendSection, LoadedConfig, make_config, record_of
from shunter.errors import ConfigError

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


def test_table_of_throughputs_alone_is_no_workload_of_a_simulation() -> None:
    nodes = [{"name": "n0", "gpus": 4, "type": "v100"}]
    tree = {"cluster": {"nodes": nodes}, "workload": {"throughputs": "builtin:gavel"}}
    with pytest.raises(ConfigError, match="workload: expected either trace"):
        make_config(tree)


def test_simulated_cluster_needs_one() -> None:
    with pytest.raises(ConfigError, match="workload: missing; expected the jobs"):
        live({"kind": "simulated"})


def test_local_backend_needs_a_folder() -> None:
    with pytest.raises(ConfigError, match=r"expected a table \[backend.local\] with root"):
        live({"kind": "local"})


@pytest.mark.parametrize("url", ["none:", "memory:"])
def test_live_cluster_needs_a_log_that_stays(url: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.url: expected a path"):
        live(url=url)


def test_live_cluster_has_no_simulated_world() -> None:
    with pytest.raises(ConfigError, match=r"\[simulation\] is set"):
        live(simulation={"costs": {"start": "5s"}})


def test_unknown_signal_is_refused() -> None:
    with pytest.raises(ConfigError, match="SIGUSR9' is no signal"):
        live({"kind": "local", "local": {"root": "r", "suspend_signal": "SIGUSR9"}})


def test_heartbeat_that_would_kill_jobs_at_once_is_refused() -> None:
    local = {"root": "r", "heartbeat": "10s", "heartbeat_deadline": "15s"}
    with pytest.raises(ConfigError, match="heartbeat_deadline: expected three times"):
        live({"kind": "local", "local": local})


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
