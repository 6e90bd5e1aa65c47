"""By its digest a file is the same on two nodes: by its size, its data, and where these are."""

import os
from pathlib import Path

from shunter.backends.node.host import digest_of, opened

SIZE = 1 << 43
"""Of a file that is one hole: reading it would take hours."""


def with_data(path: Path, *parts: tuple[int, bytes], size: int = SIZE) -> None:
    with path.open("wb") as file:
        os.ftruncate(file.fileno(), size)
        for offset, data in parts:
            os.pwrite(file.fileno(), data, offset)


def test_holes_are_not_read_and_data_is_told_apart_by_where_it_is(tmp_path: Path) -> None:
    with_data(tmp_path / "a", (1 << 40, b"weights"))
    with_data(tmp_path / "same", (1 << 40, b"weights"))
    with_data(tmp_path / "elsewhere", (1 << 41, b"weights"))
    with_data(tmp_path / "other", (1 << 40, b"Weights"))
    with_data(tmp_path / "hole")
    with_data(tmp_path / "shorter", (1 << 40, b"weights"), size=SIZE - 1)
    with_data(tmp_path / "empty", size=0)
    top = opened(str(tmp_path))
    digests = {
        name: digest_of(top, name) for name in sorted(each.name for each in tmp_path.iterdir())
    }
    os.close(top)
    assert digests["a"] == digests["same"]
    assert len(set(digests.values())) == len(digests) - 1
