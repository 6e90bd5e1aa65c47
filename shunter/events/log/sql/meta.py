"""The table `meta`: of which version a log file is, where its terms begin, if it has an anchor.

Its rows, the revision, and the term in the table `head` are under one digest, which every reader
checks. Nothing else in the file depends on them, so nothing else would tell that they were changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import orjson
from sqlalchemy import delete, insert, inspect, select
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError, LogVersionError
from shunter.events.log.frames import GENESIS, Head
from shunter.events.log.sql.past_jobs import make_past_empty
from shunter.events.log.sql.tables import (
    ADDED_IN,
    ALEMBIC_VERSION,
    ANCHOR_NAME,
    DIGEST_NAME,
    EVENT_FIELDS,
    FIELDS_NAME,
    HEAD,
    META,
    METADATA,
    OLDEST,
    REVISION,
    SCHEMA_NAME,
    SOURCES_NAME,
    TERMS_NAME,
    VIEW,
    event_field_rows,
)
from shunter.events.upcasts import SCHEMA

BESIDE = "beside"
"""The value of the row `anchor` from the first durable opening on, until the log is closed; then it
is the sequence number at which it was."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What the table says: the revision of the tables, and its rows.

    `anchor` is a row as it is, None where there is none. `terms` are the first sequence numbers of
    terms with their numbers, from the first that is known, and `fields` the digest of the table
    `event_fields`; nothing and None in an old log. `sources` say from which code terms decided, as
    far as they noted it: digests by package.
    """

    revision: str
    anchor: str | None = None
    terms: tuple[tuple[int, int], ...] = ()
    fields: str | None = None
    sources: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def has_table(self, name: str) -> bool:
        """Whether the file is of a revision that has a table."""
        return all(self.revision >= added for added, names in ADDED_IN.items() if name in names)

    @property
    def is_current(self) -> bool:
        """Whether the file has all tables of this version."""
        return self.revision == REVISION

    @property
    def closed_at(self) -> int | None:
        """The sequence number at which the log was closed as a whole; None: it was not."""
        value = self.anchor or ""
        return int(value) if value.isdecimal() else None


async def create_tables(connection: AsyncConnection, *, is_anchored: bool) -> Head:
    """Make an empty log of term 1, in the transaction that is open; return its head."""
    await connection.run_sync(METADATA.create_all, checkfirst=False)
    await connection.exec_driver_sql(VIEW)
    head = Head(0, GENESIS, 1)
    await connection.execute(insert(ALEMBIC_VERSION), {"version_num": REVISION})
    await connection.execute(
        insert(HEAD), {"seq": head.seq, "chain": head.chain, "term": head.term}
    )
    await make_past_empty(connection)
    await begin_term(connection)
    if is_anchored:
        await write_meta(connection, {ANCHOR_NAME: BESIDE})
    return head


async def begin_term(connection: AsyncConnection) -> None:
    """Note the term that the head has now, and the names of fields."""
    seq, term = (await connection.execute(select(HEAD.c.seq, HEAD.c.term))).one()
    await connection.execute(delete(EVENT_FIELDS))
    await connection.execute(insert(EVENT_FIELDS), event_field_rows())
    # A term in which nothing was written has no frames.
    known = [each for each in _terms(await _rows(connection)) if each[0] <= seq]
    terms = [*known, (seq + 1, term)]
    fields = await fields_digest(connection)
    written = {TERMS_NAME: orjson.dumps(terms).decode(), FIELDS_NAME: fields}
    await write_meta(connection, {**written, SCHEMA_NAME: str(SCHEMA)})


async def fields_digest(connection: AsyncConnection) -> str:
    """Return the digest of the table `event_fields`."""
    columns = (EVENT_FIELDS.c.kind, EVENT_FIELDS.c.position, EVENT_FIELDS.c.name)
    rows = (await connection.execute(select(*columns))).all()
    return _over(sorted(repr(tuple(row)) for row in rows))


async def note_sources(connection: AsyncConnection, term: int, sources: Mapping[str, str]) -> None:
    """Note from which sources a term decides: digests by package."""
    known = _sources(await _rows(connection))
    named = {str(number): dict(of) for number, of in {**known, term: sources}.items()}
    await write_meta(connection, {SOURCES_NAME: orjson.dumps(named).decode()})


async def write_meta(connection: AsyncConnection, written: Mapping[str, str]) -> None:
    """Write some rows, and the digest over all anew."""
    rows = {**await _rows(connection), **written}
    rows.pop(DIGEST_NAME, None)
    revision = (await connection.execute(select(ALEMBIC_VERSION))).scalar_one()
    term = (await connection.execute(select(HEAD.c.term))).scalar_one()
    rows[DIGEST_NAME] = _digest(rows, term, revision)
    await connection.execute(delete(META))
    await connection.execute(
        insert(META), [{"name": name, "value": value} for name, value in rows.items()]
    )


async def check_version(connection: AsyncConnection, path: Path, oldest: str = OLDEST) -> Meta:
    """Refuse what is no log, of another version, or changed.

    Raises:
        LogVersionError: it is something else, or of a newer Shunter, or needs an upgrade.
        LogDamagedError: a row of `meta` or the term of the head is not what was written.
    """
    names = await connection.run_sync(lambda sync: set(inspect(sync).get_table_names()))
    if not {"meta", "head", "frames", "alembic_version"} <= names:
        raise LogVersionError(f"{path} is not a Shunter log")
    rows = await _rows(connection)
    schema = rows.get(SCHEMA_NAME, "")
    revisions = (await connection.execute(select(ALEMBIC_VERSION))).scalars().all()
    revision = revisions[0] if len(revisions) == 1 else ""
    if not _is_version(schema) or not _is_version(revision):
        raise LogDamagedError(f"the log {path} does not say which version wrote it")
    if int(schema) > SCHEMA or revision > REVISION:
        raise LogVersionError(
            f"the log {path} was written by a newer Shunter (schema {schema}, tables {revision}; "
            f"this one knows {SCHEMA} and {REVISION}); upgrade to read it"
        )
    if revision < oldest:
        raise LogVersionError(
            f"the log {path} has tables of an older Shunter ({revision}); upgrade it first, "
            "with `shunter.events.log.upgrade_log`"
        )
    if revision == REVISION or DIGEST_NAME in rows:
        terms = (await connection.execute(select(HEAD.c.term))).scalars().all()
        digest = rows.pop(DIGEST_NAME, None)
        # A head that is no single row is refused by whoever reads it.
        if len(terms) == 1 and digest != _digest(rows, terms[0], revision):
            raise LogDamagedError(
                f"the log {path} was changed: its table meta, its revision, or the term of its "
                "head is not what was written"
            )
    return Meta(
        revision, rows.get(ANCHOR_NAME), tuple(_terms(rows)), rows.get(FIELDS_NAME), _sources(rows)
    )


async def _rows(connection: AsyncConnection) -> dict[str, str]:
    rows = await connection.execute(select(META.c.name, META.c.value).order_by(META.c.name))
    return {row.name: row.value for row in rows}


def _is_version(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9


def _terms(rows: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return where terms begin, of rows whose digest was checked."""
    return [(first_seq, term) for first_seq, term in orjson.loads(rows.get(TERMS_NAME, "[]"))]


def _sources(rows: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Return from which sources terms decided, of rows whose digest was checked."""
    named = orjson.loads(rows.get(SOURCES_NAME, "{}"))
    return {int(term): dict(sources) for term, sources in named.items()}


def _digest(rows: Mapping[str, str], term: object, revision: str) -> str:
    """Return the digest of all rows but its own, with the term and the revision."""
    return _over([*(repr((name, rows[name])) for name in sorted(rows, key=repr)), term, revision])


def _over(values: Sequence[object]) -> str:
    """Return a digest, by `repr`: a damaged file holds values of any type."""
    return blake2b(repr(values).encode(), digest_size=32).hexdigest()
