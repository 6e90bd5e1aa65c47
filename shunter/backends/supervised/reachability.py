"""Which servers answer, as the log is told of it."""

from collections.abc import Sequence
from functools import partial

from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.inbox import Inbox
from shunter.events.facts.cluster import NodeLost, NodeReachable, NodeUnreachable
from shunter.events.values.ids import NodeName


class Reachability:
    """The servers that the log has as unreachable, and what it is told of them."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._unreachable: set[NodeName] = set()
        self._spoken_of: set[NodeName] = set()

    def recall(self, agent: NodeAgent, unreachable: Sequence[NodeName]) -> None:
        """Take in which servers an earlier term found unreachable or lost."""
        own = [node for node in agent.nodes if node in unreachable]
        # What was told of one in this term brings the log up to date.
        self._unreachable.update(node for node in own if node not in self._spoken_of)
        self.note_up(agent)

    def note_up(self, agent: NodeAgent) -> None:
        """Tell that the servers of an agent answer, where they do and that is new."""
        for node in agent.nodes if agent.is_up else ():
            if node in self._unreachable:
                self._unreachable.discard(node)
                self._inbox.put(partial(NodeReachable, node=node))

    def note_silent(self, agent: NodeAgent) -> None:
        """Tell that the servers of an agent do not answer."""
        for node in agent.nodes:
            self._unreachable.add(node)
            self._spoken_of.add(node)
            self._inbox.put(partial(NodeUnreachable, node=node))

    def note_lost(self, agent: NodeAgent) -> None:
        """Tell that nothing can run on the servers of an agent any more."""
        for node in agent.nodes:
            self._inbox.put(partial(NodeLost, node=node, cause=agent.cause))
