"""Which gangs had to be on the fewest servers, in logs that do not record it.

Rounds record it of jobs that wait (`consolidated`, `spread`). Where they did not yet, it follows
from the configuration that decided and from what samples had measured by then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shunter.ask.replaying.recorded_terms import Rebuild, after_change
from shunter.core.planning.placement import Classing
from shunter.core.ranking import RankedPolicy
from shunter.core.state import State
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand

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


async def classes_at(reader: LogReader, state: State, rebuild: Rebuild) -> Mapping[JobId, Demand]:
    """Return the tight classes of jobs of which the log does not say it.

    Empty if each tight class that waits has a job in it: then the log says it.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    recorded = {job.waits_as for job in state.jobs.values() if job.must_consolidate}
    if not any(demand.tight and demand not in recorded for demand in state.class_waits):
        return {}
    found = await reader.events_of(TERMS, state.seq)
    terms = [event for _, event in found if isinstance(event, SchedulerStarted | ConfigChanged)]
    classing = classing_of(last_start(terms), rebuild)
    if classing is None:
        return {}
    return {
        job.job_id: replace(job.demand, tight=True)
        for job in state.jobs.values()
        if classing.is_tight(job.spec, state.messages)
    }
