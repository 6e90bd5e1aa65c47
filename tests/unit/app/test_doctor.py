"""What doctor says of a machine that is to run everybody's jobs."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.app.config.loading import make_config
from shunter.app.doctor.findings import Looked
from shunter.app.doctor.machine import held_shares, shares, users

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
