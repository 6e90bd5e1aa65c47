"""Bytes as a column holds them: compressed where that makes them shorter.

A first byte says which: that of a zlib stream, or the bracket with which JSON begins, as in files
of older versions.
"""

import zlib

from shunter.errors import LogDamagedError

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
