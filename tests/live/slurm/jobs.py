"""The backend of batch jobs on a bench: settings under which everything happens within seconds."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from shunter.backends.slurm import JobBackend, SlurmSettings
from tests.contracts.local_backends import empty
from tests.live.slurm.pilots import LIVING, PilotBench

__all__ = ["JobBench"]


@dataclass(frozen=True, slots=True)
class JobBench(PilotBench):
    """A Slurm cluster, and a folder that it shares with us."""

    def settings(self, term: int = 1, **fields: object) -> SlurmSettings:
        """Return settings under which everything happens within seconds."""
        quick: dict[str, object] = {"look_s": 0.05, "settle_s": 1.0, "poll_s": 0.3}
        quick["cluster_id"] = self.cluster_id
        return PilotBench.settings(self, term, **{**quick, **fields})

    @property
    def cluster_id(self) -> str:
        """What no other test is called: Slurm remembers jobs that have ended."""
        return "lab" + blake2b(os.fsencode(self.folder), digest_size=6).hexdigest()

    @asynccontextmanager
    async def jobs_opened(self, term: int = 1, **fields: object) -> AsyncIterator[JobBackend]:
        """Open the backend for a term."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        async with JobBackend(self.settings(term, **fields), term * 10**9) as backend:
            yield backend

    def jobs(self, *states: str) -> dict[str, list[int]]:
        """Return the Slurm jobs of our attempts in some states, by job and attempt."""
        chosen = ",".join(states or ("PENDING", "RUNNING"))
        found: dict[str, list[int]] = {}
        for line in self.slurm.command(
            "squeue", "-h", "-a", "-t", chosen, "-o", "%A %j"
        ).splitlines():
            number, name = line.split()
            if name.startswith(f"shunter:{self.cluster_id}:"):
                found.setdefault(name.rpartition(":")[2], []).append(int(number))
        return found

    def processes_of(self, job: str, attempt: int) -> list[int]:
        """Return what an attempt runs, by the mark in the environment: others run the same."""
        mark, found = os.fsencode(f"SHUNTER_FOLDER={self.root}/jobs/{job}/{attempt}"), []
        for path in sorted(Path("/proc").glob("[0-9]*/environ")):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def clean(self) -> None:
        """End all attempts, and all that is left of them."""
        self.slurm.revive()
        self.slurm.command("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        empty(str(self.root))
        self.slurm.command("scancel", "--user=root", check=False)
        self.slurm.wait_for(lambda: not self.jobs(*LIVING), "the end of all jobs")
