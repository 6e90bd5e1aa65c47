"""Where servers are in the network: rack and domain, as somebody tells them and a config does.

What the config gives counts: one of `rack` and `domain` for both, since a rack lies in a domain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shunter.config.cluster_section import ClusterSection, NodeGroup
from shunter.events.values import NodeName

PLACE_KEYS = frozenset({"rack", "domain"})
NAMES_MOST = 4
CORRECT = "the config counts; correct rack in [[cluster.nodes]], or leave rack and domain out there"


@dataclass(frozen=True, slots=True)
class Place:
    """The rack of a server and the network domain above it; '' is unknown."""

    rack: str = ""
    domain: str = ""


def gives_place(group: NodeGroup) -> bool:
    """Say whether the config tells where a server is, be it that nobody knows."""
    return bool(group.model_fields_set & PLACE_KEYS)


def rack_notes(
    cluster: ClusterSection, places: Mapping[NodeName, Place], by: str
) -> dict[NodeName, str]:
    """Return where racks of the config hold other servers than those that are told.

    Names of racks are anybody's choice, so they are not compared. Servers of which nothing is told
    are passed over.

    Args:
        cluster: as the config has it.
        places: as they are told, by server.
        by: who tells them.
    """
    given = {
        name: group.rack
        for name, group in cluster.groups().items()
        if group.rack and places.get(name, Place()).rack
    }
    notes = {}
    for name, rack in given.items():
        here = [other for other in given if given[other] == rack]
        there = [other for other in given if places[other].rack == places[name].rack]
        if here != there:
            notes[name] = (
                f"rack {rack} holds {_shown(here)} by the config, and {by} has {_shown(there)} "
                f"in one ({places[name].rack}): {CORRECT}"
            )
    return notes


def _shown(names: Sequence[NodeName]) -> str:
    more = f" and {len(names) - NAMES_MOST} more" if len(names) > NAMES_MOST else ""
    return ", ".join(names[:NAMES_MOST]) + more
