"""What the scores of decisions count, and how that is said."""

from collections.abc import Iterable, Mapping, Sequence

from shunter.ask.recorded_terms import Began, Rebuild, last_start, terms_up_to
from shunter.ask.words import SECOND_US, clock, span, tells_itself
from shunter.core import State
from shunter.core.ranking import Measure, Measured
from shunter.counting import counted
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import AllocationChanged, Because, Event, JobId
from shunter.events.log import LogReader

# Numbers have words in two tenses: where a job is, and where it was when something was decided.

_HOUR_US = 3600 * SECOND_US
NS = 1_000  # in a microsecond
_UNKNOWN_US = 1 << 59
"""From here on a time means that nobody knows it: a policy ranks such a job last."""

_OF_GROUPS = {
    Measure.user_gpus: "user",
    Measure.queue_gpus: "queue",
    Measure.group_gpus: "group",
}
"""Whose GPUs a measure counts."""

_ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
]


def measures_of(policy: object) -> tuple[Measure, ...]:
    """Return what the scores of a policy count; nothing where it does not say."""
    from shunter.core.ranking import RankedPolicy  # here a policy has been built

    counted_by = policy.index if isinstance(policy, RankedPolicy) else policy
    return counted_by.measures if isinstance(counted_by, Measured) else ()


def decision_score(
    because: Because, measures: Sequence[Measure], used_gpu_us: int | None = None
) -> str:
    """Return what the scores of a decision say, as a clause; empty: unknown.

    Args:
        because: the reason of the decision.
        measures: what the policy counts by.
        used_gpu_us: what the job had used by then, in GPU-microseconds; None: not known.
    """
    if tells_itself(because):
        return ""
    return score_in_words(measures, because.scores, used_gpu_us, past=True)


def score_in_words(
    measures: Sequence[Measure],
    numbers: Sequence[int | float],
    used_gpu_us: int | None = None,
    *,
    past: bool = False,
) -> str:
    """Return what the numbers of a rank say of a job, as a clause without a subject.

    Args:
        measures: what the numbers count.
        numbers: the score, most important first.
        used_gpu_us: what the job had used by then, in GPU-microseconds; None: not known.
        past: whether the clause is about a moment that is over.
    """
    if not measures or not numbers:
        return ""
    numbered = dict(zip(measures, numbers, strict=False))
    clauses = [
        words
        for measure, number in numbered.items()
        if (words := _clause(measure, number, numbered, used_gpu_us, past=past))
    ]
    return ", ".join(clauses)


def gpu_time_in_words(gpu_us: int) -> str:
    """Return GPU time in GPU-hours, or in GPU-seconds where it is less than one hour.

    It is rounded to the nearest of what is told: hundredths, or whole ones from 100 on.
    """
    unit_us, noun = _unit(gpu_us)
    step_us = unit_us if gpu_us >= 100 * unit_us else unit_us // 100
    half_us = step_us // 2 if gpu_us >= unit_us else 0  # less than one is told as it is
    return _gpu_time(gpu_us + half_us, unit_us, noun)


def used_in_words(gpu_us: int) -> str:
    """Return GPU time that a job has used, as `gpu_time_in_words`, but rounded down.

    What is just below a threshold must not look as if it had reached it.
    """
    return _gpu_time(gpu_us, *_unit(gpu_us))


def ordinal_in_words(number: int) -> str:
    """Return the place of the one with a number, counted from 0: first, second, 11th."""
    if 0 <= number < len(_ORDINALS):
        return _ORDINALS[number]
    place = number + 1
    last = place % 10 if place % 100 not in (11, 12, 13) else 0
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def _unit(gpu_us: int) -> tuple[int, str]:
    return (_HOUR_US, "GPU-hour") if gpu_us >= _HOUR_US else (SECOND_US, "GPU-second")


def _gpu_time(gpu_us: int, unit_us: int, noun: str) -> str:
    number = _rounded_down(gpu_us, unit_us)
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def _rounded_down(amount_us: int, unit_us: int) -> str:
    if amount_us >= 100 * unit_us:
        return f"{amount_us // unit_us:,}"
    if amount_us < unit_us:
        return f"{amount_us / unit_us:.6f}".rstrip("0").rstrip(".")
    return f"{amount_us * 100 // unit_us / 100:g}"


def _clause(
    measure: Measure,
    counted_as: float,
    numbered: dict[Measure, int | float],
    used_gpu_us: int | None,
    *,
    past: bool,
) -> str:
    if measure is Measure.load:
        return f"made the load of its server {counted_as:.3g} (GPUs asked for over those there)"
    number = int(counted_as)
    has, is_ = ("had", "was") if past else ("has", "is")
    needs, asks = ("needed", "asked for") if past else ("needs", "asks for")
    if measure is Measure.queue:
        return _queue(number, numbered, used_gpu_us, has, is_)
    if measure is Measure.entered_us:
        return ""  # told with the queue
    if measure is Measure.submission:
        return f"{is_} ordered by submission alone"
    if measure is Measure.level:
        levels = "1 level" if number == 1 else f"{number} levels"
        return f"{has} risen {levels} by waiting" if number else ""
    if measure is Measure.gpus:
        return f"{asks} {counted(number, 'GPU')}"
    if measure is Measure.dominant_share:
        from shunter.core.sizing import WHOLE

        percent = 100 * number / WHOLE
        return f"{asks} up to {percent:.3g} % of the cluster's GPUs, CPUs or memory"
    if measure in _OF_GROUPS:
        gpus = counted(number, "GPU") if number else "no GPU"
        return f"{is_} of a {_OF_GROUPS[measure]} with {gpus} besides those that the plan divided"
    if measure is Measure.gittins:
        return f"{has} a Gittins index of {number}"
    if measure is Measure.rho_step:
        if number == 0:
            return f"{is_} ranked last, because nobody knows how long it runs"
        ratio = int((17 / 16) ** (-number - 1) * 100) / 100
        return f"{has} a finish-time ratio of at least {ratio:g}"
    if measure is Measure.attained_gpu_us:
        return f"{has} used {used_in_words(number)}"
    if abs(number) >= _UNKNOWN_US:
        return f"{is_} ranked last, because nobody knows how long it runs"
    if measure is Measure.duration_us:
        return f"{needs} {span(number)} at base speed in all"
    if measure is Measure.remaining_us:
        return f"{needs} {span(max(0, number))} more at base speed"
    if measure is Measure.cluster_ns:
        whole = "the cluster's GPUs, CPUs and memory, added up"
        return f"{needs} {span(number // NS)} more of {whole}"
    expected = "is expected to need" if not past else "was expected to need"
    if measure is Measure.expected_gpu_us:
        return f"{expected} {gpu_time_in_words(max(0, number))} more"
    return f"{needs} {gpu_time_in_words(max(0, number))} more at base speed"


def _queue(
    number: int,
    numbered: dict[Measure, int | float],
    used_gpu_us: int | None,
    has: str,
    is_: str,
) -> str:
    """Return which queue a job is in, and what put it there.

    Where a promotion can put a job back, its use alone does not say why it is there.
    """
    queue = f"in the {ordinal_in_words(number)} queue"
    entered = numbered.get(Measure.entered_us)
    if entered is not None:
        since = f"{is_} {queue} since {clock(int(entered))}"
        used = "" if used_gpu_us is None else f" and {has} used {used_in_words(used_gpu_us)}"
        return since + used
    if used_gpu_us is None:
        return f"{is_} {queue}"
    return f"{has} used {used_in_words(used_gpu_us)}, so it {is_} {queue}"


Measures = Mapping[int, tuple[Measure, ...]]
"""What scores count, by the event that began a term."""


def measures_of_terms(terms: Sequence[tuple[int, Began]], rebuild: Rebuild) -> Measures:
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
    return measures_of_terms(await terms_up_to(reader, to), rebuild)


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
