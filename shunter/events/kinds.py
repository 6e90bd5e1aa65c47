"""The closed list of event kinds: the union type, and each class by its name on disk."""

from typing import TypeAlias

from shunter.events.facts.cluster import ClusterEvent
from shunter.events.facts.decisions import DecisionEvent
from shunter.events.facts.execution import ExecutionEvent
from shunter.events.facts.jobs import JobEvent
from shunter.events.facts.profiles import ProfileEvent
from shunter.events.facts.run import RunEvent
from shunter.events.facts.tolerance import ToleranceEvent

Event: TypeAlias = (
    RunEvent
    | ClusterEvent
    | JobEvent
    | DecisionEvent
    | ExecutionEvent
    | ProfileEvent
    | ToleranceEvent
)

KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}
