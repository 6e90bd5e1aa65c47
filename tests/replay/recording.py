"""Small runs and their logs: recorded as a simulation records them, read back as a command does."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from shunter.ask import Rebuild, Verifier
from shunter.ask.why import Explanation, explain
from shunter.core import Command, Policy
from shunter.core.planning import RoundRules
from shunter.events import Event, JobId, SchedulerStarted, encode_record
from shunter.events.log import LogReader, open_log, read_log
from tests.commanded import Commanded
from tests.factories import Outcome, World, las_policy, policy, run


@dataclass(frozen=True)
class Recorded:
    """The events of a run, and what rebuilds its policy and rules."""

    events: Sequence[Event]
    rebuild: Rebuild

    def changed(self, seq: int, *instead: Event) -> "Recorded":
        """Return the run with other events in the place of one."""
        return replace(self, events=[*self.events[: seq - 1], *instead, *self.events[seq:]])

    def seqs(self, *kinds: type[Event]) -> list[int]:
        """Return the numbers of the events of some kinds."""
        return [seq for seq, event in enumerate(self.events, 1) if isinstance(event, kinds)]

    def at(self, seq: int) -> Any:
        """Return the event with a number."""
        return self.events[seq - 1]


def record(world: World, by: str | Policy[Any] = "fifo", *commands: Command) -> Recorded:
    """Run a world under a policy, with people in it, as a log would hold it."""
    chosen: Policy[Any] = named(by) if isinstance(by, str) else by
    outcome = run(world, chosen, wrapped=lambda backend: Commanded(backend, commands))
    rules = world.rules(instant=world.backend().instant)
    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in outcome.events
    ]
    return Recorded(events, rebuilt(chosen, rules))


def named(name: str) -> Policy[Any]:
    """Return a policy by its name, `las` with thresholds of microseconds."""
    return las_policy() if name == "las" else policy(name)


def rebuilt(chosen: Policy[Any], rules: RoundRules) -> Rebuild:
    """Return what rebuilds this policy with these rules, whatever started it."""

    def rebuild(started: SchedulerStarted) -> tuple[Policy[Any], RoundRules]:
        return chosen, rules

    return rebuild


def decided_again(outcome: Outcome, by: Policy[Any], world: World) -> None:
    """Assert that a run is decided again alike, and leads to the same state and memory."""
    verifier = Verifier(rebuilt(by, world.rules(instant=world.backend().instant)))
    start, *events = outcome.events
    assert isinstance(start, SchedulerStarted)
    divergence = verifier.take([replace(start, simulated=True), *events])
    assert divergence is None, "\n".join(divergence.lines())
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)
    assert encode_record(verifier.state) == encode_record(outcome.core.state)


@asynccontextmanager
async def reading(events: Sequence[Event], frame_events: int = 7) -> AsyncIterator[LogReader]:
    """Keep events in a log and open it for reading; small frames, so that there are many."""
    async with open_log("memory:", frame_events=frame_events) as log:
        log.append(events)
    async with read_log(log) as reader:
        yield reader


async def asked(recorded: Recorded, job: str, at: int | None = None) -> Explanation:
    """Ask why a job is where it is: at an instant, or at the end of the log."""
    events = recorded.events
    at_us = events[-1].at_us if at is None else at
    seq = max(seq for seq, event in enumerate(events, 1) if event.at_us <= at_us)
    async with reading(events) as reader:
        return await explain(reader, JobId(job), seq, at_us, recorded.rebuild)


Change = Callable[[Recorded], Recorded]
