"""`[backend.ssh]` and what the backend is told of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shunter.backends.live import NO_DEVICE, SshSettings
from shunter.config import make_config
from shunter.daemon import ssh_settings
from shunter.errors import ConfigError, UsageError
from shunter.ops import parsed_host


def settings(
    *, gpus: int = 2, cpus: int = 0, nodes: Sequence[Mapping[str, object]] = (), **ssh: Any
) -> SshSettings:
    """Return the settings of a cluster of two servers, or of these."""
    nodes = nodes or [{"name": "gpu[1-2]", "gpus": gpus, "cpus": cpus}]
    table = {"root": "daemon", "keys": ["key"], **ssh}
    tree = {
        "cluster": {"nodes": nodes},
        "backend": {"kind": "ssh", "ssh": table},
        "log": {"url": "log.db"},
    }
    loaded = make_config(tree)
    section = loaded.config.backend.ssh
    assert section is not None
    return ssh_settings(section, loaded.config.cluster, "lab", 3)


def test_server_is_reached_under_its_own_name_as_is_usual() -> None:
    found = settings(user="ana", port=2222, base="/var/lib/shunter", cpus=4)
    one, other = found.hosts
    assert [host.address for host in found.hosts] == ["gpu1", "gpu2"]
    assert (one.user, one.port, one.base, one.python) == (
        "ana",
        2222,
        "/var/lib/shunter",
        "python3",
    )
    assert (one.gpus, one.cpus) == (("0", "1"), (0, 1, 2, 3))
    assert other.gpus == one.gpus


def test_table_of_a_server_says_what_is_different_there() -> None:
    own = {"address": "10.0.0.7", "port": 22, "gpus": ["GPU-a", "GPU-b"], "user": "bo", "cpus": [8]}
    one, other = settings(port=2222, user="ana", hosts={"gpu1": own}).hosts
    assert (one.address, one.port, one.user, one.gpus) == ("10.0.0.7", 22, "bo", ("GPU-a", "GPU-b"))
    assert one.cpus == (8,)
    assert (other.address, other.port, other.user) == ("gpu2", 2222, "ana")


def test_two_starts_of_one_scheduler_are_told_apart() -> None:
    assert settings().holder != settings().holder


def test_ports_of_gangs_end_after_the_last_one() -> None:
    assert settings(ports=[30000, 30009]).gang_ports == (30000, 30010)


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"gpu9": {}}, r"backend\.ssh\.hosts\.gpu9: \[cluster\] has no server of that name"),
        ({"gpu1": {"gpus": ["0"]}}, r"backend\.ssh\.hosts\.gpu1\.gpus names 1 GPU"),
    ],
)
def test_hosts_are_those_of_the_cluster(hosts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(hosts=hosts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu1", ("", "gpu1", 22)),
        ("ana@gpu1.lab:2222", ("ana", "gpu1.lab", 2222)),
        ("10.0.0.7:22", ("", "10.0.0.7", 22)),
    ],
)
def test_host_of_a_command_line_is_read(text: str, parts: tuple[str, str, int]) -> None:
    host = parsed_host(text, "python3")
    assert (host.user, host.address, host.port) == parts


@pytest.mark.parametrize("text", ["", "a b", "ana@", "gpu1:port", "-oProxyCommand=x y"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"\[USER@\]HOST\[:PORT\]"):
        parsed_host(text, "python3")


def test_units_of_cpu_are_no_gpus() -> None:
    nodes = [{"name": "cpu1", "gpus": 0, "units": 2, "type": "cpu", "cpus": 4}]
    (host,) = settings(nodes=nodes).hosts
    assert (host.gpus, host.cpus) == ((NO_DEVICE, NO_DEVICE), (0, 1, 2, 3))

    with pytest.raises(ConfigError, match=r"cpu1\.gpus: \[cluster\] gives it units of CPU"):
        settings(nodes=nodes, hosts={"cpu1": {"gpus": ["0", "1"]}})


TWO_SOCKETS = {"name": "gpu[1-2]", "gpus": 2, "sockets": 2, "socket_cpus": [[4, 6], [5, 7]]}


def test_cpus_of_a_host_are_those_of_its_sockets() -> None:
    own = {"gpu2": {"cpus": [4, 5, 7]}}
    one, other = settings(nodes=[TWO_SOCKETS], hosts=own).hosts
    assert (one.cpus, one.sockets) == ((4, 5, 6, 7), ((0b01, (4, 6)), (0b10, (5, 7))))
    assert (other.cpus, other.sockets) == ((4, 5, 7), ((0b01, (4,)), (0b10, (5, 7))))


def test_cpu_of_a_host_that_is_on_no_socket_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"gpu2\.cpus names CPU 3, which is on no socket"):
        settings(nodes=[TWO_SOCKETS], hosts={"gpu2": {"cpus": [3, 4]}})
