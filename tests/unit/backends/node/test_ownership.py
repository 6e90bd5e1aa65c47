"""Whose folder a base is: a node's own, also where all nodes see the same one."""

import platform
from pathlib import Path

import pytest

from shunter.backends.node import base_of, is_networked

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
proc /proc proc rw 0 0
server:/export /nfs nfs4 rw,vers=4.2 0 0
/dev/sdb1 /nfs/scratch ext4 rw 0 0
lustre@tcp:/fs /lustre lustre rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> str:
    (tmp_path / "mounts").write_text(MOUNTS)
    return str(tmp_path / "mounts")


@pytest.mark.parametrize(
    ("path", "networked"),
    [
        ("/nfs/ana/.shunter", True),
        ("/nfs", True),
        ("/nfs/scratch/shunter", False),
        ("/nfsd/shunter", False),
        ("/lustre/shunter", True),
        ("/var/lib/shunter", False),
    ],
)
def test_folder_of_a_network_is_told_from_a_local_one(
    path: str, mounts: str, *, networked: bool
) -> None:
    assert is_networked(path, mounts) is networked
    own = f"{path}/{platform.node()}" if networked else path
    assert base_of(path, mounts) == own


def test_machine_that_does_not_tell_its_mounts_has_local_folders(tmp_path: Path) -> None:
    assert base_of("/nfs/ana", str(tmp_path / "none")) == "/nfs/ana"
