"""What doctor says of a machine that is to run everybody's jobs."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.app.config.loading import make_config
from shunter.app.doctor.findings import Looked
from shunter.app.doctor.machine import users

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts jobs as their users")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that nobody else may enter, as root's home is."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def looked(root: Path) -> Looked:
    return Looked(
        make_config(
            {
                "cluster": {"nodes": [{"name": "here", "gpus": 1}]},
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
