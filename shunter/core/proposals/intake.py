"""What a caller's proposal becomes: a fact with its answer, or one more of a round's rejections."""

from typing import Protocol

from shunter.core.intake.inputs import ProposeGang
from shunter.core.planning.planner import RoundRules
from shunter.core.proposals.approval import Refused, looked_at
from shunter.core.reactor import Reactor
from shunter.core.state import State
from shunter.events.facts import Event, GangProposed
from shunter.events.values import CALLER


class Core(Protocol):
    """The part of a core that takes proposals in."""

    @property
    def state(self) -> State:
        """What is true now."""

    @property
    def rules(self) -> RoundRules:
        """How job schedulers propose."""

    @property
    def reactor(self) -> Reactor:
        """What follows from facts, and what is due."""

    def emit(self, event: Event) -> None:
        """Make a fact, and all that follows from it."""


def propose_gang(core: Core, order: ProposeGang) -> None:
    """Record a proposal, unless the job is rejected again in this round.

    One for a job that has ended meanwhile is none.
    """
    state, repeats = core.state, core.reactor.timers.repeats
    job = state.jobs.get(order.job_id)
    if job is None or not order.candidates:
        return
    version = min(order.version, state.seq)
    proposed = GangProposed(order.at_us, order.job_id, version, order.candidates, CALLER, order.by)
    if repeats.is_again(job.job_id, order.at_us):
        verdict = looked_at(proposed, state, core.rules)
        if isinstance(verdict, Refused):
            repeats.count(job, verdict, order.at_us)
            return
    core.emit(proposed)
