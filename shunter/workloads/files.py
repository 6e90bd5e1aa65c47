"""Files that people name: read whole, if they are files, and of a size that can be meant."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from shunter.errors import ConfigError

PIECE_BYTES = 1 << 20
FILE_BYTES_MOST = 4 << 30
"""Far more than the largest trace there is; a device has no end."""


def read_file(path: str | Path, most: int = FILE_BYTES_MOST) -> bytes:
    """Return the bytes of a file, or of a pipe up to its end.

    Raises:
        OSError: it cannot be read, is no file, or is larger than `most` bytes.
        ValueError: the path holds a zero byte.
    """
    too_large = OSError(None, f"it is larger than {most:,} bytes")
    with Path(path).open("rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode):
            if found.st_size > most:
                raise too_large
            return file.read()
        if not stat.S_ISFIFO(found.st_mode):
            raise OSError(None, "it is no file, but a device or the like")
        content = bytearray()
        while piece := file.read(PIECE_BYTES):
            content += piece
            if len(content) > most:
                raise too_large
    return bytes(content)


def table_text(source: str, builtin: str, path: Path, read: Callable[[str], str]) -> str:
    """Return the text of the table of the package, or of the file a source names.

    Args:
        source: `builtin`, or a path.
        builtin: what names the table of the package, `builtin:` and a name.
        path: where that one lies.
        read: returns the text of a file, or raises ConfigError.
    Raises:
        ConfigError: there is no such table, or the file cannot be read.
    """
    if source == builtin:
        return path.read_text(encoding="utf-8")
    if source.startswith("builtin:"):
        raise ConfigError(f"there is no table {source!r}; expected {builtin} or a file")
    return read(source)
