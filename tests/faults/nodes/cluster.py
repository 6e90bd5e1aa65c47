"""A whole scheduler over simulated nodes in virtual time: killed, started again, its links cut.

All but nodes and people is what the daemon runs: core, policy, round loop, recovery, the supervised
backend, agents, messages. Its log is a list, of which a crash loses what was not committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import anyio
from anyio import lowlevel

from shunter import clock
from shunter.ask import Verifier
from shunter.backends.live import Limits, Owner, Stamped, SupervisedBackend
from shunter.core import Health, Policy, Scheduler, State, SubmitJob, run_rounds
from shunter.core.fold import replay
from shunter.daemon import holding, recovery_of
from shunter.events import (
    Event,
    GpusReleased,
    JobFinished,
    JobId,
    JobSpec,
    MemoryPastJobs,
    Resources,
)
from tests.doubles.simulated_nodes import (
    Run,
    SimulatedNode,
    SimulatedProgram,
    SimulatedServer,
    SimulatedTransport,
)
from tests.factories import World, node_added, scheduler_started
from tests.replay.eventful_run import RECORD
from tests.replay.recording import rebuilt

SECOND_US = 1_000_000
AGAIN_S = 30.0
NOTHING = Resources()
LIMITS = Limits(
    heartbeat_deadline_s=900.0,
    patrol_s=60.0,
    cooperative_s=60.0,
    signal_s=30.0,
    gang_ports=(29_500, 29_600),
)


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, and when somebody wants it."""

    at_s: float
    job_id: JobId
    gpus: int
    program: SimulatedProgram
    model: str = ""

    def command(self, at_us: int) -> SubmitJob:
        """Return the command at the instant at which it is taken in."""
        spec = JobSpec(self.gpus, model=self.model, command=self.program.command)
        return SubmitJob(at_us, self.job_id, spec)


class Cluster:
    """Servers, their links, and a daemon that may be killed; made inside a virtual run.

    Args:
        gpus: of each server.
        chosen: the policy that decides.
        submissions: who wants what.
        latency_ns: of each link.
        beside: what goes with each GPU, if jobs are sized.
    """

    def __init__(
        self,
        gpus: Sequence[int],
        chosen: Policy[Any],
        submissions: Sequence[Submission],
        latency_ns: int = 0,
        beside: Resources = NOTHING,
    ) -> None:
        there = tuple(
            node_added(number, count, cpus_milli=has.cpus_milli, memory_mb=has.memory_mb)
            for number, count in enumerate(gpus)
            for has in [beside.times(count)]
        )
        self.world = World(servers=there, is_live=True, checkpoints_stay=True)
        self._limits = replace(LIMITS, is_limited=beside != NOTHING)
        self.chosen, self.submissions = chosen, submissions
        self.nodes = [
            SimulatedNode(
                SimulatedServer(
                    each.node,
                    tuple(map(str, range(count))),
                    tuple(range(max(1, each.configuration.cpus_milli // 1000))),
                )
            )
            for each, count in zip(self.world.servers, gpus, strict=True)
        ]
        self.links = [SimulatedTransport(node, latency_ns) for node in self.nodes]
        self.log: list[Event] = []
        self.term = 0
        self.crashes_at = ""
        """At which end of the next commit the daemon is killed, if at one."""
        self._begun_s = clock.monotonic_s()
        self._scope = anyio.CancelScope()
        self._pending: list[Event] = []
        self._state = State()
        self._backend: SupervisedBackend | None = None

    @property
    def now_s(self) -> float:
        """For how long it has been there."""
        return clock.monotonic_s() - self._begun_s

    def at_us(self, uptime_ns: int) -> int:
        """Return when it was in the log that machines had been up for so long."""
        return uptime_ns // 1000 - round(self._begun_s * SECOND_US)

    async def serve(self, down_s: Sequence[float] = (1.0,)) -> None:
        """Run the daemon until all jobs have ended; what kills it has it down for a while."""
        while not self._is_done():
            with anyio.CancelScope() as self._scope:
                await self._term()
            if not self._is_done():
                await anyio.sleep(down_s[self.term % len(down_s)])

    def kill(self) -> None:
        """Kill the daemon where it is."""
        self._scope.cancel()

    async def order(self, make: Stamped, is_done: Callable[[State], bool]) -> None:
        """Order something again and again until it is done: the daemon may be down, or die."""
        while not self._is_durable() or not is_done(self._state):
            if self._backend is not None:
                self._backend.post(make)
            await anyio.sleep(AGAIN_S)

    def append(self, events: Sequence[Event]) -> int:
        self._pending += events
        return len(self.log) + len(self._pending)

    async def commit(self) -> None:
        """Make a step durable, unless the daemon is killed before it is."""
        crashes_at, self.crashes_at = self.crashes_at, ""
        if crashes_at == "begin":
            await self._die()
        self.log += self._pending
        self._pending.clear()
        if crashes_at == "end" or self._is_done():
            await self._die()
        await lowlevel.checkpoint()

    def _is_durable(self) -> bool:
        """Say whether what the daemon believes cannot be lost any more."""
        return 0 < self._state.seq <= len(self.log)

    @property
    def jobs(self) -> Sequence[JobId]:
        """Those that the daemon knows to be under way."""
        return sorted(self._state.jobs)

    async def _die(self) -> None:
        self.kill()
        await lowlevel.checkpoint()

    async def _term(self) -> None:
        """Begin a term as `shunter.daemon.startup` does, and run it."""
        self.term += 1
        self._pending.clear()
        state, past = replay(self.log), MemoryPastJobs()
        for seq, event in enumerate(self.log, 1):
            past.take(seq, event)
        begins_us = max(state.now_us + 1, round(self.now_s * SECOND_US)) if self.log else 0
        owner = Owner("c0", self.term, "h", "/simulated")
        async with SupervisedBackend(self._limits, owner, self.links, begins_us) as backend:
            found = await backend.inventory(holding(state))
            rules = self.world.rules(instant=False)
            core = Scheduler(self.chosen, rules, state, past=past)
            self._state = core.state
            started = scheduler_started(self.term, begins_us, self.chosen.name)
            core.view.open()
            core.emit(replace(started, config=RECORD))
            for server in self.world.servers if self.term == 1 else ():
                core.emit(server)
            core.view.close()
            recovery = recovery_of(state, past, found, backend.unreachable)
            core.take_in(begins_us, ())
            events, effects = core.hand_on()
            self.append(events)
            await self.commit()
            gone = (Health.unreachable, Health.lost)
            backend.recall([n for n, one in state.cluster.servers.items() if one.health in gone])
            recovery.adopt(backend)
            await recovery.settle(backend, begins_us)
            await backend.perform(effects, begins_us)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._submit, backend, core)
                self._backend = backend
                try:
                    await run_rounds(core, backend, self, begins_us)
                finally:
                    self._backend = None

    async def _submit(self, backend: SupervisedBackend, core: Scheduler) -> None:
        """Submit what is due, and what an earlier term has lost."""
        for each in self.submissions:
            await anyio.sleep(max(0.0, each.at_s - self.now_s))
            if each.job_id in core.state.jobs or core.past.outcome(each.job_id) is not None:
                continue
            backend.post(each.command)

    def _is_done(self) -> bool:
        return self.finished() == {each.job_id for each in self.submissions}

    def finished(self) -> set[JobId]:
        """Return the jobs that have come to their end."""
        return {event.job_id for event in self.log if isinstance(event, JobFinished)}

    def check(self) -> None:
        """Hold that all is as it must be, whatever has happened."""
        assert self._is_done(), f"not finished: {len(self.finished())} of {len(self.submissions)}"
        for node in self.nodes:
            _check_gpus(node.runs)
        _check_attempts([run for node in self.nodes for run in node.runs])
        _check_releases(self.log)
        verifier = Verifier(rebuilt(self.chosen, self.world.rules(instant=False)))
        found = verifier.take(self.log)
        assert found is None, "\n".join(found.lines())
        assert verifier.lenient == 0


def _check_gpus(runs: Sequence[Run]) -> None:
    """Hold that no two attempts have had a GPU at once, and that none runs on."""
    for one, other in combinations(runs, 2):
        assert one.ended_ns is not None, f"it runs on: {one}"
        if other.begun_ns < one.ended_ns:
            assert not set(one.gpus) & set(other.gpus), f"{one} and {other} share a GPU"


def _check_attempts(runs: Sequence[Run]) -> None:
    """Hold that nothing of an attempt runs while an earlier one of its job does."""
    by_job: dict[str, list[Run]] = {}
    for run in runs:
        by_job.setdefault(run.job, []).append(run)
    for own in by_job.values():
        for one, other in combinations(sorted(own, key=lambda run: run.attempt), 2):
            assert one.ended_ns is not None, f"it runs on: {one}"
            is_same = one.attempt == other.attempt
            assert is_same or one.ended_ns <= other.begun_ns, f"{one} and {other} run at once"


def _check_releases(log: Sequence[Event]) -> None:
    """Hold that the GPUs of each attempt were given back once at most."""
    released: set[tuple[JobId, int]] = set()
    for event in log:
        if isinstance(event, GpusReleased):
            key = event.job_id, event.attempt
            assert key not in released, f"released twice: {key}"
            released.add(key)
