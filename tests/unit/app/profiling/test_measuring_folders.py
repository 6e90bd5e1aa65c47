"""Folders that a killed measurement left are removed, those in use and all else stay."""

import tempfile
from pathlib import Path

import pytest

from shunter.ops import measuring_folder, remove_abandoned


def test_only_folders_that_nobody_holds_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "shunter-profile-left"
    (left / "jobs" / "profile-0" / "1").mkdir(parents=True)
    (tmp_path / "others").mkdir()
    (tmp_path / "shunter-profile-link").symlink_to("others")
    (tmp_path / "shunter-profile-file").touch()
    with measuring_folder() as used:
        (note,) = remove_abandoned()
        assert remove_abandoned() == []
        assert Path(used).is_dir()
    assert note == f"removed {left}, which a `shunter admin profile` that was killed has left"
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["others", "shunter-profile-file", "shunter-profile-link"]
