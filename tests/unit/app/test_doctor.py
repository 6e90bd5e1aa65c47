"""What doctor says of a machine that is to run everybody's jobs."""

import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.config import make_config
from shunter.ops import Looked, disks, held_shares, kept_log, shares, sizes, sockets, sqlite, users

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that nobody else may enter, as root's home is."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def looked(root: Path, **policy: str) -> Looked:
    return Looked(
        make_config(
            {
                "cluster": {"nodes": [{"name": "here", "gpus": 1, "cpus": 1, "memory_gb": 1}]},
                "policy": policy,
                "backend": {"kind": "local", "local": {"root": str(root)}},
                "log": {"url": str(root / "log.db")},
            }
        )
    )


@pytest.mark.parametrize("name", ["shunter-attempts", "not/made/yet"])
def test_folder_of_attempts_that_users_cannot_get_to_is_found(home: Path, name: str) -> None:
    (finding,) = users(looked(home / name))
    assert (finding.state, f"cannot pass through {home}" in finding.what) == ("bad", True)
    assert f"chmod o+x {home}" in finding.mend
    home.chmod(0o711)
    (finding,) = users(looked(home / name))
    assert finding.state == "good"


def test_what_holds_sized_jobs_to_their_shares_is_told_where_jobs_are_sized(home: Path) -> None:
    (finding,) = held_shares(looked(home, sizing="proportional"))
    assert (finding.subject, finding.what.startswith("CPUs by ")) == ("shares", True)
    assert list(held_shares(looked(home))) == []


def test_server_with_more_than_the_machine_has_is_poor(home: Path) -> None:
    assert list(sizes(looked(home))) == []
    config = looked(home)
    assert config.loaded is not None
    nodes = [{"name": "here", "gpus": 1, "cpus": 20_000, "memory_gb": 1_000_000}]
    document = config.loaded.config.model_dump(mode="json", exclude_unset=True)
    found = list(sizes(Looked(make_config({**document, "cluster": {"nodes": nodes}}))))
    assert [(one.state, "in the config, this machine" in one.what) for one in found] == [
        ("poor", True)
    ] * 2


@pytest.mark.parametrize(
    ("means", "state"),
    [
        ("CPUs by quotas of control groups (version 2); memory by control groups (version 2)", 1),
        ("CPUs by affinity, whole ones only; memory by control groups (version 2)", 0),
        ("CPUs by quotas of control groups (version 1); memory is not held", 0),
    ],
)
def test_server_that_holds_less_than_all_is_poor(means: str, state: int) -> None:
    assert shares("n0", means).state == ("poor", "good")[state]


def test_places_that_may_not_be_looked_at_are_faults_and_no_crash(home: Path) -> None:
    """Method: a user who may not enter the folder of the log and of the attempts."""
    config = looked(home / "below")
    with tempfile.TemporaryDirectory() as other:
        assert list(kept_log(looked(Path(other)))) == []  # it has imported what it needs
    os.setresuid(65_534, 65_534, 0)
    try:
        found = [*kept_log(config), *disks(config), *sqlite(config)]
    finally:
        os.setresuid(0, 0, 0)
    assert [one.state for one in found] == ["bad"] * len(found)
    assert "Permission denied" in found[0].what
    assert any("let nobody write there" in one.mend for one in found)


def test_log_that_may_not_be_read_is_said_so(home: Path) -> None:
    with sqlite3.connect(home / "log.db") as connection:
        connection.execute("CREATE TABLE a (b)")
    connection.close()
    (home / "log.db").chmod(0)
    home.chmod(0o777)
    list(kept_log(looked(home)))  # it has imported what it needs
    os.setresuid(65_534, 65_534, 0)
    try:
        (finding,) = kept_log(looked(home))
    finally:
        os.setresuid(0, 0, 0)
    assert f"user nobody may not read {home}/log.db, which belongs to root" in finding.what


def test_socket_in_a_folder_that_may_not_be_entered_is_a_fault(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_HOME", str(home / "below"))
    os.setresuid(65_534, 65_534, 0)
    try:
        (finding,) = sockets(Looked())
    finally:
        os.setresuid(0, 0, 0)
    assert (finding.state, "may not enter its folder" in finding.what) == ("bad", True)


def test_full_disk_of_a_log_is_to_be_given_room(home: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "small", str(home)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        (home / "fill").write_bytes(bytes(12 * 1024))
        (finding,) = sqlite(looked(home))
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)
    assert (finding.state, finding.mend) == ("bad", f"make room: the disk of {home} is full")
