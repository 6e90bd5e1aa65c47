"""A term of a log, staged again: its policy gets all that happened, on the state of then."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shunter.ask.recorded_terms import Rebuild, classing_of, last_start, terms_up_to
from shunter.core import AnyPolicy, FoldResult, State, merged, policy_observers
from shunter.core.fold import SET_ASIDE
from shunter.core.planning import TARGET, Barrier, Planner
from shunter.core.ranking import RankedPolicy, Remembering
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import Demand, Event, JobId, SchedulerStarted, decode_record

if TYPE_CHECKING:
    from shunter.events.log import LogReader


class Term:
    """One policy at work from `started` on; its view stays open.

    `aside` says that it was set aside before it had begun, so that it is not even begun here.
    """

    def __init__(
        self, started: SchedulerStarted, rebuild: Rebuild, state: State, aside: str = ""
    ) -> None:
        policy, rules = rebuild(started)
        refuse_other_version(started, policy)
        self.started = started
        self.policy = policy
        self.rules = rules
        self.view = rules.view(state, oracle=policy.oracle)
        self.view.open()
        self.view.now_us = state.now_us
        self.asked = Barrier(policy, rules.on_fault)
        self.asked.aside = aside
        self.memory = self.asked.start(self.view)
        self.planner = Planner(self.asked, self.memory, state, self.view, rules)
        self.observers = merged([policy_observers(self.asked, self.memory)])

    def restore(self, memory: bytes) -> None:
        """Go on with the memory of a snapshot of the state that this term is on."""
        self.memory = self.planner.memory = decode_record(type(self.memory), memory)
        self.observers = merged([policy_observers(self.asked, self.memory)])

    def mend(self, at_us: int, fault: str = "") -> None:
        """Do before a round what the scheduler did: begin anew if memory was lost.

        Args:
            at_us: the instant of the round.
            fault: what was recorded of it; that of a solver is not found again, but taken as is.
        """
        if self.asked.is_lost:
            self.view.now_us = at_us
            self.memory = self.planner.memory = self.asked.start(self.view)
            self.observers = merged([policy_observers(self.asked, self.memory)])
        if fault.startswith(TARGET):
            self.asked.fault = self.asked.fault or fault

    def stand_before(self, at_us: int) -> None:
        """Bring the policy to where it was right before a round at an instant."""
        self.mend(at_us)
        self.view.now_us = at_us
        self.asked.advance(self.memory, self.view)

    def tell(self, event: Event, result: FoldResult) -> None:
        """Tell the policy of an event that has just been folded, and what came of it."""
        self.view.now_us, self.view.result = event.at_us, result
        for tell in self.observers.get(type(event), ()):
            tell(event, self.view)


def refuse_other_version(started: SchedulerStarted, policy: AnyPolicy) -> None:
    """Raise UsageError where the installed policy has other rules."""
    if policy.version != started.policy_version:
        raise UsageError(
            f"the log was decided by policy {started.policy} version {started.policy_version}, "
            f"and version {policy.version} is installed: its decisions cannot be compared; "
            f"install a Shunter like {started.version}"
        )


REMEMBERS = "decides by what it remembers of the rounds before"
"""Why a policy is not asked: what its memory holds does not follow from the state."""


def term_on(
    started: SchedulerStarted | None, state: State, rebuild: Rebuild
) -> tuple[Term | None, str]:
    """Return the policy at work on a state; or None, and why it cannot be asked."""
    if started is None:
        return None, "the log does not say which policy decided"
    if state.policy_fault.startswith(SET_ASIDE):
        return None, f"the policy is {state.policy_fault}"
    try:
        term = Term(started, rebuild, state)
    except (ConfigError, NotFoundError, UsageError) as error:
        return None, str(error)
    return (None, REMEMBERS) if getattr(term.policy, "remembers", False) else (term, "")


def takes_notes(policy: AnyPolicy) -> bool:
    """Say whether a policy must have been told of its whole term to rank as it did."""
    is_index = isinstance(policy, RankedPolicy) and isinstance(policy.index, Remembering)
    return is_index or bool(getattr(policy, "takes_notes", False))


async def classes_at(reader: "LogReader", state: State, rebuild: Rebuild) -> Mapping[JobId, Demand]:
    """Return the tight classes of jobs of which the log does not say it.

    Empty if each tight class that waits has a job in it: then the log says it.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    recorded = {job.waits_as for job in state.jobs.values() if job.must_consolidate}
    if not any(demand.tight and demand not in recorded for demand in state.class_waits):
        return {}
    terms = await terms_up_to(reader, state.seq)
    classing = classing_of(last_start(event for _, event in terms), rebuild)
    if classing is None:
        return {}
    return {
        job.job_id: replace(job.demand, tight=True)
        for job in state.jobs.values()
        if classing.is_tight(job.spec, state.messages)
    }
