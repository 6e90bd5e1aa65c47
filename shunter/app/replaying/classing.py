"""Under which demand a job waits: its own, or the tight one of a placement that tells gangs apart.

Which of the two it is depends on the configuration that decided and on what samples had measured by
then, so neither the job nor the state knows it.
"""

from collections.abc import Iterable
from dataclasses import replace

from shunter.app.replaying.terms import Rebuild, after_change
from shunter.core.placement import Classing, Messages
from shunter.core.ranking import RankedPolicy
from shunter.core.state import State
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.log import LogReader
from shunter.events.values.job_spec import Demand, JobSpec

Began = SchedulerStarted | ConfigChanged

TERMS = frozenset((SchedulerStarted.__name__, ConfigChanged.__name__))
"""The kinds of events that say who decides from there on."""


def last_start(terms: Iterable[Began]) -> SchedulerStarted | None:
    """Return what started the policy that decides after these, if anything did."""
    started: SchedulerStarted | None = None
    for event in terms:
        if isinstance(event, SchedulerStarted):
            started = event
        elif started is not None:
            started = after_change(started, event)
    return started


def classing_of(started: SchedulerStarted | None, rebuild: Rebuild) -> Classing | None:
    """Return what told gangs apart in a term; None: nothing did, or nobody can say."""
    if started is None:
        return None
    try:
        policy, _ = rebuild(started)
    except (ConfigError, NotFoundError, UsageError):
        return None
    return policy.placement.classing if isinstance(policy, RankedPolicy) else None


async def classing_at(reader: LogReader, state: State, rebuild: Rebuild) -> Classing | None:
    """Return what tells gangs apart at a point of a log.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    if not any(demand.tight for demand in state.class_waits):
        return None
    found = await reader.events_of(TERMS, state.seq)
    terms = [event for _, event in found if isinstance(event, SchedulerStarted | ConfigChanged)]
    return classing_of(last_start(terms), rebuild)


def classed(demand: Demand, spec: JobSpec, classing: Classing | None, messages: Messages) -> Demand:
    """Return the demand of the class in which a job waits."""
    if classing is None or not classing.is_tight(spec, messages):
        return demand
    return replace(demand, tight=True)
