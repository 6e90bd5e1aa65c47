"""The SSH backend on a farm, its jobs, and the ledger that they keep of themselves.

Every run of a rank holds a lock of its job and one of each GPU it was given. What finds one taken
notes it as a double: two runs of one job, or two jobs on one GPU, cannot pass unseen.
"""

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from shunter.backends.live import SshAccess, SshBackend, SshHost, SshSettings, SupervisedBackend
from shunter.core import Effect, Input, Launch, Resume
from shunter.events import Allocation, JobId, JobSpec, NodeName, Share
from tests.contracts.local_backends import empty
from tests.live.ssh.farm import Farm

Seen = TypeVar("Seen", bound=Input)
PATIENCE_US = 90_000_000
GPUS = 4
# A busy machine keeps an agent waiting for seconds, which is not what most tests are about.
PATIENT = {"connect_s": 30.0, "call_s": 30.0, "launch_s": 30.0, "keepalive_s": 5.0}
# Where hosts do go silent, it is noticed within seconds.
PROMPT = {"connect_s": 5.0, "call_s": 5.0, "launch_s": 3.0, "keepalive_s": 0.5}
# argv: the ledger's folder, seconds of work, the exit code; below 0 it works until it has saved
# once, and then ends well. It saves what it has done when asked to. A file `enough` in the folder
# ends the work of all.
WORKER = """
import fcntl, json, os, sys, time
folder, work_s, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
job, attempt, rank = (os.environ[name] for name in ("SHUNTER_JOB", "SHUNTER_ATTEMPT", "RANK"))
node, gpus = os.environ["SHUNTER_NODE"], os.environ["CUDA_VISIBLE_DEVICES"]
def note(*words):
    line = " ".join((job, attempt, rank, node) + words) + "\\n"
    ledger = os.open(folder + "/ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(ledger, line.encode())
    os.close(ledger)
held = []
for name in ["job.%s.%s" % (job, rank)] + ["gpu.%s.%s" % (node, gpu) for gpu in gpus.split(",")]:
    held.append(os.open(folder + "/" + name, os.O_RDWR | os.O_CREAT, 0o644))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("double", name)
note("begun")
print(json.dumps({name: os.environ[name] for name in (
    "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES")}),
    flush=True)
place = os.environ["SHUNTER_CHECKPOINT_DIR"]
os.makedirs(place, exist_ok=True)
path = place + "/done." + rank
done_s = float(open(path).read()) if os.path.exists(path) else 0.0
if done_s:
    note("resumed")
begun_s = time.monotonic()
waits = code < 0 and not os.path.exists(path)
enough = folder + "/enough"
while waits or done_s + time.monotonic() - begun_s < work_s and not os.path.exists(enough):
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        with open(path + ".new", "w") as file:
            file.write(str(done_s + time.monotonic() - begun_s))
        os.replace(path + ".new", path)
        note("saved")
        os._exit(75)
    time.sleep(0.01)
note("done")
sys.exit(max(0, code))
"""


class Ledger:
    """Jobs that note below a folder what they do."""

    __slots__ = ()
    folder: Path

    def launching(
        self,
        *nodes: str,
        job: str = "j0",
        attempt: int = 1,
        work_s: float = 60.0,
        code: int = 0,
        mask: int = 1,
    ) -> Launch | Resume:
        """Return the order to run a worker, one rank on each host."""
        allocation = Allocation(tuple(Share(NodeName(node), mask) for node in nodes))
        argv = (str(self.folder), str(work_s), str(code))
        spec = JobSpec(allocation.gpus, command=(sys.executable, "-I", "-S", "-c", WORKER, *argv))
        kind = Launch if attempt == 1 else Resume
        return kind(JobId(job), attempt, allocation, spec)

    def ledger(self) -> list[list[str]]:
        """Return what the jobs have noted: job, attempt, rank, host, what."""
        path = self.folder / "ledger"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def runs(self) -> Counter[str]:
        """Return how often each attempt has begun, a rank at a time."""
        begun = [line for line in self.ledger() if line[4] == "begun"]
        return Counter(f"{job}.{attempt}.{rank}" for job, attempt, rank, *_ in begun)

    def resumed(self) -> list[str]:
        """Return which ranks of which attempts went on from what was saved, in order of name."""
        return sorted(f"{one[0]}.{one[1]}.{one[2]}" for one in self.ledger() if one[4] == "resumed")

    def assert_nothing_twice(self) -> None:
        """Hold that no rank of an attempt ran twice, no job beside itself, no GPU for two."""
        runs = self.runs()
        print(f"runs of ranks: {sum(runs.values())} of {len(runs)} in {self.folder.name}")
        assert [line for line in self.ledger() if line[4] == "double"] == []
        assert [rank for rank, count in runs.items() if count > 1] == []


@dataclass(frozen=True, slots=True)
class Bench(Ledger):
    """A farm, a folder for its hosts and its ledger, and for how long hosts are waited for."""

    farm: Farm
    folder: Path
    limits: Mapping[str, float] = field(default_factory=lambda: PATIENT)

    def settings(self, term: int = 1, **fields: object) -> SshSettings:
        """Return settings under which everything else happens within seconds."""
        hosts = tuple(self.host(name) for name in self.farm.hosts)
        settings = SshSettings(
            hosts=hosts,
            access=SshAccess(known_hosts=str(self.farm.known_hosts), keys=(str(self.farm.key),)),
            cluster_id="lab",
            term=term,
            holder=f"daemon-{term}",
            root=str(self.folder / "daemon"),
            patrol_s=0.5,
            heartbeat_deadline_s=60.0,
            margin_s=2.5,
            grace_s=0.5,
            cooperative_s=5.0,
        )
        changes: Mapping[str, object] = {**self.limits, **fields}
        return replace(settings, **changes)  # type: ignore[arg-type]  # any field may be given

    def host(self, name: str) -> SshHost:
        """Return how a host of the farm is reached."""
        host = self.farm[name]
        return SshHost(
            name=NodeName(name),
            address=host.address,
            gpus=tuple(str(number) for number in range(GPUS)),
            cpus=tuple(sorted(os.sched_getaffinity(0))),
            port=host.port,
            user=self.farm.user,
            base=str(host.root),
            python=sys.executable,
        )

    @asynccontextmanager
    async def opened(self, term: int = 1, **fields: object) -> AsyncIterator[SshBackend]:
        """Open the backend for a term."""
        (self.folder / "daemon").mkdir(exist_ok=True)
        async with SshBackend(self.settings(term, **fields), term * 10**9) as backend:
            yield backend

    def clean(self) -> None:
        """End all that is left on the hosts."""
        for host in self.farm.hosts.values():
            for root in sorted(host.root.glob("clusters/*")):
                empty(str(root))


async def order(backend: SupervisedBackend, *effects: Effect) -> None:
    await backend.perform(effects, backend.now_us())


async def seen_until(backend: SupervisedBackend, kind: type[Seen], *, job: str = "") -> list[Input]:
    """Observe until something of a kind came, of a job if one is named; return all that came."""
    told: list[Input] = []
    until_us = backend.now_us() + PATIENCE_US
    while not any(is_of(seen, kind, job) for seen in told):
        _, inputs = await backend.observe(until_us)
        assert inputs, f"no {kind.__name__}, but {told}; {dict(backend.causes)}"
        told += inputs
    return told


async def rest(backend: SupervisedBackend, seconds: float = 1.2) -> list[Input]:
    """Return all that comes within a time."""
    until_us = backend.now_us() + int(seconds * 1e6)
    told: list[Input] = []
    while True:
        _, inputs = await backend.observe(until_us)
        if not inputs:
            return told
        told += inputs


def is_of(seen: Input, kind: type[Seen], job: str = "") -> bool:
    """Say whether an input is of a kind, and of a job if one is named."""
    return isinstance(seen, kind) and (not job or getattr(seen, "job_id", "") == job)


def kinds(told: list[Input]) -> list[type[Input]]:
    """Return the kinds of inputs, in order."""
    return [type(seen) for seen in told]
