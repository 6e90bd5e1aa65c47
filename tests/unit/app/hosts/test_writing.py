"""`shunter init --ssh`: what is written of hosts that answered."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.app.cli.application import app
from shunter.app.hosts import writing
from shunter.app.hosts.checks import findings_of
from shunter.backends.ssh.host_inventory import HostInventory
from shunter.backends.ssh.settings import SshAccess, SshHost
from shunter.events.values.ids import NodeName
from tests.factories import configuration

SEEN: dict[str, Any] = {
    "python": [3, 11, 0],
    "user": "ana",
    "uid": 1000,
    "gpus": [],
    "gpus_lost": [],
    "gpu_fault": "NVML sees none",
    "links": [],
    "cpus": [0, 1],
    "memory_mb": 64_000,
    "free_mb": 900_000,
    "is_networked": False,
    "is_open": False,
    "shared": [],
    "ends_sessions": False,
}
GPU = {"name": "NVIDIA A100", "uuid": "GPU-1", "index": 0, "socket": None}


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
    config, notes = written(monkeypatch, gpus, gpus=seen, links=[["X"]] * len(seen))
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
