"""Two specimens of every kind of event: with every default left out, and with none.

They filled the golden files: `python -m tests.replay.specimens FOLDER VERSION`. Those of a released
version are never written again; a kind or field that is added gets new files, of a version more.
"""

import asyncio
import dataclasses
import sqlite3
import sys
import types
import typing
from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from shunter.events import KINDS, Event, encode_event, encode_payload, to_object
from shunter.events.log import Snapshot, open_log, seal


def specimens() -> list[Event]:
    """Return both specimens of every kind, in the order of the union."""
    kinds: list[Any] = list(KINDS.values())
    return [make(kind) for kind in kinds for make in (bare, full)]


def bare(cls: Any) -> Any:
    """Return a record with only its required fields, which are as bare."""
    hints = typing.get_type_hints(cls)
    required = [field for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING]
    return cls(**{field.name: _value(hints[field.name], field.name, bare) for field in required})


def full(cls: Any) -> Any:
    """Return a record with all its fields, none at its default."""
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            field.name: _other(_value(hints[field.name], field.name, full), field.default)
            for field in dataclasses.fields(cls)
        }
    )


def _value(hint: Any, name: str, make: Any) -> Any:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if dataclasses.is_dataclass(hint):
        return make(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if make is bare and type(None) in args else _value(args[0], name, make)
    if origin is tuple and args[-1] is Ellipsis:
        return () if make is bare else (_value(args[0], name, make),) * 2
    if origin is tuple:
        return tuple(_value(arg, name, make) for arg in args)
    # Numbers that differ from field to field, so that no two can be mistaken for each other.
    number = sum(name.encode())
    return {int: number, float: number / 8, str: f"{name} é", bool: True}[hint]


def _other(value: Any, default: Any) -> Any:
    """Return the value, or its opposite where a truth value happens to be the default."""
    if value is not default:
        return value
    assert value is True, "every other value differs from its default"
    return False


async def write_golden(folder: Path, version: str) -> None:
    """Write the golden files of a version: rows, objects, a log file as SQL, and digests."""
    events = specimens()
    url = str(folder / "golden.db")
    async with open_log(url, frame_events=30) as log:
        log.append(events)
        await log.flush()
        await log.save_snapshot(Snapshot.of(60, 540, b'["state"]', b'["memory"]'))
        await log.flush()
        await seal(log, 60)
    digests = {"payload": digest_of(encode_payload(events)), "log": log.digest}
    _write(folder / f"digests-{version}.json", [digests])
    _write(folder / f"events-{version}.jsonl", [encode_event(event) for event in events])
    _write(folder / f"events-{version}.objects.jsonl", [to_object(event) for event in events])
    _dump(folder / "golden.db", folder / f"log-{version}.sql")


def digest_of(payload: bytes) -> str:
    """Return the digest of a payload that golden files state."""
    return blake2b(payload, digest_size=16).hexdigest()


def _write(path: Path, lines: Iterable[Any]) -> None:
    path.write_bytes(
        b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    )


def _dump(database: Path, path: Path) -> None:
    connection = sqlite3.connect(database)
    path.write_text("\n".join([*connection.iterdump(), ""]), encoding="utf-8")
    connection.close()
    database.unlink()


if __name__ == "__main__":
    asyncio.run(write_golden(Path(sys.argv[1]), sys.argv[2]))
