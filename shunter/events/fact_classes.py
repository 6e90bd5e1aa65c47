"""The class of every fact: what `replay --verify` takes from a log, and what it makes once more.

Observed and commanded facts are what a scheduler cannot know by itself, and are taken as they are.
Derived and decided ones are made once more, and compared. Where a backend's outcomes take no time,
an end of an attempt and what follows from it are one fact, that of the job's end: there its exit
code and instant are taken as observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shunter.events.facts import cluster, decisions, execution, jobs, profiles, run, tolerance
from shunter.events.kinds import KINDS, Event
from shunter.events.values.causes import DISPLACED
from shunter.events.values.fact_class import FactClass, KindClass
from shunter.events.values.reasons import Because

__all__ = ["CLASSES", "DERIVED", "DerivedKind", "FactClass", "class_of"]

_BY_GROUP = {
    **run.CLASSES,
    **cluster.CLASSES,
    **jobs.CLASSES,
    **decisions.CLASSES,
    **execution.CLASSES,
    **profiles.CLASSES,
    **tolerance.CLASSES,
}

CLASSES: Final[Mapping[type[Event], KindClass]] = {kind: _BY_GROUP[kind] for kind in KINDS.values()}
"""The class of every kind, and of the causes by which it has another one."""


def class_of(event: Event) -> FactClass:
    """Return where a fact comes from."""
    known = CLASSES[type(event)]
    if not known.cause:
        return known.usual
    return known.others.get(_cause_of(event, known), known.usual)


def _cause_of(event: Event, known: KindClass) -> str | Because:
    """Return the cause by which a fact is classed: a displacement, by whomever it is."""
    cause: str | Because = getattr(event, known.cause)
    is_displaced = isinstance(cause, Because) and cause.rule == DISPLACED.rule
    return DISPLACED if is_displaced else cause


@dataclass(frozen=True)
class DerivedKind:
    """A kind of which all facts, or those with one cause, follow from others."""

    kind: type[Event]
    cause: str | Because | None = None

    @property
    def name(self) -> str:
        """The kind by its name, with the cause: `JobHeld array`."""
        cause = self.cause.rule if isinstance(self.cause, Because) else self.cause
        return self.kind.__name__ if cause is None else f"{self.kind.__name__} {cause}"

    def has(self, event: Event) -> bool:
        """Say whether a fact is one of these."""
        if type(event) is not self.kind:
            return False
        return self.cause is None or _cause_of(event, CLASSES[self.kind]) == self.cause


DERIVED: Final = tuple(
    DerivedKind(kind, cause)
    for kind, known in CLASSES.items()
    for cause in (None, *known.others)
    if (known.usual if cause is None else known.others[cause]) is FactClass.derived
)
"""All that follows from facts and the state: what `replay --verify` makes once more."""
