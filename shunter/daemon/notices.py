"""Notices to the operator of a daemon: a policy that fails or takes long, slow starts, shares.

The log records of a fault where it was and what was raised; a notice has the traceback. A job that
must leave after its turn, and takes longer than that to start, prepares longer than it trains.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import anyio

from shunter.core import AnyPolicy, Scheduler
from shunter.core.planning import RoundRules
from shunter.core.ranking import RankedPolicy
from shunter.daemon.feed import Feed
from shunter.daemon.gpu_maps import ServerMap
from shunter.daemon.policy import PolicyProxy
from shunter.events import NO_SUCH_JOB, NodeName, facts
from shunter.events.log import LogWriter

TellOperator = Callable[[str], None]
"""Told what has happened, in one or more lines."""


@runtime_checkable
class HoldsToShares(Protocol):
    """A backend that holds jobs to their CPUs and memory."""

    async def share_notice(self) -> str:
        """Wait for the next thing to be told of that."""


DELAY_S = 5.0
POLICY_LOOK_S = 1.0


def start_notices(
    log: LogWriter, strays: Iterable[tuple[str, int]], maps: Mapping[NodeName, ServerMap]
) -> Iterator[str]:
    """Yield warnings of a start: of its log, of attempts that it lacks, of maps."""
    if log.warning:
        yield f"warning: {log.warning}; it is kept with a new anchor from here on"
    if log.lost is not None:
        yield (
            f"warning: events {log.lost[0]} to {log.lost[1]} are lost, and the log says so from "
            "here on: what was submitted, cancelled or changed in them has to be done again"
        )
    for job, attempt in strays:
        yield f"warning: attempt {attempt} of {job} runs, and the log never gave it: it is ended"
    for name, told in maps.items():
        for note in told.notes if told.by else ():  # servers that tell nothing are many
            yield f"warning: {name}: {note}"


async def tell_faults(feed: Feed, core: Scheduler, asked: PolicyProxy, tell: TellOperator) -> None:
    """Tell of each fault once, and when the policy works again, until the log closes."""
    name, last, names_nobody = core.policy.name, core.state.policy_fault, False
    if last:
        tell(_in_words(asked, last))
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, facts.RoundPlanned) and event.fault != last:
            last = event.fault
            tell(_in_words(asked, last) if last else f"policy {name} works again")
        elif isinstance(event, facts.PolicySetAside):
            tell(
                f"policy {name} is set aside, jobs run on and none starts until this daemon is "
                f"started anew: {event.cause}"
            )
        elif (
            isinstance(event, facts.PlanRejected)
            and event.detail == NO_SUCH_JOB
            and not names_nobody
        ):
            names_nobody = True
            tell(
                f"policy {name} plans for jobs that do not exist, the first of them "
                f"{event.job_id!r}: refused, each time as a PlanRejected in the log"
            )


async def tell_delays(asked: PolicyProxy, tell: TellOperator) -> None:
    """Tell once of each planning that takes long, for ever."""
    told = False
    while True:
        await anyio.sleep(POLICY_LOOK_S)
        hook, since_s = asked.busy
        if since_s < DELAY_S:
            told = False
        elif not told:
            told = True
            tell(
                f"policy {asked.name} has been at work for {since_s:.0f} s ({hook}): commands "
                f"wait for it; it is set aside after {asked.limit_in_words}"
            )


async def tell_shares(backend: HoldsToShares, tell: TellOperator) -> None:
    """Tell by what jobs are held to their shares, and whose were not changed."""
    while True:
        tell(await backend.share_notice())


def _in_words(asked: PolicyProxy, fault: str) -> str:
    lines = f"\n{asked.trace}" if asked.trace else ""
    return f"policy {asked.name} failed, jobs run on and none starts: {fault}{lines}"


async def tell_slow_starts(feed: Feed, core: Scheduler, tell: TellOperator) -> None:
    """Tell of a start that takes longer than a turn, then of each twice as long."""
    turn_us, key = turn_of(core.policy, core.rules)
    most_us = turn_us
    async for _, event in feed.follow(feed.committed):
        if not turn_us or not isinstance(event, facts.TrainingStarted):
            continue
        job = core.state.jobs.get(event.job_id)
        if job is None or job.attempt != event.attempt or job.since_us is None:
            continue
        took_us = event.at_us - job.since_us
        if took_us > most_us:
            most_us = 2 * took_us
            tell(
                f"job {job.job_id} took {took_us / 1e6:.1f} s from its launch to its first "
                f"mini-batch, and a turn is {turn_us / 1e6:g} s: jobs that take turns spend more "
                f"time starting than training; make {key} longer"
            )


def turn_of(policy: AnyPolicy, rules: RoundRules) -> tuple[int, str]:
    """Return how long a job has its turn, and the key that says so.

    0 where nobody takes turns: the policy preempts nobody, or decides at events and guards nobody.
    """
    timing = getattr(policy, "timing", None)
    turn_us = getattr(timing, "turn_us", 0)
    if turn_us:
        return int(turn_us), f"policy.params.{policy.name}.turn"
    if isinstance(policy, RankedPolicy) and not policy.index.preemptive:
        return 0, ""
    if rules.round_us >= rules.guards.min_runtime_us:
        return rules.round_us, "policy.round"
    return rules.guards.min_runtime_us, "policy.guards.min_runtime"
