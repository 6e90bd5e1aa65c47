"""Folders of checkpoints on a simulated node, and the verbs that carry them to another.

What is said is what `shunter.backends.node.host.checkpoint_transfer` says: manifests, streams in
pieces with their digests, a transfer that counts once it is committed.
"""

import hashlib
import io
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shunter.backends.node.host import (
    COMMIT,
    LENGTH_BYTES,
    PIECE,
    TRANSFERRED,
    Entry,
    fields_of,
    listings,
    pieces,
    rows_of,
    unpacked,
)

__all__ = ["VERBS", "Folder", "Folders", "Say", "Work"]

Say = Callable[[bytes], None]
Work = Generator[int, bytes, None]
"""A verb at work: it yields how many bytes of its input it needs next (`ALL`: all there are)."""
ALL = -1
FOLDER_MODE, FILE_MODE = 0o700, 0o600
Signature = tuple[int, int]


@dataclass(slots=True)
class Folder:
    """A folder of checkpoints: its files, each with when it was written, in ns.

    `received` are the files of the last transfer as they were then, and `is_whole` says that no
    attempt has begun since.
    """

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    received: dict[str, Signature] = field(default_factory=dict)
    generation: int = 0
    is_whole: bool = False

    def signatures(self) -> dict[str, Signature]:
        """Return by what each file is told from what it was before."""
        return {path: (len(data), at_ns) for path, (data, at_ns) in sorted(self.files.items())}

    def entries(self) -> list[Entry]:
        """Return what is in it, itself first."""
        told = self.signatures()
        newest_ns = max((at_ns for _, at_ns in told.values()), default=0)
        top = _entry("", "folder", FOLDER_MODE, (0, newest_ns), is_changed=not self.generation)
        return [top] + [
            _entry(path, "file", FILE_MODE, sign, is_changed=self.received.get(path) != sign)
            for path, sign in told.items()
        ]


Folders = dict[str, Folder]


def _entry(path: str, kind: str, mode: int, sign: Signature, *, is_changed: bool) -> Entry:
    assert kind in ("file", "folder"), "a simulated program makes no links"
    return {
        "path": path,
        "kind": "file" if kind == "file" else "folder",
        "mode": mode,
        "size": sign[0],
        "mtime_ns": sign[1],
        "inode": "",
        "to": "",
        "changed": is_changed,
    }


def _manifest(folders: Folders, path: str, nonce: str, say: Say) -> Work:
    """Tell every entry of a folder, and what is new in it."""
    yield ALL
    folder = folders.get(path, Folder())
    entries = folder.entries() if path in folders else []
    for part in listings((entry["path"], fields_of(entry)) for entry in entries):
        say(answer_line(nonce, part))
    for gone in pieces(sorted(folder.received.keys() - folder.files.keys())):
        say(answer_line(nonce, {"gone": gone}))
    say(answer_line(nonce, {"generation": folder.generation, "is_whole": folder.is_whole}))


def _digest(folders: Folders, path: str, nonce: str, say: Say) -> Work:
    """Tell the digests of some files."""
    paths = _paths_in((yield ALL))
    files = folders.get(path, Folder()).files
    found = [_sha256(files[name][0]).hex() if name in files else None for name in paths]
    for part in pieces(found):
        say(answer_line(nonce, {"digests": part}))
    say(answer_line(nonce, {"end": True}))


def _stream(folders: Folders, path: str, nonce: str, say: Say) -> Work:
    """Send some files as a stream."""
    paths = _paths_in((yield ALL))
    say(f"\n{nonce} ".encode())
    for name in paths:
        data, _ = folders[path].files[name]
        pieces = PIECE.pack(0, len(data)) + data if data else b""
        say(pieces + PIECE.pack(len(data), 0) + _sha256(data))


def _receive(folders: Folders, path: str, nonce: str, say: Say) -> Work:
    """Make a folder hold what the input tells, once that is committed."""
    entries: list[tuple[str, dict[str, Any]]] = []
    received: list[str] = []
    generation = 0
    while length := int.from_bytes((yield LENGTH_BYTES), "big"):
        record = json.loads((yield length))
        received += record.get("received", [])
        generation = record.get("generation", generation)
        for name, fields in rows_of(record) if "entries" in record else ():
            entries.append((name, dict(zip(TRANSFERRED, fields, strict=True))))
    arrived: dict[str, bytes] = {}
    for name in received:
        arrived[name] = b""
        while True:
            _, size = PIECE.unpack((yield PIECE.size))
            if not size:
                break
            arrived[name] += yield size
        if (yield hashlib.sha256().digest_size) != _sha256(arrived[name]):
            raise ValueError(f"{name} is not what was sent")
    here = folders.get(path, Folder()).files
    files = {
        name: (here[name][0] if entry["from"] == "here" else arrived[name], entry["mtime_ns"])
        for name, entry in entries
        if entry["kind"] == "file"
    }
    say(answer_line(nonce, {"ready": True}))
    if (yield len(COMMIT)) != COMMIT:
        raise ValueError("it was not to be kept")
    new = Folder(files, generation=generation, is_whole=True)
    new.received = new.signatures()
    folders[path] = new
    say(answer_line(nonce, {}))


def answer_line(nonce: str, found: Mapping[str, object]) -> bytes:
    """Return the line that a verb answers with."""
    return f"\n{nonce} {json.dumps(found)}\n".encode()


def _paths_in(content: bytes) -> list[str]:
    stream = io.BytesIO(content)
    return [path for record in unpacked(stream.read) for path in record["paths"]]


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


VERBS: Mapping[str, Callable[[Folders, str, str, Say], Work]] = {
    "manifest": _manifest,
    "digest": _digest,
    "stream": _stream,
    "receive": _receive,
}
