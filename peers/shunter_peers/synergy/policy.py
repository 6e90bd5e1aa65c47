"""The port between Shunter's events and the rounds of the public Synergy simulator.

Jobs that arrive wait for the next round, which the policy asks to be woken for. A job whose place,
CPUs or memory change is suspended and started in one plan, because jobs may change places in a
circle. Who ends when is settled in the world `synergy_rounds`, which plays the same rounds; both
are compared at each.
"""

from dataclasses import dataclass, field
from typing import Any

from shunter.core import EMPTY_PLAN, Change, Job, Observers, Plan, Rng, Start, Suspend, View
from shunter.errors import PlanError, extra_hint
from shunter.events import (
    Because,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobSubmitted,
    NodeName,
    Reason,
    Target,
)
from shunter.policies import Extra
from shunter_peers.synergy.cluster import allocations, rounds_of
from shunter_peers.synergy.jobs import SECOND_US, of_view
from shunter_peers.synergy.rounds import Rounds, Rules, Seat

_ENDED = (JobFailed, JobCancelled)


@dataclass(slots=True)
class PeerMemory:
    """The simulator, the servers behind its numbers, and who finished meanwhile."""

    rounds: Rounds | None = None
    nodes: list[NodeName] = field(default_factory=list)
    finished: list[JobId] = field(default_factory=list)


@dataclass(frozen=True)
class SynergyPolicy:
    """Plays the simulator by some rules."""

    name: str
    rules: Rules
    version: str = "2"
    oracle: bool = False
    remembers: bool = True

    def start(self, view: View) -> PeerMemory:
        """Return the simulator before its first job, or with those that are there."""
        memory = PeerMemory()
        for job in view.jobs.values():
            self._arrive(memory, job, view)
        return memory

    def observers(self, memory: PeerMemory) -> Observers:
        """Note who comes and who goes; the next round looks at them."""

        def submitted(event: JobSubmitted, view: View) -> None:
            self._arrive(memory, view.jobs[event.job_id], view)

        def finished(event: JobFinished, view: View) -> None:
            memory.finished.append(event.job_id)

        def ended(event: Any, view: View) -> None:
            if memory.rounds is not None:
                memory.rounds.leave(event.job_id)

        return {
            JobSubmitted: submitted,
            JobFinished: finished,
            **dict.fromkeys(_ENDED, ended),
        }

    def advance(self, memory: PeerMemory, view: View) -> None:
        """Play the round that is due."""
        rounds = memory.rounds
        if rounds is None or rounds.next_s is None or view.now_us < rounds.next_s * SECOND_US:
            return
        self._compare_ends(rounds, memory, view)
        rounds.play(self.rules)

    def target(self, memory: PeerMemory, view: View) -> tuple[Target, ...] | None:
        """There are no targets."""
        return None

    def plan(self, memory: PeerMemory, view: View, rng: Rng) -> Plan:
        """Tell what leads from where jobs are to where the last round has them."""
        rounds = memory.rounds
        if rounds is None:
            return EMPTY_PLAN
        seats = {job_id: seat for job_id, seat in rounds.seats.items() if job_id in view.jobs}
        servers = view.cluster.servers
        of = {node: servers[node].configuration for node in memory.nodes}
        there = allocations(seats, memory.nodes, of, view.jobs)
        leaving: list[Change] = []
        for job in view.jobs.values():
            here, job_id = job.allocation, job.job_id
            if not here.shares:
                continue
            wanted = there.get(job_id)
            if wanted is None:
                leaving.append(Suspend(job_id, Because(Reason.outranked)))
            elif wanted is here:
                del there[job_id]
            else:
                leaving.append(Suspend(job_id, self._because(seats[job_id])))
        starting = [
            Start(job_id, wanted, self._because(seats[job_id])) for job_id, wanted in there.items()
        ]
        return Plan((*leaving, *starting)) if leaving or starting else EMPTY_PLAN

    def wake_at(self, memory: PeerMemory) -> int | None:
        """Return the instant of the next round."""
        rounds = memory.rounds
        if rounds is None or rounds.next_s is None:
            return None
        return rounds.next_s * SECOND_US

    def settled(self, memory: PeerMemory) -> bool:
        """Nothing is decided between rounds."""
        return True

    @property
    def extra(self) -> Extra | None:
        """What must be installed: the solver, where one is asked."""
        if self.rules.mechanism != "opt" or self.rules.solver != "highs":
            return None
        return Extra(
            "highspy",
            "highspy",
            extra_hint("solvers"),
            f"without, policy.params.{self.name}.solver = 'exact' is our own method, which finds "
            "an equally good answer each round, and not always the same",
        )

    def _arrive(self, memory: PeerMemory, job: Job, view: View) -> None:
        """Let a job be tried, unless it is too wide; number the servers at the first."""
        if memory.rounds is None:
            servers = [server for _, pool in sorted(view.pools.items()) for server in pool.servers]
            memory.nodes = [server.name for server in servers if server.configuration.gpus]
            memory.rounds = rounds_of(server.configuration for server in servers)
        rounds = memory.rounds
        if job.spec.gpus <= rounds.gpus:
            rounds.arrive(of_view(job, rounds.server))

    def _compare_ends(self, rounds: Rounds, memory: PeerMemory, view: View) -> None:
        """Hold the simulator's ends of the last round against those that were observed.

        Raises:
            PlanError: a job has ended by one and not by the other.
        """
        ending = set(rounds.ending)
        for job_id in rounds.ending:
            if job_id in view.jobs:
                raise PlanError(
                    f"job {job_id} has done all its iterations by the rounds of {self.name}, and "
                    "runs on in the cluster: set simulation.world = 'synergy_rounds'"
                )
        for job_id in memory.finished:
            if job_id not in ending and job_id in rounds.jobs:
                raise PlanError(
                    f"job {job_id} has finished in the cluster, and has "
                    f"{rounds.jobs[job_id].left} iterations left by the rounds of {self.name}: "
                    "set simulation.world = 'synergy_rounds'"
                )
        memory.finished.clear()

    def _because(self, seat: Seat) -> Because:
        """Return what a job gets: its speedup, then cores and GB for each GPU."""
        return Because(self.name, (seat.speedup, seat.cpus, seat.memory_gb))
