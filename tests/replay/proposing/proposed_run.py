"""A scripted live run in which callers propose gangs: granted, rejected, and rejected again.

Two servers of four GPUs, and a loop that is stepped by hand, a second apart.
"""

from dataclasses import replace

from shunter.core import AttemptExited, Input, ProposeGang, Scheduler, SubmitJob
from shunter.core.planning import PLACEMENTS, CanPropose
from shunter.events import Allocation, AttemptStarted, Event, JobId, SchedulerStarted
from shunter.policies.gavel import GavelPolicy, MaxMinFairness, Timing
from tests.factories import World, allocation, job_id, job_spec, policy, quota, scheme, servers
from tests.replay.eventful_run import RECORD, S
from tests.replay.recording import Recorded, rebuilt


class ProposedScript:
    """A live scheduler whose jobs callers propose, stepped by hand."""

    def __init__(
        self,
        *gpus: int,
        bound: int | None = None,
        name: str = "fifo",
        by: CanPropose | None = None,
    ) -> None:
        how = scheme(*(0,), built_in=False, retry_us=S, retry_most_us=8 * S, reserve_for_us=30 * S)
        self.world = World(
            servers=servers(*gpus or (4, 4)),
            queues=() if bound is None else (quota("a", bound),),
            is_live=True,
            decentralised=how,
        )
        self.policy = (policy(name) if by is None else by).with_scheme(how)
        self.core: Scheduler
        self.core, events = self.world.scheduler(self.policy, instant=False)
        self.events: list[Event] = [
            replace(event, config=RECORD) if isinstance(event, SchedulerStarted) else event
            for event in events
        ]
        self.now_us = 0

    def step(self, *inputs: Input, after_us: int = S) -> list[Event]:
        """Let things happen some time after the last step; return the facts."""
        self.now_us += after_us
        seen = [replace(one, at_us=self.now_us) for one in inputs]
        facts = self.core.step(self.now_us, seen)[0]
        self.events += facts
        return facts

    def idle(self, until_us: int) -> list[Event]:
        """Step at each deadline of the core up to an instant; return the facts."""
        facts: list[Event] = []
        while (due_us := self.core.deadline_us(self.now_us)) is not None and due_us <= until_us:
            facts += self.step(after_us=due_us - self.now_us)
        return facts

    def recorded(self) -> Recorded:
        """Return what was recorded up to now."""
        return Recorded(list(self.events), rebuilt(self.policy, self.core.rules))


def gavel() -> GavelPolicy:
    """Return `gavel` with turns of a minute."""
    return GavelPolicy(MaxMinFairness(), PLACEMENTS["consolidated"](), Timing(60 * S, 600 * S))


def under_gavel() -> ProposedScript:
    return ProposedScript(by=gavel())


def submit(name: int, gpus: int = 4, **fields: object) -> SubmitJob:
    """Return the submission of a job."""
    return SubmitJob(0, job_id(name), job_spec(gpus, **fields))


def propose(name: int, *candidates: Allocation, version: int = 1) -> ProposeGang:
    """Return a proposal of somebody's scheduler."""
    return ProposeGang(0, JobId(job_id(name)), version, candidates, "ana")


def proposed_run() -> Recorded:
    """Return a run with all that follows from proposals."""
    script = ProposedScript()
    script.step(submit(0), submit(1), submit(2, 2))
    script.step(propose(0, allocation(n0=0b1111)))
    script.step(AttemptStarted(0, job_id(0), 1))
    script.step(propose(1, allocation(n0=0b1111)))
    script.step(propose(1, allocation(n0=0b0011)))
    script.step(propose(2, allocation(n1=0b0011)))
    script.step(propose(1, allocation(n0=0b1111), allocation(n1=0b1111)))
    script.step(AttemptExited(0, job_id(0), 1, 0, released=True))
    script.step(propose(2, allocation(n0=0b0011)))
    script.idle(200 * S)
    for number in range(3, 7):
        script.step(submit(number))
    return script.recorded()
