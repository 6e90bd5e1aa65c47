"""Old kinds of events, turned into today's.

Schemas are for ever: a new field goes last and has a default, and needs nothing here. Where a
meaning changed, the old kind's name is listed with the function that rewrites its row; each has a
golden log in `tests/replay/golden`. `SCHEMA` counts the versions of the vocabulary; a log says in
its file which one it was written with, and a reader refuses one from the future.
"""

from collections.abc import Callable

from shunter.events.row_source import Row

SCHEMA = 1

Upcast = Callable[[Row], Row]

UPCASTS: dict[str, Upcast] = {}


def upcast(row: Row) -> Row | None:
    """Return the row as a newer kind, or None where its name was never used."""
    rewrite = UPCASTS.get(row[0])
    return None if rewrite is None else rewrite(row)
