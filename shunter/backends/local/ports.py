"""A port for each attempt, on which its ranks find each other.

Ports are given in turn, so that one just given back rests for as long as it can: a straggler of the
last attempt must not meet the ranks of the next. Nobody else may listen there at the moment.
"""

from collections.abc import Collection

from shunter.backends.node.ranks import is_free
from shunter.errors import BackendError

__all__ = ["Ports"]


class Ports:
    """The ports of a machine that attempts may have."""

    def __init__(self, first: int, end: int) -> None:
        self._first, self._end = first, end
        self._next = first

    def take(self, taken: Collection[int]) -> int:
        """Return a port that nobody has.

        Raises:
            BackendError: all of them are taken.
        """
        count = self._end - self._first
        for offset in range(count):
            port = self._first + (self._next - self._first + offset) % count
            if port not in taken and is_free(port):
                self._next = port + 1
                return port
        raise BackendError(
            f"no port of {self._first} to {self._end - 1} is free for the ranks of a job: "
            "name more ports",
            retryable=True,
        )
