"""The terms of a log: who decided from which event on, as the log records it.

Nothing here builds a policy but `classing_of`; most questions about jobs that have ended need none.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import ConfigChanged, SchedulerStarted

if TYPE_CHECKING:
    from shunter.core import AnyPolicy
    from shunter.core.planning import Classing, RoundRules
    from shunter.events.log import LogReader


Rebuild: TypeAlias = "Callable[[SchedulerStarted], tuple[AnyPolicy, RoundRules]]"

Began = SchedulerStarted | ConfigChanged

TERMS = frozenset((SchedulerStarted.__name__, ConfigChanged.__name__))
"""The kinds of events that say who decides from there on."""


def after_change(started: SchedulerStarted, changed: ConfigChanged) -> SchedulerStarted:
    """Return what would have started the term with the configuration it changed to."""
    return replace(
        started,
        at_us=changed.at_us,
        config=changed.config,
        policy=changed.policy,
        policy_version=changed.policy_version,
    )


def config_of(term: Began | None) -> Mapping[str, Any]:
    """Return the recorded configuration of a term; empty: the log has none."""
    try:
        config = {} if term is None else json.loads(term.config)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def origin_of(started: SchedulerStarted | None) -> str | None:
    """Return the date of time zero in ISO 8601 where the log names one."""
    origin = config_of(started).get("origin")
    return origin if isinstance(origin, str) else None


async def terms_up_to(reader: "LogReader", seq: int) -> list[tuple[int, Began]]:
    """Return the events that said who decides, up to an event, with their numbers."""
    found = await reader.events_of(TERMS, seq)
    return [(number, event) for number, event in found if isinstance(event, Began)]


def last_start(terms: Iterable[Began]) -> SchedulerStarted | None:
    """Return what started the policy that decides after these, if anything did."""
    started: SchedulerStarted | None = None
    for event in terms:
        if isinstance(event, SchedulerStarted):
            started = event
        elif started is not None:
            started = after_change(started, event)
    return started


# Which gangs had to be on the fewest servers. Where rounds do not record it (`consolidated`,
# `spread`), it follows from the configuration and from what samples had measured by then.


def classing_of(started: SchedulerStarted | None, rebuild: Rebuild) -> "Classing | None":
    """Return what told gangs apart in a term; None: nothing did, or nobody can say."""
    if started is None:
        return None
    # No other placement does, and building a policy takes longer than all else that is asked.
    section = config_of(started).get("policy")
    if isinstance(section, Mapping) and section.get("placement") != "skew":
        return None
    try:
        policy, _ = rebuild(started)
    except (ConfigError, NotFoundError, UsageError):
        return None
    from shunter.core.ranking import RankedPolicy  # here a policy has been built

    return policy.placement.classing if isinstance(policy, RankedPolicy) else None
