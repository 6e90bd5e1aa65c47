"""E6: how many gangs are approved a second, on a cluster that is contended and fragmented.

The cluster is filled up to nine GPUs in ten by jobs of 1 to 16 GPUs, and kept there. Schedulers of
500 jobs at a time propose from one view, which is stale by all that is granted of those 500; each
names two places. Timed is all that the core does of it: the checks, the facts, their fold with what
observes it, and the log. Finding places is the schedulers' work, and not timed; nor are the ends of
jobs that make room again. Seconds are CPU seconds of the process.
"""

import gc
import random
import time
from dataclasses import dataclass
from typing import Any, cast

from shunter.core import Plan, Proposal, Scheduler
from shunter.core.planning import Consolidated, Decentralised, Planner, RoundRules
from shunter.events import (
    Allocation,
    AllocationChanged,
    Because,
    ConfigurationSet,
    GpuType,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    NodeAdded,
    NodeName,
    SchedulerStarted,
    Share,
    Trigger,
)
from shunter.events.log import LogWriter, open_log
from shunter.policies import Fifo

GPUS = 8
FILLED = 0.9
TOGETHER = 500
CANDIDATES = 2
GANGS = (1, 1, 1, 1, 2, 2, 4, 4, 8, 16)
BECAUSE = Because("fifo", (0,))
SCHEME = Decentralised(
    built_in=False,
    staleness_us=0,
    candidates=CANDIDATES,
    retry_us=1_000_000,
    retry_most_us=60_000_000,
    reserve_after=1_000,
    reserve_for_us=60_000_000,
)


class _Prepared:
    """A policy whose next plan is there already: what was proposed."""

    name, version, oracle = "prepared", "1", False

    def __init__(self) -> None:
        self.next = Plan()

    def plan(self, memory: object, view: object, rng: object) -> Plan:
        """Return it."""
        return self.next


@dataclass(frozen=True)
class ApprovalRates:
    """What a CPU second of the core does, and which part of it was rejected."""

    servers: int
    approvals_per_s: float
    proposals_per_s: float
    conflict_rate: float


@dataclass
class _Counted:
    """What became of proposals, and how long that took."""

    approved: int = 0
    rejected: int = 0
    cpu_s: float = 0.0


class _Bench:
    """A full cluster, the jobs that run there, and those that want to."""

    def __init__(self, servers: int, log: LogWriter, seed: int) -> None:
        self.rng, self.log, self.now_us, self.submitted = random.Random(seed), log, 0, 0
        rules = RoundRules(0, instant=True, decentralised=SCHEME)
        policy = Fifo.build(Fifo.Params(), Consolidated()).with_scheme(SCHEME)
        self.core = Scheduler(policy, rules)
        self.state = self.core.state
        self.prepared = _Prepared()
        self.planner = Planner(cast("Any", self.prepared), None, self.state, self.core.view, rules)
        self.core.view.open()
        self.core.emit(SchedulerStarted(0, 1, "0", policy.name, policy.version, seed, "{}"))
        where = ConfigurationSet("v100", GpuType("v100"), GPUS, 64_000, 512_000)
        self.names = [NodeName(f"n{number:05}") for number in range(servers)]
        for name in self.names:
            self.core.emit(NodeAdded(0, name, where))
        self.together = max(1, min(TOGETHER, servers // 2))
        self.fill()

    def fill(self) -> None:
        """Submit jobs and start them anywhere, until the cluster is full enough."""
        pool, counted = self.state.cluster.pools["v100"], _Counted()
        while self.state.cluster.pools["v100"].gpus_free > (1 - FILLED) * pool.gpus_up:
            self.propose(self.proposals(self.together), counted)

    def proposals(self, count: int) -> list[Proposal]:
        """Submit jobs; return what their schedulers find in the view of this instant."""
        free = {
            name: self.state.cluster.servers[name].offered
            for name in self.rng.sample(self.names, len(self.names))
        }
        open_ones = [name for name, mask in free.items() if mask]
        found: list[Proposal] = []
        while len(found) < count:
            job_id = JobId(f"j{self.submitted}")
            gpus = min(self.rng.choice(GANGS), len(open_ones))  # one on each will do
            spec = JobSpec(gpus, cpus_milli=4_000 * gpus, memory_mb=16_000 * gpus)
            self.core.emit(JobSubmitted(self.now_us, job_id, spec, 1))
            self.submitted += 1
            places = tuple(self.place(open_ones, free, spec) for _ in range(CANDIDATES))
            found.append(Proposal(job_id, self.state.seq, places, BECAUSE))
        return found

    def place(self, names: list[NodeName], free: dict[NodeName, int], spec: JobSpec) -> Allocation:
        """Return GPUs that are free in a view, on as many servers as it takes."""
        shares: dict[NodeName, int] = {}
        left = spec.gpus
        for name in self.rng.sample(names, spec.gpus):
            bits = [1 << bit for bit in range(GPUS) if free[name] >> bit & 1][:left]
            shares[name] = sum(bits)
            left -= len(bits)
            if not left:
                break
        return Allocation(
            tuple(
                Share(name, mask, 4_000 * mask.bit_count(), 16_000 * mask.bit_count())
                for name, mask in sorted(shares.items())
            )
        )

    def propose(self, proposals: list[Proposal], counted: _Counted) -> None:
        """Have proposals approved or rejected, and add up what that takes."""
        core, book = self.core, self.state.proposals
        core.hand_on()
        approved, rejected = book.approved, book.rejected
        self.prepared.next = Plan(proposals=tuple(proposals), is_drafted=True)
        self.now_us += 1
        begun = time.process_time()
        for fact in self.planner.decisions(self.now_us, Trigger.event):
            if type(fact) is AllocationChanged:
                core.carry_out(fact)
            else:
                core.emit(fact)
        events, _ = core.hand_on()
        self.log.append(events)
        counted.cpu_s += time.process_time() - begun
        counted.approved += book.approved - approved
        counted.rejected += book.rejected - rejected

    def end(self, count: int) -> None:
        """End jobs that run, and drop those that were rejected."""
        running = [job.job_id for job in self.state.jobs.values() if job.allocation.shares]
        waiting = [job.job_id for job in self.state.jobs.values() if not job.allocation.shares]
        self.now_us += 1
        for job_id in (*self.rng.sample(running, min(count, len(running))), *waiting):
            self.core.emit(JobFinished(self.now_us, job_id))


async def measure(url: str, servers: int, approvals: int, seed: int) -> ApprovalRates:
    """Approve so many gangs on a full cluster.

    Args:
        url: the log; one that is there is overwritten.
        servers: how many, of 8 GPUs each.
        approvals: how many gangs are granted at least.
        seed: by which gangs and places are drawn.
    """
    counted = _Counted()
    async with open_log(url, overwrite=True) as log:
        bench = _Bench(servers, log, seed)
        await log.commit()
        while counted.approved < approvals:
            before = counted.approved
            proposals = bench.proposals(bench.together)
            gc.collect()
            gc.disable()
            bench.propose(proposals, counted)
            begun = time.process_time()
            await log.commit()
            counted.cpu_s += time.process_time() - begun
            gc.enable()
            bench.end(counted.approved - before)
            bench.core.hand_on()
    looked_at = counted.approved + counted.rejected
    return ApprovalRates(
        servers,
        counted.approved / counted.cpu_s,
        looked_at / counted.cpu_s,
        counted.rejected / looked_at,
    )
