"""What one seed stands for: a cluster, its policy, the jobs that come, and the faults.

Every choice is drawn from the seed, and nothing else is: `drawn(7)` is the same scenario on every
machine. When processes really meet each other is up to the machine.
"""

from dataclasses import dataclass
from random import Random

__all__ = ["HOSTS", "Cluster", "Fault", "JobPlan", "Scenario", "drawn"]

HOSTS = ("n0", "n1", "n2")
GPUS = 2
"""Of each host."""

BEGIN_S = 1.0
END_S = 13.0
"""Faults begin between these; whatever lasts longer is undone when it is over."""

POLICIES = {
    "fifo": "",
    "fifo_easy": "",
    "srtf": "",
    "smallest": "",
    "las": "queues_gpu_s = [3.0, 12.0]",
    "tiresias": "queues_gpu_s = [4.0]",
    "gavel": 'turn = "6s"',
    "two_level": "",
}
ROUNDS = ("event", "event", "1s", "3s")
PLACEMENTS = ("consolidated", "spread", "first_fit")
MODES = ("cooperative", "cooperative", "cooperative", "signal", "restart", "stop")
KINDS = ("plain", "plain", "plain", "forking", "sdk", "sdk")
# Of hosts: how likely, and how many seconds each lasts at least and at most.
HOST_FAULTS = {
    "cut": (3, 0.3, 5.0),
    "drop": (3, 0.3, 5.0),
    "freeze": (3, 0.3, 6.0),
    "power_off": (2, 0.5, 5.0),
    "fill": (2, 1.0, 5.0),
    "delete": (2, 0.0, 0.0),
    "supervisor": (1, 0.0, 0.0),
    "session": (1, 0.0, 0.0),
    "drain": (1, 0.5, 4.0),
}
LONG_S = 16.0
"""An outage that is longer than any deadline of a scenario that has losses."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job to submit: what it is, and how it behaves."""

    key: str
    kind: str
    gpus: int
    steps: int
    step_s: float
    save_every: int
    submit_s: float
    mode: str
    code: int = 0
    is_one_server: bool = False
    pad_bytes: int = 0

    @property
    def ends(self) -> str:
        """The kind of event with which it ends, if nobody cancels it."""
        return "JobFailed" if self.code else "JobFinished"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is done to the daemon, a host or a job, and undone after a time."""

    at_s: float
    what: str
    whom: str
    lasting_s: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.lasting_s:.1f} s" if self.lasting_s else ""
        return f"{self.at_s:5.1f} s {self.what} {self.whom}{lasting}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the scheduler is configured."""

    policy: str
    params: str
    trigger: str
    placement: str
    deadline_s: float
    has_shared_checkpoints: bool
    small_disks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A seed, spelt out."""

    seed: int
    cluster: Cluster
    jobs: tuple[JobPlan, ...]
    faults: tuple[Fault, ...]

    def told(self) -> str:
        """Return it for people, a line for each choice."""
        jobs = [f"  {job}" for job in self.jobs]
        faults = [f"  {fault}" for fault in self.faults]
        return "\n".join([f"seed {self.seed}: {self.cluster}", *jobs, *faults])


def drawn(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    chance = Random(seed)
    cluster = _cluster(chance)
    jobs = tuple(_job(chance, number) for number in range(chance.randint(8, 11)))
    return Scenario(seed, cluster, jobs, _faults(chance, cluster, jobs))


def _cluster(chance: Random) -> Cluster:
    policy = chance.choice(sorted(POLICIES))
    return Cluster(
        policy=policy,
        params=POLICIES[policy],
        trigger="1s" if policy == "gavel" else chance.choice(ROUNDS),
        placement=chance.choice(PLACEMENTS),
        # Half of them never give a server up, and must not lose a step.
        deadline_s=chance.choice((6.0, 120.0)),
        has_shared_checkpoints=chance.random() < 0.25,
        small_disks=tuple(sorted(chance.sample((*HOSTS, "daemon"), chance.randint(1, 2)))),
    )


def _job(chance: Random, number: int) -> JobPlan:
    kind = chance.choice(KINDS)
    is_lasting = chance.random() < 0.4
    is_one_server = kind == "sdk" and chance.random() < 0.5
    gpus = chance.choice((1, 1, 1, 2, 2, 3, 4, 5))
    return JobPlan(
        key=f"c{number}",
        kind=kind,
        gpus=min(gpus, GPUS) if is_one_server else gpus,
        steps=chance.randint(60, 100) if is_lasting else chance.randint(5, 40),
        step_s=0.1,
        save_every=chance.choice((0, 5, 5, 10)),
        submit_s=round(chance.uniform(0.0, 9.0), 2),
        mode=chance.choice(MODES[:3] if kind == "sdk" else MODES),
        code=chance.choice((0, 0, 0, 0, 0, 0, 3)),
        is_one_server=is_one_server,
        pad_bytes=chance.choice((0, 1_000, 50_000)),
    )


def _faults(chance: Random, cluster: Cluster, jobs: tuple[JobPlan, ...]) -> tuple[Fault, ...]:
    faults = [_kill(chance) for _ in range(chance.randint(2, 4))]
    names, weights = list(HOST_FAULTS), [each[0] for each in HOST_FAULTS.values()]
    for what in chance.choices(names, weights, k=chance.randint(5, 9)):
        _, least_s, most_s = HOST_FAULTS[what]
        whom = chance.choice(cluster.small_disks if what == "fill" else HOSTS)
        faults.append(_fault(chance, what, whom, least_s, most_s))
    if cluster.deadline_s < LONG_S and chance.random() < 0.6:
        what = chance.choice(("cut", "drop", "freeze", "power_off"))
        faults.append(_fault(chance, what, chance.choice(HOSTS), LONG_S, LONG_S))
    suspended = [chance.choice(jobs).key for _ in range(chance.randint(3, 6))]
    faults += [_fault(chance, "suspend", key, 0.5, 4.0) for key in suspended]
    if chance.random() < 0.5:
        faults.append(_fault(chance, "cancel", chance.choice(jobs).key, 0.0, 0.0))
    return tuple(sorted(faults, key=lambda fault: (fault.at_s, fault.what, fault.whom)))


def _fault(chance: Random, what: str, whom: str, least_s: float, most_s: float) -> Fault:
    at_s = round(chance.uniform(BEGIN_S, END_S), 2)
    return Fault(at_s, what, whom, round(chance.uniform(least_s, most_s), 2))


def _kill(chance: Random) -> Fault:
    """Return the end of a daemon: mostly without a word, and mostly for a moment."""
    what = "kill" if chance.random() < 0.8 else "terminate"
    down_s = chance.uniform(2.0, 5.0) if chance.random() < 0.2 else chance.uniform(0.0, 1.0)
    at_s = round(chance.uniform(BEGIN_S, END_S), 2)
    return Fault(at_s, what, "daemon", round(down_s, 2))
