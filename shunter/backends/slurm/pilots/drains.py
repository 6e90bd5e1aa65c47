"""Which nodes are held by a pilot that is about to end, and why: nothing is to be started there."""

from collections.abc import Mapping

import anyio

from shunter.events.values.ids import NodeName


class NodeDrains:
    """The nodes that drain.

    They do from when it is known that their pilot is about to end until they are silent. `changed`
    is set when one begins or is over, and is another event from then on.
    """

    def __init__(self) -> None:
        self._reasons: dict[NodeName, str] = {}
        self.changed = anyio.Event()

    @property
    def reasons(self) -> Mapping[NodeName, str]:
        """Why each of them drains."""
        return self._reasons

    def begin(self, node: NodeName, why: str) -> None:
        """Note why a node drains."""
        if self._reasons.get(node) != why:
            self._reasons[node] = why
            self._tell()

    def end(self, node: NodeName) -> None:
        """Note that a node does not drain: it is silent, or has another pilot."""
        if self._reasons.pop(node, None) is not None:
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()
