"""The keys of a cluster's pilots: who may read them, what they say, and how they are told of."""

import os
import stat
import time
from pathlib import Path

import pytest
from cryptography import x509

from shunter.backends.node import PilotFile, read_pilot_file
from shunter.backends.slurm import ClusterAuthority, read_certificate
from shunter.errors import BackendError, ConfigError

WALL_S = 1_800_000_000.0


def told(name: str = "p1") -> PilotFile:
    addresses = ("login1", "192.0.2.7")
    return PilotFile(name=name, addresses=addresses, port=7000, cluster="c1", drain_s=20.0)


def authority(root: Path) -> ClusterAuthority:
    return ClusterAuthority.load(root, time.time())


def test_key_pair_is_made_once_and_for_us_alone(tmp_path: Path) -> None:
    authority(tmp_path)
    path = tmp_path / "pilots.pem"
    content = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    authority(tmp_path)
    assert path.read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir()) == ["pilots.pem"]


def test_key_pair_that_others_can_read_is_refused(tmp_path: Path) -> None:
    authority(tmp_path)
    (tmp_path / "pilots.pem").chmod(0o640)
    with pytest.raises(ConfigError, match="mode 0640, expected 0600"):
        authority(tmp_path)


@pytest.mark.needs("root")
def test_key_pair_of_another_user_is_refused(tmp_path: Path) -> None:
    authority(tmp_path)
    os.chown(tmp_path / "pilots.pem", 12345, -1)
    with pytest.raises(ConfigError, match="belongs to user 12345, expected 0"):
        authority(tmp_path)


@pytest.mark.parametrize("content", ["", "no key", "-----BEGIN PRIVATE KEY-----\nx\n"])
def test_damaged_key_pair_is_told_with_what_to_do(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pilots.pem"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"is no key pair of pilots: .* remove it once"):
        authority(tmp_path)


def test_file_of_a_pilot_says_where_the_daemon_is_and_for_how_long(tmp_path: Path) -> None:
    path = tmp_path / "p1.pilot"
    issued = authority(tmp_path).issue(path, told(), valid_s=3600, wall_s=WALL_S)
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    assert certificate.not_valid_after_utc.timestamp() == WALL_S + 3600
    assert (issued.name, issued.path) == ("p1", path)
    assert read_certificate(path) == issued
    said, _ = read_pilot_file(str(path))
    assert (said["name"], list(said["addresses"])) == ("p1", ["login1", "192.0.2.7"])
    assert (said["port"], said["cluster"], said["drain_s"]) == (7000, "c1", 20.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_pilot_has_a_key_of_its_own(tmp_path: Path) -> None:
    ours, keys = authority(tmp_path), set()
    for name in ("p1", "p2", "p1"):
        path = tmp_path / name
        ours.issue(path, told(name), valid_s=3600, wall_s=WALL_S)
        keys.add(path.read_text().partition("-----BEGIN PRIVATE KEY-----")[2][:200])
    assert len(keys) == 3


@pytest.mark.parametrize("name", ["", "a/b", "../x", "ä", "x" * 65, "-x", "a b", "a\n"])
def test_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="names no pilot"):
        authority(tmp_path).issue(tmp_path / "x", told(name), valid_s=1, wall_s=WALL_S)


def test_folder_that_is_gone_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot write the file of pilot p1") as caught:
        authority(tmp_path).issue(tmp_path / "gone" / "p1", told(), valid_s=1, wall_s=1e9)
    assert caught.value.retryable


def test_file_without_a_certificate_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing")
    with pytest.raises(BackendError, match="is no file of a pilot"):
        read_certificate(tmp_path / "x")
