"""Which facts are inputs, and which follow from others.

observed   a backend or a clock saw it             commanded  a person or the config wants it
derived    follows from a fact and the state        decided    a policy's plan led to it
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shunter.events.values.reasons import Because


class FactClass(StrEnum):
    """Where a fact comes from."""

    observed = "observed"
    commanded = "commanded"
    derived = "derived"
    decided = "decided"


OBSERVED, COMMANDED, DERIVED, DECIDED = FactClass


@dataclass(frozen=True)
class KindClass:
    """The class of a kind, and where `cause` is one of those named, another one."""

    usual: FactClass
    cause: str = ""
    others: Mapping[str | Because, FactClass] = field(default_factory=dict)
