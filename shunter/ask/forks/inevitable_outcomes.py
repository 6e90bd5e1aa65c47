"""What a job was not spared: a long wait, a preemption, a missed deadline; in a log and in a fork.

    long wait    longer without GPUs, between its beginning and its end in the log, than is normal
    preemption   a policy takes its GPUs, or it has none at the end of the wait that followed
    deadline     it has not finished by then

Normal is as long as nine in ten of the other jobs of the same gang size waited for their first
GPUs, and never less than a minute, or the time between two rounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from shunter.ask.forks.remaining import ENOUGH
from shunter.ask.words import clock, span, span_up
from shunter.counting import counted
from shunter.errors import UsageError
from shunter.events import JOB_ENDS, Event, JobId, end_us_of, facts, is_preemption, outcome_of

NORMAL_US = 60_000_000
"""A wait of a minute is normal anywhere; ours."""


class Harm(StrEnum):
    """What a job could have been spared."""

    wait = "wait"
    preemption = "preemption"
    deadline = "deadline"


@dataclass(frozen=True)
class Normal:
    """How long so many jobs of a gang size wait; of all sizes without `gpus`.

    `bound_us` is what counts as normal. Nine in ten waited `most_us` at most; None: nobody else had
    begun, or who asks has said what is normal.
    """

    bound_us: int
    most_us: int | None = None
    jobs: int = 0
    gpus: int | None = None
    is_said: bool = False

    @property
    def words(self) -> str:
        """Where the bound comes from."""
        if self.is_said:
            return f"up to {span(self.bound_us)} was said to be normal"
        if self.most_us is None:
            return "no other job had begun"
        of = "" if self.gpus is None else f" of {counted(self.gpus, 'GPU')}"
        others = f"{counted(self.jobs, 'other job')}{of}"
        return f"nine in ten of {others} waited {span_up(self.most_us)} at most"


@dataclass(frozen=True)
class RecordedHarm:
    """What a log says happened to a job: from when to when, and what is normal.

    `at_us` is the instant of a preemption, or the deadline. Up to `last_us` placing the job first
    may help.
    """

    kind: Harm
    job_id: JobId
    since_us: int
    until_us: int
    last_us: int
    at_us: int
    bound_us: int
    words: str

    def is_spared(self, watch: "Watch") -> bool:
        """Say whether a job was spared it, watched up to `until_us`."""
        if self.kind is Harm.wait:
            return watch.without_us(self.since_us, self.until_us) <= self.bound_us
        if self.kind is Harm.deadline:
            return watch.outcome is facts.Outcome.finished and (watch.ended_us or 0) <= self.at_us
        return not watch.lost_us and (watch.has_gpus or watch.outcome is not None)

    def is_lost(self, watch: "Watch", now_us: int) -> bool:
        """Say whether a job cannot be spared it any more in a fork at an instant."""
        if self.kind is Harm.wait:
            return watch.without_us(self.since_us, now_us) > self.bound_us
        return self.kind is Harm.preemption and bool(watch.lost_us)

    def told(self, watch: "Watch") -> str:
        """Return what came of a job in a fork, in words."""
        if self.kind is Harm.wait:
            us = watch.without_us(self.since_us, self.until_us)
            if self.is_lost(watch, self.until_us):
                return f"it waits longer than {span(self.bound_us)}"
            return f"it waits {span(us)} in all" if us else "it does not wait"
        if self.kind is Harm.deadline:
            if watch.ended_us is None:
                return "it has not ended by then"
            return f"{_ends(watch)} at {clock(watch.ended_us)}"
        if watch.lost_us:
            return f"it is preempted at {clock(watch.lost_us[0])}"
        if watch.ended_us is not None:
            return f"{_ends(watch)} at {clock(watch.ended_us)}, never preempted"
        return f"it keeps its GPUs up to {clock(self.until_us)}" if watch.has_gpus else "it waits"


@dataclass
class Watch:
    """A log that keeps when one job had GPUs, when it lost them, and how it ended.

    `without` are the times without GPUs that are over. Times are in microseconds.
    """

    job_id: JobId
    seq: int = 0
    without: list[tuple[int, int]] = field(default_factory=list)
    without_since_us: int | None = None
    lost_us: list[int] = field(default_factory=list)
    has_gpus: bool = False
    outcome: facts.Outcome | None = None
    ended_us: int | None = None

    def begin(self, at_us: int, *, has_gpus: bool) -> None:
        """Begin with a job that is there already."""
        self.has_gpus = has_gpus
        self.without_since_us = None if has_gpus else at_us

    def append(self, events: Sequence[Event]) -> int:
        """Take in events, of any job."""
        for event in events:
            if getattr(event, "job_id", None) == self.job_id:
                self.take(event)
        self.seq += len(events)
        return self.seq

    async def commit(self) -> None:
        """Keep nothing else."""

    def take(self, event: Event) -> None:
        """Take in an event of the job."""
        if isinstance(event, facts.JobSubmitted):
            self.without_since_us = event.at_us
        elif isinstance(event, facts.AllocationChanged):
            if bool(event.allocation.shares) != self.has_gpus:
                self._changed(event.at_us)
                if is_preemption(event):
                    self.lost_us.append(event.at_us)
                elif self.has_gpus and self.lost_us[-1:] == [event.at_us]:
                    self.lost_us.pop()  # it was moved
        elif isinstance(event, JOB_ENDS):
            if self.without_since_us is not None:
                self.without.append((self.without_since_us, event.at_us))
            self.without_since_us, self.has_gpus = None, False
            self.outcome, self.ended_us = outcome_of(event), end_us_of(event)

    def without_us(self, since_us: int, until_us: int) -> int:
        """Return how long the job had no GPUs between two instants."""
        parts = self.without
        if self.without_since_us is not None:
            parts = [*parts, (self.without_since_us, until_us)]
        return sum(
            max(0, min(to_us, until_us) - max(from_us, since_us)) for from_us, to_us in parts
        )

    def has_gpus_at(self, at_us: int) -> bool:
        """Say whether the job had GPUs right after an instant, once all that was watched."""
        if self.ended_us is not None and self.ended_us <= at_us:
            return False
        open_us = self.without_since_us
        return (open_us is None or at_us < open_us) and not any(
            from_us <= at_us < to_us for from_us, to_us in self.without
        )

    def _changed(self, at_us: int) -> None:
        """Note that the job got GPUs or lost them."""
        self.has_gpus = not self.has_gpus
        if self.has_gpus and self.without_since_us is not None:
            self.without.append((self.without_since_us, at_us))
        self.without_since_us = None if self.has_gpus else at_us


def _ends(watch: Watch) -> str:
    is_done = watch.outcome is facts.Outcome.finished
    return "it finishes" if is_done else f"it ends ({watch.outcome})"


def normal_wait(
    events: Iterable[Event], job_id: JobId, gpus: int, round_us: int, upto_us: int
) -> Normal:
    """Return how long jobs normally wait for their first GPUs.

    Args:
        events: submissions and allocations of all jobs, in order.
        job_id: the job that does not count.
        gpus: its gang size.
        round_us: the time between two rounds, in microseconds; 0: there are none.
        upto_us: later ones do not count.
    """
    submitted: dict[JobId, facts.JobSubmitted] = {}
    found: dict[int | None, list[int]] = {}
    for event in events:
        if event.at_us > upto_us:
            break
        if isinstance(event, facts.JobSubmitted):
            submitted[event.job_id] = event
        elif isinstance(event, facts.AllocationChanged) and event.allocation.shares:
            first = submitted.pop(event.job_id, None)
            if first is not None and event.job_id != job_id:
                for size in (first.spec.gpus, None):
                    found.setdefault(size, []).append(event.at_us - first.at_us)
    size = gpus if len(found.get(gpus, ())) >= ENOUGH else None
    waits = found.get(size, [])
    least_us = max(NORMAL_US, round_us)
    if not waits:
        return Normal(least_us)
    most_us = sorted(waits)[-(-9 * len(waits) // 10) - 1]
    return Normal(max(most_us, least_us), most_us, len(waits), size)


def happened_to(
    own: Sequence[Event],
    upto_us: int,
    normal: Normal,
    deadline_us: int | None,
    kind: Harm | None = None,
) -> RecordedHarm:
    """Return what a job was not spared: what is asked for, or what is worst.

    Args:
        own: the job's events up to the moment, its submission first.
        upto_us: the moment.
        normal: how long jobs normally wait.
        deadline_us: the instant by which the job was to have finished, if any.
        kind: what is asked for; None: a missed deadline, a long wait, or a preemption.
    Raises:
        UsageError: nothing of that happened.
    """
    submitted = own[0]
    assert isinstance(submitted, facts.JobSubmitted), "a job's events begin with its submission"
    watch = Watch(submitted.job_id)
    watch.append(own)
    found = {
        Harm.deadline: _missed(watch, submitted, upto_us, deadline_us),
        Harm.wait: _waited(watch, upto_us, normal),
        Harm.preemption: _preempted(watch, submitted, upto_us),
    }
    if kind is None:
        first = next((each for each in found.values() if each is not None), None)
    else:
        first = found[kind]
    if first is None:
        raise UsageError(_nothing(watch, upto_us, normal, deadline_us, kind))
    return first


def _missed(
    watch: Watch, submitted: facts.JobSubmitted, upto_us: int, deadline_us: int | None
) -> RecordedHarm | None:
    if deadline_us is None or deadline_us > upto_us:
        return None
    if watch.ended_us is not None and watch.ended_us <= deadline_us:
        return None
    ended = "has not ended" if watch.ended_us is None else f"ended at {clock(watch.ended_us)}"
    words = f"its missed deadline, {clock(deadline_us)}: it {ended}"
    since_us, last_us = submitted.at_us, deadline_us - 1
    return RecordedHarm(
        Harm.deadline, watch.job_id, since_us, deadline_us, last_us, deadline_us, 0, words
    )


def _waited(watch: Watch, upto_us: int, normal: Normal) -> RecordedHarm | None:
    """Return the longest wait, the first of those, if it is not normal."""
    waits = _waits(watch, upto_us)
    since_us, until_us = max(waits, key=lambda each: (each[1] - each[0], -each[0]), default=(0, 0))
    if until_us - since_us <= normal.bound_us:
        return None
    words = (
        f"its wait of {span(until_us - since_us)}, {clock(since_us)} to {clock(until_us)}; "
        f"{normal.words}"
    )
    bound_us = normal.bound_us
    return RecordedHarm(
        Harm.wait, watch.job_id, since_us, until_us, until_us - 1, since_us, bound_us, words
    )


def _preempted(watch: Watch, submitted: facts.JobSubmitted, upto_us: int) -> RecordedHarm | None:
    """Return the last preemption, from the one before to when it had GPUs again."""
    if not watch.lost_us:
        return None
    at_us = watch.lost_us[-1]
    since_us = watch.lost_us[-2] + 1 if len(watch.lost_us) > 1 else submitted.at_us
    until_us = next((to_us for from_us, to_us in watch.without if from_us == at_us), upto_us)
    words = f"its preemption at {clock(at_us)}, until it had GPUs again at {clock(until_us)}"
    if watch.without_since_us == at_us:
        words = f"its preemption at {clock(at_us)}, up to {clock(until_us)}"
    return RecordedHarm(Harm.preemption, watch.job_id, since_us, until_us, at_us, at_us, 0, words)


def _waits(watch: Watch, upto_us: int) -> Sequence[tuple[int, int]]:
    if watch.without_since_us is None or watch.outcome is not None:
        return watch.without
    return [*watch.without, (watch.without_since_us, upto_us)]


_NONE: Mapping[Harm, str] = {
    Harm.preemption: "no policy took its GPUs by then",
    Harm.deadline: "it missed no deadline by then",
}


def _nothing(
    watch: Watch, upto_us: int, normal: Normal, deadline_us: int | None, kind: Harm | None
) -> str:
    """Return that there is nothing to be spared, and why."""
    longest_us = max((to_us - from_us for from_us, to_us in _waits(watch, upto_us)), default=0)
    if longest_us:
        waited = f"its longest wait of {span(longest_us)} is normal: {normal.words}"
        if not normal.is_said and (normal.most_us or 0) < normal.bound_us:
            waited += f", and up to {span(normal.bound_us)} is normal anywhere"
    else:
        waited = "it never waited"
    if kind is Harm.deadline and deadline_us is None:
        what = "it has no deadline"
    elif kind is Harm.wait or kind is None:
        what = waited if kind is Harm.wait else f"{waited}; no policy took its GPUs"
    else:
        what = _NONE[kind]
    hint = "name another moment with --at"
    return f"nothing about {watch.job_id} at {clock(upto_us)} was to be avoided: {what}; {hint}"
