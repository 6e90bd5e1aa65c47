"""The SSH backend for the contract suite: two real sshd hosts on one machine."""

import atexit
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from shunter.backends.live import SshAccess, SshBackend, SshHost, SshSettings, TurnSettings
from shunter.events import JobId, JobSpec, NodeName
from tests.contracts.backends import Program, Stage
from tests.contracts.local_backends import TICK_US, empty, spec_of
from tests.live.ssh.farm import LACKING, Farm, farm_at

HOSTS = ("n0", "n1")


@dataclass(frozen=True, slots=True)
class SshStage:
    """An SSH backend with a folder of its own on each host."""

    backend: SshBackend
    now_us: int
    programs: Mapping[str, Program]

    def spec(self, job: JobId) -> JobSpec:
        return spec_of(self.programs.get(job, Program()))


@dataclass(frozen=True, slots=True)
class SshKind:
    """The SSH backend; no folder is shared, so checkpoints are carried over."""

    name: str = "ssh"
    tick_us: int = TICK_US
    slack_us: int = 2 * TICK_US

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Open the hosts, and leave nothing running on them."""
        if LACKING:
            pytest.skip(LACKING)
        farm = hosts()
        with tempfile.TemporaryDirectory() as root:
            settings = SshSettings(
                hosts=tuple(
                    host_of(farm, name, gpus, Path(root)) for name, gpus in servers.items()
                ),
                access=access_to(farm),
                cluster_id="lab",
                term=1,
                holder="contract",
                root=root,
                grace_s=0.3,
                patrol_s=1.0,
                is_limited=True,
                slicing=TurnSettings(quantum_us=2 * TICK_US),
            )
            async with SshBackend(settings) as backend:
                named = {program.name: program for program in programs}
                yield SshStage(backend, backend.now_us(), named)
            for name in servers:
                empty(f"{root}/{name}/clusters/lab")


def host_of(farm: Farm, name: str, gpus: int, root: Path) -> SshHost:
    """Return a host of a farm whose attempts lie below a folder."""
    host = farm[name]
    return SshHost(
        name=NodeName(name),
        address=host.address,
        gpus=tuple(str(number) for number in range(gpus)),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        port=host.port,
        user=farm.user,
        base=str(root / name),
        python=sys.executable,
    )


def access_to(farm: Farm) -> SshAccess:
    """Return how a farm is reached."""
    return SshAccess(known_hosts=str(farm.known_hosts), keys=(str(farm.key),))


@cache
def hosts() -> Farm:
    """Return the hosts of this process, which live as long as it does."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(farm_at(Path(folder) / "farm", *HOSTS))


SSH_KINDS = (SshKind(),)
