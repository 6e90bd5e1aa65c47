"""Lists of files on their way between a node and the daemon: many small records, never a large one.

A user decides how many files a checkpoint has and how long their names are. So a list is bounded in
all (ENTRIES_MAX, PATH_BYTES_MAX), and is told in records that each fit in a piece of memory that
nobody minds: a line of JSON each from a node, a length and JSON each to it, whose reader must not
read on. A record of entries says their folder once:

    {"folder": PATH, "entries": [[NAME, FIELD, …], …]}

The folder itself has the name "". Paths in records have a character for each byte (Latin-1), so
that the daemon holds none in more memory than it has bytes; one letter beyond Latin-1 would make
Python hold all others of its path in two or four. Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

Text = TypeVar("Text", str, "str | None")

ENTRIES_MAX, PATH_BYTES_MAX = 100_000, 16 << 20
"""What a checkpoint may have, to be copied: files and folders in its folder, and bytes of all their
paths and of the targets of links."""
TOO_MUCH = (
    "it stays where it is: pack or remove files there and `shunter resume` the job, or have the"
    " servers share a folder for checkpoints (backend.ssh.checkpoints)"
)
RECORD_ENTRIES = 500
RECORD_TEXT_BYTES = 1 << 16
RECORD_BYTES_MAX = 4 << 20
LENGTH_BYTES = 4


class TooMuchError(ValueError):
    """A folder has more than a checkpoint may; its text says of what."""


class ListBound:
    """Counts a list, and refuses it once it is larger than a checkpoint may be."""

    def __init__(self) -> None:
        self.entries_left = ENTRIES_MAX
        self._path_bytes_left = PATH_BYTES_MAX

    def add(self, path: str, to: str = "") -> None:
        """Count an entry by its path in a record, and by its target if it is a link.

        The folder itself, whose path is empty, counts as nothing.

        Raises:
            TooMuchError: it is one too many.
            ValueError: it is not as in a record.
        """
        self.entries_left -= 1 if path else 0
        self._path_bytes_left -= len(path.encode("latin-1")) + len(to.encode("latin-1"))
        if self.entries_left < 0:
            raise self.too_many()
        if self._path_bytes_left < 0:
            raise TooMuchError(
                f"paths and targets of links of more than {PATH_BYTES_MAX >> 20} MiB in all"
            )

    def too_many(self) -> TooMuchError:
        """Return what says that there are too many entries."""
        return TooMuchError(f"more than {ENTRIES_MAX:,} files and folders")


def recorded_path(path: str) -> str:
    """Return a path, or the target of a link, as it is in a record."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")


def path_in_record(text: str) -> str:
    """Return the path that is in a record.

    Raises:
        ValueError: it is none.
    """
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def encoded_bytes(text: str) -> int:
    """Return how many bytes a text has in a record: up to six for a byte of a name."""
    return len(text) if text.isascii() and text.isprintable() else len(json.dumps(text))


def listings(rows: Iterable[tuple[str, list[object]]]) -> Iterator[dict[str, object]]:
    """Yield the records of a list of entries, in their order.

    Args:
        rows: of each entry its path, and the fields that are told of it.
    """
    folder, found, size = "", [], 0  # type: str, list[list[object]], int
    for path, fields in rows:
        parent, _, name = path.rpartition("/")
        length = sum(encoded_bytes(each) for each in (name, *fields) if isinstance(each, str))
        if found and (parent != folder or _is_full(found, size + length)):
            yield {"folder": folder, "entries": found}
            found, size = [], 0
        folder, size = parent, size + length
        found.append([name, *fields])
    if found:
        yield {"folder": folder, "entries": found}


def rows_of(listing: Mapping[str, Any]) -> Iterator[tuple[str, list[object]]]:
    """Yield the entries of a record: of each its path, and its fields."""
    folder = listing["folder"]
    for name, *fields in listing["entries"]:
        yield (f"{folder}/{name}" if folder else str(name)), fields


def pieces(items: Iterable[Text]) -> Iterator[list[Text]]:
    """Yield the parts of a list of paths or digests of which each fits in a record."""
    found, size = [], 0  # type: list[Text], int
    for item in items:
        length = encoded_bytes(item or "")
        if found and _is_full(found, size + length):
            yield found
            found, size = [], 0
        found.append(item)
        size += length
    if found:
        yield found


def _is_full(found: Sequence[object], size: int) -> bool:
    return len(found) == RECORD_ENTRIES or size > RECORD_TEXT_BYTES


def packed(record: Mapping[str, object]) -> bytes:
    """Return a record as it is told to a node: its length, and JSON."""
    content = json.dumps(record).encode()
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


END = (0).to_bytes(LENGTH_BYTES, "big")
"""Ends the records that a node is told."""


def unpacked(read_exactly: Callable[[int], bytes]) -> Iterator[dict[str, Any]]:
    """Yield the records that somebody tells, up to the end of them.

    Raises:
        ValueError: it is no record.
        EOFError: there is no end of them.
    """
    while True:
        length = int.from_bytes(read_exactly(LENGTH_BYTES), "big")
        if not length:
            return
        if length > RECORD_BYTES_MAX:
            raise ValueError("it is no list of files")
        yield json.loads(read_exactly(length))
