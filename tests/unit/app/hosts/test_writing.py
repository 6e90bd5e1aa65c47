"""`shunter init --ssh`: what is written of hosts that answered."""

import tomllib
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from shunter.backends.live import HostInventory, SshAccess, SshHost
from shunter.cli import app
from shunter.config import NodeGroup, make_config
from shunter.events import NodeName
from shunter.ops import findings_of, map_findings, ssh_hosts as writing
from tests.factories import configuration
from tests.unit.app.gpu_maps.test_found_map import wired

SEEN: dict[str, Any] = {
    "python": [3, 11, 0],
    "user": "ana",
    "uid": 1000,
    "gpus": [],
    "gpus_lost": [],
    "gpu_fault": "NVML sees none",
    "wiring": {},
    "cpus": [0, 1],
    "memory_mb": 64_000,
    "free_mb": 900_000,
    "is_networked": False,
    "is_open": False,
    "shared": [],
    "ends_sessions": False,
}
GPU = {"name": "NVIDIA A100", "uuid": "GPU-1", "index": 0}


def written(
    monkeypatch: pytest.MonkeyPatch, given: int | None, **found: object
) -> tuple[dict[str, Any], list[str]]:
    """Return the config of a host that answers so, and what is said of it."""

    def answer(hosts: tuple[SshHost, ...], *_: object) -> list[HostInventory]:
        return [HostInventory(host, {**SEEN, **found}) for host in hosts]

    monkeypatch.setattr(writing, "host_inventories", answer)
    hosts = [writing.parsed_host("root@gpu1", "python3")]
    text, notes = writing.ssh_config(hosts, SshAccess("known_hosts", ("key",)), given)
    return tomllib.loads(text), notes


@pytest.mark.parametrize(
    ("gpus", "seen", "count", "told"),
    [
        (None, [], 0, "no GPU is seen (NVML sees none); --gpus says how many there are"),
        (2, [], 2, "no GPU is seen (NVML sees none); 2 as --gpus says"),
        (2, [GPU], 1, "1 GPU is seen, and written, not the 2 of --gpus"),
    ],
)
def test_gpus_that_are_not_seen_are_those_of_the_command_line(
    gpus: int | None, seen: list[Any], count: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, notes = written(monkeypatch, gpus, gpus=seen)
    assert config["cluster"]["nodes"][0]["gpus"] == count
    assert notes == [f"gpu1: {told}"]


def test_base_is_open_where_root_logs_in_and_its_home_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def base(**found: object) -> str | None:
        config, _ = written(monkeypatch, 1, **found)
        host: dict[str, str] = config["backend"]["ssh"]["hosts"]["gpu1"]
        return host.get("base")

    assert base(uid=0) == "/var/lib/shunter"
    assert base(uid=0, is_open=True) is None
    assert base(uid=1000) is None


def test_doctor_names_the_section_of_base() -> None:
    host = replace(writing.parsed_host("root@gpu1", "python3"), name=NodeName("gpu1"))
    found = {**SEEN, "uid": 0}
    mends = [each.mend for each in findings_of(HostInventory(host, found), configuration(0))]
    assert any(
        'set base = "/var/lib/shunter" in [backend.ssh.hosts.gpu1]' in mend for mend in mends
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--local", "--ssh", "gpu1"], "--local and --ssh are both given"),
        ([], "expected --local, a cluster of this machine, or --ssh HOSTS"),
    ],
)
def test_init_wants_one_kind_of_cluster(words: list[str], told: str) -> None:
    refused = CliRunner().invoke(app, ["init", *words])
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_map_of_the_gpus_is_written_as_numbers_or_as_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = ([0, 0, 1, 1], [0, 1, 0, 1])
    seen = [{**GPU, "index": at, "uuid": f"GPU-{at}"} for at in range(4)]
    nodes = []
    for switches in pairs:
        told = wired(switches, switches, cpus=[(at, at + 2) for at in switches], joined=[[0, 1]])
        wiring = msgspec.to_builtins(told)
        config, _ = written(monkeypatch, None, gpus=seen, wiring=wiring, cpus=[0, 1, 2, 3])
        nodes += config["cluster"]["nodes"]
    even, mixed = nodes
    assert (even["sockets"], even["switches"], even["nvlink"]) == (2, 2, [[0, 1]])
    assert mixed["socket_gpus"] == mixed["switch_gpus"] == [[0, 2], [1, 3]]
    assert even["socket_cpus"] == mixed["socket_cpus"] == [[0, 2], [1, 3]]
    make_config({"cluster": {"nodes": nodes[:1]}, "workload": {"trace": "jobs.csv"}})


def test_doctor_says_where_the_config_has_another_map_than_the_host() -> None:
    told = msgspec.to_builtins(wired([0, 0, 1, 1], joined=[[0, 1]]))
    seen = [{**GPU, "index": at, "uuid": f"GPU-{at}"} for at in range(4)]
    host = replace(writing.parsed_host("gpu1", "python3"), gpus=("0", "1", "2", "3"))
    one = HostInventory(host, {**SEEN, "gpus": seen, "wiring": told})
    group = NodeGroup(name="gpu1", gpus=4, switch_gpus=((0, 3), (1, 2)))
    (finding,) = map_findings(one, group, group.configuration("x"))
    assert finding.state == "poor"
    assert finding.what.startswith(
        "switches are [[0, 3], [1, 2]] by the config, and [[0, 1], [2, 3]]"
    )
    assert finding.mend.startswith("the config counts")
    assert list(map_findings(one, NodeGroup(name="gpu1", gpus=4), group.configuration("x"))) == []
