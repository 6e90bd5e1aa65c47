"""The checksums of archives, by threads and where the content lies."""

import zipfile
from pathlib import Path

import pytest

from shunter.train import archives

FILES = {"data/0": bytes(range(256)) * 8000, "data/1": b"x" * 3_000_000, "empty": b"", "a": b"abc"}


def archive(path: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in FILES.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archive_as_it_was_written_is_sound(tmp_path: Path, compression: int) -> None:
    assert archives.is_sound(archive(tmp_path / "a.zip", compression))


@pytest.mark.parametrize("name", ["data/0", "data/1", "a"])
def test_byte_that_changed_is_found(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "a.zip")
    content = bytearray(path.read_bytes())
    at = content.index(FILES[name])
    content[at + len(FILES[name]) // 2] ^= 1
    path.write_bytes(content)
    assert not archives.is_sound(path)


def test_header_that_changed_is_found(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip")
    with path.open("r+b") as file:
        file.write(b"xx")
    assert not archives.is_sound(path)


def test_archive_that_is_cut_off_is_none(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(zipfile.BadZipFile):
        archives.is_sound(path)
