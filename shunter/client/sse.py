"""Server-sent events, line by line: what both clients read from a stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson


@dataclass(frozen=True)
class Followed:
    """One event of the log: its number, its kind, and its fields by name."""

    seq: int
    kind: str
    fields: dict[str, object]


@dataclass
class Lines:
    """Puts the lines of a stream together; comments and hints are passed over."""

    _seq: int = 0
    _kind: str = ""
    _data: list[str] = field(default_factory=list)

    def take(self, line: str) -> Iterator[Followed]:
        """Yield the event that a line completes, if it does."""
        if not line:
            if self._data:
                yield Followed(self._seq, self._kind, orjson.loads("\n".join(self._data)))
            self._data.clear()
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._seq = int(value)
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
