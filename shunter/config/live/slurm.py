"""`[backend.slurm]`: a partition of a Slurm cluster, used as any user of it may.

Slurm's commands are found by PATH and SLURM_CONF of the daemon. Its servers stand in `[cluster]`,
under the names that Slurm knows them by.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shunter.config.live.limits import LimitsSection
from shunter.config.section import Positive, Span, Stretch

_SECOND = 1_000_000
POLL_LEAST = 2 * _SECOND
"""One question for the whole queue costs the controller little, and it answers others as well."""

OURS = frozenset(
    {"account", "array", "chdir", "comment", "cpus-per-task", "error", "export", "gid", "gpus"}
    | {"gpus-per-node", "gpus-per-task", "gres", "input", "job-name", "mem", "mem-per-cpu"}
    | {"mem-per-gpu", "no-requeue", "nodelist", "nodes", "ntasks", "ntasks-per-node", "open-mode"}
    | {"output", "parsable", "partition", "qos", "requeue", "signal", "test-only", "time", "uid"}
    | {"wait", "wrap", "clusters", "gpus-per-socket", "tres-per-task", "hold", "dependency"}
)
"""Options of sbatch that follow from the config and from what is planned."""

Option = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=.*)?$")]


class SlurmSection(LimitsSection):
    """A Slurm cluster, without any rights but those of who runs the daemon."""

    root: str = Field(
        min_length=1,
        description="a folder that this machine and all nodes share under the same path, for "
        "attempts, checkpoints and output",
    )
    partition: str = Field(min_length=1, description="the partition whose nodes stand in [cluster]")
    mode: Literal["pilot", "per-job"] = Field(
        default="pilot",
        description="'pilot': hold nodes by long jobs and run ours inside; 'per-job': one sbatch "
        "for each attempt, which gets its GPUs from Slurm",
    )
    stops_by: Literal["signals", "scontrol"] = Field(
        default="signals",
        description="how a job that is to stand still where it is does so in mode 'per-job': by "
        "'signals' alone, or suspended in Slurm as well ('scontrol'), which needs the rights of an "
        "operator; it keeps its GPUs either way",
    )
    account: str = Field(default="", description="the account to charge; empty: the user's usual")
    qos: str = Field(default="", description="the quality of service; empty: the usual one")
    time_limit: Stretch = Field(
        default=86_400 * _SECOND,
        description="how long Slurm is asked for a pilot, or for an attempt that names no limit",
    )
    idle_release: Span = Field(
        default=600 * _SECOND, description="how long a pilot without jobs keeps its node"
    )
    pilots_max: Positive | None = Field(
        default=None, description="pilots at once; no bound if left out but the nodes"
    )
    poll: Annotated[Stretch, Field(ge=POLL_LEAST)] = Field(
        default=5 * _SECOND, description="how often squeue is asked, once for all jobs; 2s or more"
    )
    call: Stretch = Field(
        default=20 * _SECOND,
        description="how long a command of Slurm may take; what takes longer is unknown",
    )
    python: str = Field(
        default="python3", min_length=1, description="Python 3.8 or later on the nodes"
    )
    listen: str = Field(
        default="", description="the address at which pilots dial in; empty: all of this machine"
    )
    addresses: tuple[str, ...] = Field(
        default=(),
        description="what the nodes call this machine, tried in turn; its host name if left out",
    )
    margin: Stretch = Field(
        default=30 * _SECOND,
        description="how long after heartbeat_deadline until a node that is silent counts as lost",
    )
    options: tuple[Option, ...] = Field(
        default=(), description="further options of sbatch, such as '--constraint=nvlink'"
    )

    @model_validator(mode="after")
    def _suspends_jobs_of_its_own(self) -> Self:
        if self.stops_by == "scontrol" and self.mode != "per-job":
            raise ValueError(
                "stops_by: 'scontrol' needs mode = 'per-job': a pilot is one job of Slurm, with "
                "all that runs inside; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _asks_for_nothing_twice(self) -> Self:
        for option in self.options:
            name = option.partition("=")[0].removeprefix("--")
            if name in OURS:
                raise ValueError(
                    f"options: {option} follows from other keys or from the plan; leave it out"
                )
        return self
