"""`[backend]`: where jobs really run, and the limits of what runs them there.

The servers are those of `[cluster]`. On this machine they are parts of it: their GPUs are its GPUs
one after the other, under the names CUDA knows them by, and their CPUs its CPUs.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from shunter.config.live.limits import LimitsSection
from shunter.config.live.slurm import SlurmSection
from shunter.config.live.ssh import SshSection
from shunter.config.section import Section, Stretch

_SECOND = 1_000_000


class LocalSection(LimitsSection):
    """This machine as the cluster."""

    root: str = Field(
        min_length=1, description="a folder for attempts, checkpoints and output, of this cluster"
    )
    gpus: tuple[str, ...] | None = Field(
        default=None,
        description="GPUs as CUDA names them, given to the servers in order; "
        "if left out they are numbered from 0",
    )
    patrol: Stretch = Field(
        default=_SECOND, description="how often all attempts are looked at, whatever is told"
    )


class BackendSection(Section):
    """What carries decisions out."""

    kind: Literal["simulated", "local", "ssh", "slurm"] = Field(
        default="simulated",
        description="simulated time, this machine, servers over SSH, or a Slurm cluster",
    )
    local: LocalSection | None = Field(default=None, description="this machine as the cluster")
    ssh: SshSection | None = Field(default=None, description="servers reached over SSH")
    slurm: SlurmSection | None = Field(default=None, description="a partition of a Slurm cluster")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.kind == "local" and self.local is None:
            raise ValueError(
                "kind = 'local': expected a table [backend.local] with root = 'FOLDER'"
            )
        if self.kind == "ssh" and self.ssh is None:
            raise ValueError(
                "kind = 'ssh': expected a table [backend.ssh] with root = 'FOLDER' and keys; "
                "`shunter init --ssh HOSTS` writes one"
            )
        if self.kind == "slurm" and self.slurm is None:
            raise ValueError(
                "kind = 'slurm': expected a table [backend.slurm] with root = 'FOLDER' and "
                "partition; `shunter init --slurm PARTITION` writes one"
            )
        return self

    @property
    def is_live(self) -> bool:
        """Whether jobs really run."""
        return self.kind != "simulated"

    @property
    def launches_wait(self) -> bool:
        """Whether attempts wait in a queue that is not ours before they start: Slurm's."""
        slurm = self.slurm
        return self.kind == "slurm" and slurm is not None and slurm.mode == "per-job"

    @property
    def checkpoints_stay(self) -> bool:
        """Whether checkpoints lie on the servers that saved them, and must be copied."""
        return self.kind == "ssh" and self.ssh is not None and not self.ssh.checkpoints

    @property
    def keep_s(self) -> float:
        """How many seconds what ended jobs leave behind is kept; 0: for ever."""
        chosen = {"local": self.local, "ssh": self.ssh, "slurm": self.slurm}.get(self.kind)
        return 0.0 if chosen is None else chosen.keep / 1e6
