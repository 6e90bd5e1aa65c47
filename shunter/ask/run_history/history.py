"""What a run did to its jobs, gathered from its log as `shunter simulate` gathers it live.

    log ─▶ fold ─▶ ledger: a story for each job ─▶ numbers of the run

The ledger is that of a simulation, so that the numbers of a log and those that its simulation
printed are the same ones.
"""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from shunter.ask.replaying.folding import Advance, Listener, fold_telling
from shunter.core.interfaces import Observers
from shunter.core.metrics import JobLedger, JobResult
from shunter.core.state import FoldResult, State
from shunter.core.view import Guards, View
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId
from shunter.run.summary import JobNumbers, job_numbers, stories


@dataclass(frozen=True)
class RunHistory:
    """A run as its log tells it, up to its last event.

    `results` are the stories of all jobs in the order of submission, `alone_us` how long each of
    them runs alone (0: the log does not say), `names` their names, and `first_places` where the
    first attempt of each began. `terms` are the events that said who decides.
    """

    url: str
    events: int
    digest: str
    terms: Sequence[SchedulerStarted | ConfigChanged]
    state: State
    results: Sequence[JobResult]
    alone_us: Sequence[int]
    names: Sequence[str]
    first_places: dict[JobId, Allocation]
    numbers: JobNumbers
    makespan_s: float
    gpu_utilisation: float | None

    @property
    def policy(self) -> str:
        """The policy that decided last."""
        return self.state.policy

    @property
    def is_simulated(self) -> bool:
        """Whether a simulation wrote the log."""
        first = self.terms[0] if self.terms else None
        return isinstance(first, SchedulerStarted) and first.simulated

    @property
    def config(self) -> dict[str, object]:
        """The configuration that decided last; empty where the log does not say it."""
        try:
            found = json.loads(self.terms[-1].config) if self.terms else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def evidence(self) -> str:
        """What the numbers rest on: `simulated` or `live`."""
        return "simulated" if self.is_simulated else "live"

    def document(self) -> dict[str, object]:
        """Return the run in numbers, under the names of docs/reference/results.md."""
        numbers = self.numbers
        return {
            "log": {"url": self.url, "events": self.events, "digest": self.digest},
            "evidence": self.evidence,
            "policy": self.policy,
            "seed": self.seed,
            "jobs": numbers.counts,
            "jct_s": numbers.times["jct_s"],
            "wait_s": numbers.times["wait_s"],
            "makespan_s": self.makespan_s,
            "gpu_utilisation": self.gpu_utilisation,
            "preemptions": numbers.preemptions,
            "migrations": numbers.migrations,
            "finish_time_fairness": numbers.fairness,
            "by_size": numbers.sizes,
        }

    @property
    def seed(self) -> int | None:
        """The seed of the last term; None: the log has none."""
        seeds = [each.seed for each in self.terms if isinstance(each, SchedulerStarted)]
        return seeds[-1] if seeds else None


async def run_history(
    reader: LogReader,
    listeners: Sequence[Listener] = (),
    advance: Advance | None = None,
    to: int | None = None,
) -> RunHistory:
    """Fold a log and gather the stories of its jobs.

    Args:
        reader: the log.
        listeners: who else is told of its events.
        advance: told how many events are done, and of how many.
        to: the last event; None: that of the log.
    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    head = await reader.head()
    last, gathered = head.seq if to is None else to, _Gathered()
    state = await fold_telling(reader, (gathered, *listeners), last, advance)
    ledger = gathered.ledger
    results = sorted(stories(ledger, state), key=lambda result: result.ordinal)
    return RunHistory(
        url=reader.url,
        events=state.seq,
        digest=head.chain.hex(),
        terms=gathered.terms,
        state=state,
        results=results,
        alone_us=gathered.alone_us,
        names=gathered.names,
        first_places=gathered.first_places,
        numbers=job_numbers(results, gathered.alone_us),
        makespan_s=ledger.last_end_us / 1e6,
        gpu_utilisation=ledger.utilisation(state),
    )


class _Gathered:
    """Tells a ledger of events, as the scheduler would have."""

    def __init__(self) -> None:
        self.ledger = JobLedger()
        self.terms: list[SchedulerStarted | ConfigChanged] = []
        self.alone_us: array[int] = array("q")
        self.names: list[str] = []
        self.first_places: dict[JobId, Allocation] = {}
        self._observers: Observers = self.ledger.observers()
        self._view: View | None = None

    def passes(self, state: State, until_us: int) -> None:
        """Nothing is counted by time here."""

    def tell(self, event: Event, state: State, result: FoldResult) -> None:
        """Tell the ledger, and note what it does not keep."""
        kind = type(event)
        if isinstance(event, JobSubmitted):
            self.alone_us.append(event.duration_us or 0)
            self.names.append(event.spec.name)
        elif kind is SchedulerStarted or kind is ConfigChanged:
            self.terms.append(event)  # type: ignore[arg-type]  # it is one of the two
        for job in result.launched:
            if job.attempt == 1:
                self.first_places[job.job_id] = job.held
        told = self._observers.get(kind)
        if told is not None:
            view = self._view
            if view is None:
                view = View(state, Guards(), oracle=False, all_reasons=False)
                view.open()
                self._view = view
            view.now_us, view.result = event.at_us, result
            told(event, view)
