"""A world in which jobs end when the public Synergy simulator ends them.

It plays the rounds of the policy once more, from the jobs that arrive in the simulated cluster, and
lets a job end with the round in which its last iterations were credited. Nothing of what is ordered
there reaches the simulated cluster, whose jobs would end by the durations of the trace.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from shunter.core import (
    AnyPolicy,
    AttemptExited,
    Backend,
    Effect,
    Input,
    Launch,
    NothingComes,
    Resume,
    SimulatedWorld,
    SubmitJob,
    Terminate,
    WorldEnded,
)
from shunter.errors import ConfigError
from shunter.events import ConfigurationSet, JobId
from shunter_peers.synergy.cluster import rounds_of
from shunter_peers.synergy.event_queue import EventQueue
from shunter_peers.synergy.jobs import SECOND_US, played_job
from shunter_peers.synergy.policy import SynergyPolicy
from shunter_peers.synergy.rounds import Rounds, Rules, first_round_s


class SynergyRounds:
    """The world of `[simulation] world = "synergy_rounds"`."""

    name = "synergy_rounds"

    def __init__(self, rules: Rules | None = None, rounds: Rounds | None = None) -> None:
        self._rules = rules
        self._rounds = rounds

    def record(self) -> dict[str, Any]:
        """Return the key that the log has for it."""
        return {"world": self.name}

    def playing(self, policy: AnyPolicy, servers: Iterable[ConfigurationSet]) -> "SynergyRounds":
        """Return the world for a policy on some servers.

        Raises:
            ConfigError: it is another policy, or the simulator knows no such servers.
        """
        if not isinstance(policy, SynergyPolicy):
            raise ConfigError(
                f"simulation.world: synergy_rounds plays policy synergy_peer, not {policy.name}"
            )
        return SynergyRounds(policy.rules, rounds_of(servers))

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        """Return a cluster whose jobs end as the rounds say.

        Raises:
            ConfigError: decisions are made in other rounds, or something takes time there.
        """
        if round_us or not inside.instant:
            raise ConfigError(
                "simulation.world: synergy_rounds: expected policy.trigger = 'event' (the policy "
                "has rounds of its own), no costs, no speeds, and jobs without a tolerance"
            )
        assert self._rules is not None, "it is told what it plays before it is put around"
        assert self._rounds is not None, "and on which servers"
        return SynergyBackend(inside, self._rules, self._rounds)


class SynergyBackend:
    """A simulated cluster in which rounds end jobs."""

    instant = True

    def __init__(self, inside: SimulatedWorld, rules: Rules, rounds: Rounds) -> None:
        self._inside = inside
        self._rules = rules
        self._rounds = rounds
        self._attempts: dict[JobId, int] = {}
        self._arrived = 0
        self._now_us = 0
        coming = [
            (at_us, job_id) for at_us, job_id, spec in inside.arrivals if spec.gpus <= rounds.gpus
        ]
        first_us = coming[0][0] if coming else 0
        self._queue = EventQueue(coming, first_round_s(first_us / SECOND_US))

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Note attempts; let only those end that are told to."""
        for effect in effects:
            if isinstance(effect, Launch | Resume):
                self._attempts[effect.job_id] = effect.attempt
            elif isinstance(effect, Terminate):
                self._rounds.leave(effect.job_id)
                await self._inside.perform([effect], now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Return what happens next: arrivals, and the ends of a round."""
        rounds = self._rounds
        while rounds.next_s is not None and rounds.next_s * SECOND_US <= self._now_us:
            now_s = rounds.next_s
            rounds.play(self._rules)
            self._queue.play(now_s, len(rounds.seats), rounds.next_s)
        ends_us = None
        if rounds.next_s is not None and rounds.ending:
            ends_us = rounds.next_s * SECOND_US
            until_us = ends_us if until_us is None else min(until_us, ends_us)
        self._now_us, told = await self._inside.observe(until_us, gather_us)
        inputs = [self._looked_at(each) for each in self._in_order(told)]
        if self._now_us != ends_us:
            return self._now_us, inputs
        ends = [self._end(job_id, ends_us) for job_id in rounds.ending]
        come = [each for each in inputs if not isinstance(each, NothingComes | WorldEnded)]
        return ends_us, [*ends, *come]

    def _in_order(self, told: Sequence[Input]) -> Iterator[Input]:
        """Yield inputs of an instant, arrivals as the simulator's queue has them."""
        places = {job_id: place for place, job_id in enumerate(self._queue.arrived(self._now_us))}
        arrivals = [each for each in told if isinstance(each, SubmitJob)]
        arrivals.sort(key=lambda each: places.get(each.job_id, len(places)))
        in_order = iter(arrivals)
        for each in told:
            yield next(in_order) if isinstance(each, SubmitJob) else each

    def _looked_at(self, told: Input) -> Input:
        """Return an input; a job that arrives is tried in the rounds from now on.

        One wider than the cluster is rejected; the simulator would play rounds for ever.
        """
        if isinstance(told, SubmitJob):
            rounds, number = self._rounds, self._arrived
            self._arrived += 1
            if told.spec.gpus <= rounds.gpus:
                rounds.arrive(played_job(told.job_id, number, told.spec, told.at_us, rounds.server))
        return told

    def _end(self, job_id: JobId, at_us: int) -> AttemptExited:
        """Return the end of a job in its last attempt."""
        attempt = self._attempts.pop(job_id, 0)
        ended = self._inside.end(job_id, at_us)
        assert isinstance(ended, AttemptExited), "a job in the rounds is one of the cluster"
        return replace(ended, attempt=attempt)
