"""The checksums of an archive, looked at by several threads at a time.

`zipfile.ZipFile.testzip` copies all that an archive holds, one file after the other. What torch
writes is not compressed: it is mapped instead, and checksums are made of it where it lies.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import zipfile
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_THREADS_MAX = 4
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # of a file in an archive, before its name
_LARGE = 1 << 20


def is_sound(path: Path) -> bool:
    """Say whether each file of an archive has the checksum that the archive says.

    Raises:
        zipfile.BadZipFile: it is no archive, or cut off.
    """
    with zipfile.ZipFile(path) as archive:
        listed = archive.infolist()
        if any(each.compress_type != zipfile.ZIP_STORED for each in listed):
            return archive.testzip() is None
    with path.open("rb") as file, mmap.mmap(
        file.fileno(), 0, access=mmap.ACCESS_READ
    ) as content, memoryview(content) as view:
        return _are_sound(view, listed)


def _are_sound(view: memoryview, listed: Sequence[zipfile.ZipInfo]) -> bool:
    wrong: list[zipfile.ZipInfo] = []
    left = sorted(listed, key=lambda each: each.file_size)

    def work() -> None:
        while left and not wrong:
            try:
                each = left.pop()
            except IndexError:  # another thread took the last one
                return
            if _checksum(view, each) != each.CRC:
                wrong.append(each)

    large = sum(each.file_size >= _LARGE for each in listed)
    number = min(_THREADS_MAX, os.cpu_count() or 1, large)
    threads = [threading.Thread(target=work) for _ in range(number - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return not wrong


def _checksum(view: memoryview, listed: zipfile.ZipInfo) -> int | None:
    """Return the checksum of a file in an archive; None: it is not whole there."""
    header = view[listed.header_offset : listed.header_offset + _LOCAL_HEADER.size]
    if len(header) < _LOCAL_HEADER.size:
        return None
    magic, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    begin = listed.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
    with view[begin : begin + listed.file_size] as content:
        is_whole = magic == b"PK\x03\x04" and len(content) == listed.file_size
        return zlib.crc32(content) if is_whole else None
