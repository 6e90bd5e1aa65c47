"""What a log keeps compressed: states and memories of snapshots, and sealed segments.

Bytes of a column are compressed where that makes them shorter. A first byte says which: that of a
zlib stream, or the bracket with which JSON begins, as in files of older versions.

A sealed segment, a run of frames in one blob, is a row beside the frames rather than a file beside
the log: moving frames is then one transaction, and a log stays one file to copy. Inside are two
lines a frame, its row without the payload and its payload, compressed by zlib, which every tool can
read.
"""

import zlib
from collections.abc import Sequence
from hashlib import blake2b

import orjson

from shunter.errors import LogDamagedError
from shunter.events.log.frames import Frame
from shunter.events.log.stores import Segment

SEGMENT_EVENTS = 5_000
"""About how many events a segment holds: sealing one stops commits for some 50 ms."""

LEVEL = 1
"""Of zlib: the quickest; the best makes a state a fifth smaller in ten times as long."""

_ZLIB = b"\x78"


def pack_bytes(plain: bytes) -> bytes:
    """Return what to keep of some bytes, which are JSON or nothing."""
    assert not plain.startswith(_ZLIB), "no JSON begins like that"
    packed = zlib.compress(plain, LEVEL)
    return packed if len(packed) < len(plain) else plain


def unpack_bytes(kept: bytes, what: str, seq: int) -> bytes:
    """Return the bytes that were packed.

    Raises:
        LogDamagedError: they cannot be had back; names `what`, at a sequence number.
    """
    if not kept.startswith(_ZLIB):
        return kept
    try:
        return zlib.decompress(kept)
    except zlib.error as error:
        raise LogDamagedError(
            f"{what} at sequence number {seq} is damaged: {error}", seq
        ) from error


def pack_segment(frames: Sequence[Frame]) -> tuple[Segment, bytes]:
    """Return the segment of a run of frames, and its blob."""
    lines = []
    for frame in frames:
        lines.append(
            orjson.dumps([frame.first_seq, frame.count, frame.at_us, frame.term, frame.chain.hex()])
        )
        lines.append(frame.payload)
    text = b"\n".join(lines)
    segment = Segment(frames[0].first_seq, frames[-1].last_seq, _digest(text))
    return segment, zlib.compress(text)


def unpack_segment(segment: Segment, blob: bytes) -> list[Frame]:
    """Return the frames of a blob.

    Raises:
        LogDamagedError: the blob does not hold what was sealed.
    """
    try:
        text = zlib.decompress(blob)
    except (zlib.error, TypeError):
        text = b""
    if _digest(text) != segment.digest:
        raise LogDamagedError(
            f"the segment at sequence number {segment.first_seq} does not match its digest",
            segment.first_seq,
        )
    lines = text.split(b"\n")
    frames = []
    for row, payload in zip(lines[::2], lines[1::2], strict=True):
        first_seq, count, at_us, term, chain = orjson.loads(row)
        frames.append(Frame(first_seq, count, at_us, term, bytes.fromhex(chain), payload))
    return frames


def _digest(text: bytes) -> str:
    """Return the digest of what is compressed: builds of zlib differ in their bytes."""
    return blake2b(text, digest_size=32).hexdigest()
