"""What the scores of a log count, term by term, so that decisions are told in the same words."""

from collections.abc import Iterable, Mapping, Sequence

from shunter.ask.replaying.consolidated_gangs import TERMS, last_start
from shunter.ask.replaying.recorded_terms import Rebuild
from shunter.ask.replaying.scores.words import decision_score, measures_of
from shunter.core.ranking import Measure
from shunter.core.state import State
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId

Measures = Mapping[int, tuple[Measure, ...]]
"""What scores count, by the event that began a term."""


def measures_of_terms(
    terms: Sequence[tuple[int, SchedulerStarted | ConfigChanged]], rebuild: Rebuild
) -> Measures:
    """Return what scores count in each term; nothing: its policy is not there."""
    found: dict[int, tuple[Measure, ...]] = {}
    known: dict[tuple[str, str], tuple[Measure, ...]] = {}
    for number, (seq, event) in enumerate(terms, 1):
        key = (event.policy, event.config)
        if key not in known:
            started = last_start(each for _, each in terms[:number])
            try:
                known[key] = () if started is None else measures_of(rebuild(started)[0])
            except (ConfigError, NotFoundError, UsageError):
                known[key] = ()
        found[seq] = known[key]
    return found


async def measures_in(reader: LogReader, to: int, rebuild: Rebuild) -> Measures:
    """Return what the scores of a log count up to an event, in each of its terms."""
    found = await reader.events_of(TERMS, to)
    terms = [(n, each) for n, each in found if isinstance(each, SchedulerStarted | ConfigChanged)]
    return measures_of_terms(terms, rebuild)


def measures_at(measures: Measures, seq: int) -> tuple[Measure, ...]:
    """Return what the scores count that were recorded with an event."""
    began = max((term for term in measures if term <= seq), default=None)
    return () if began is None else measures[began]


def used_by_jobs(state: State, at_us: int, jobs: Iterable[JobId]) -> dict[JobId, int]:
    """Return what jobs had used of GPUs by an instant, in GPU-microseconds."""
    return {name: state.jobs[name].service_us(at_us) for name in jobs if name in state.jobs}


def score_of(event: Event | None, measures: Sequence[Measure], used: Mapping[JobId, int]) -> str:
    """Return what the scores of a decision say; empty: unknown."""
    if not isinstance(event, AllocationChanged):
        return ""
    return decision_score(event.because, measures, used.get(event.job_id))
