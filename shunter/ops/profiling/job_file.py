"""The file of a job to profile: what it reads, how fast that is read, and on which servers.

model = "res18"
samples = 1281167
batch_size = 512
dataset_gb = 140
disk_mb_s = 500
memory_gb_s = {1 = 1.0, 24 = 10.0}

[server]
gpus = 8
cpus = 24
memory_gb = 500
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from shunter.config.faults import Fault, config_error, faults_of
from shunter.config.layers import Layers, read_layers
from shunter.config.section import Positive, Section, Share, Span, Stretch
from shunter.errors import ConfigError
from shunter.events.values import Resources
from shunter.workloads.profiling import MinioModel
from shunter.workloads.sensitivity import BUILTIN_SENSITIVITY

_MILLI, _MB = 1000, 1000
Gigabytes = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
"""A size above 0; 1 GB is 1000 MB."""


class ServerSection(Section):
    """A server; its CPUs and memory over its GPUs are the proportional share."""

    gpus: Positive = Field(description="GPUs")
    cpus: Positive = Field(description="CPU cores: the most that the job is measured with")
    memory_gb: Gigabytes = Field(description="memory in GB of 1000 MB")
    gpu_type: str = Field(default="gpu", min_length=1, description="GPU type, such as 'v100'")


class SimulatedSection(Section):
    """How fast the job is taken to be with `--simulated`."""

    table: str = Field(
        default=BUILTIN_SENSITIVITY,
        min_length=1,
        description="table of sensitivity that has the model: 'builtin:synergy' or a JSON file",
    )
    epoch_s: Share | None = Field(
        default=None,
        description="seconds of an epoch at the table's proportional share; by the published "
        "seconds of an iteration if left out, which only 'builtin:synergy' has",
    )


class MeasuringSection(Section):
    """How long the job is measured on this machine."""

    warm_up: Span = Field(
        default=10_000_000, description="time after its first mini-batch that does not count"
    )
    time: Stretch = Field(default=30_000_000, description="how long its rate is measured then")
    give_up: Stretch = Field(
        default=600_000_000, description="how long it may take to tell of another mini-batch"
    )
    dataset: tuple[str, ...] = Field(
        default=(),
        description="files and folders of the dataset; they are dropped from memory before the job "
        "is measured with less of it, and none are if nothing is named",
    )


class JobSection(Section):
    """A job to profile."""

    model: str = Field(min_length=1, description="the model's name in the table to write")
    command: tuple[str, ...] = Field(default=(), description="program and arguments that train it")
    gpus: Positive = Field(default=1, description="GPUs of the job, on one server")
    samples: Positive = Field(description="samples of the dataset, each read once an epoch")
    batch_size: Positive = Field(description="samples of a mini-batch, over all GPUs of the job")
    dataset_gb: Gigabytes = Field(description="size of the dataset in GB of 1000 MB")
    own_memory_gb: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        default=0.0, description="memory that the job needs besides, in GB for each GPU"
    )
    disk_mb_s: Share = Field(description="MB per second read from disk")
    memory_gb_s: dict[Positive, Share] = Field(
        min_length=1,
        description="GB per second read from memory, by CPUs of the job: {1 = 1.0, 24 = 10.0}",
    )
    server: ServerSection = Field(description="a table [server]: its gpus, cpus and memory_gb")
    simulated: SimulatedSection = Field(
        default=SimulatedSection.usual(), description="how fast the job is with --simulated"
    )
    measuring: MeasuringSection = Field(
        default=MeasuringSection.usual(), description="how long the job is measured"
    )

    @property
    def steps(self) -> int:
        """Mini-batches of an epoch; the last one may be smaller."""
        return -(-self.samples // self.batch_size)

    @property
    def own_memory_mb(self) -> int:
        """MB that the job needs besides its dataset, for each GPU."""
        return round(self.own_memory_gb * _MB)

    @property
    def share(self) -> Resources:
        """The CPUs and memory that go with each GPU of a server in proportion."""
        server = self.server
        cpus_milli = server.cpus * _MILLI // server.gpus
        return Resources(0, cpus_milli, round(server.memory_gb * _MB) // server.gpus)

    def cache(self, counts: Iterable[int]) -> MinioModel:
        """Return how fast the dataset is read with these numbers of CPUs."""
        bandwidths = {cpus: self._bandwidth(cpus) for cpus in counts}
        return MinioModel(self.dataset_gb, bandwidths, self.disk_mb_s)

    def _bandwidth(self, cpus: int) -> float:
        """Return GB per second read from memory.

        Between two numbers of CPUs it lies on a straight line, beyond the last it is as there, and
        below the first it falls to 0 at no CPUs: as the core takes speeds in a table.
        """
        points = sorted(self.memory_gb_s)
        above = bisect_left(points, cpus)
        if above == len(points):
            return self.memory_gb_s[points[-1]]
        high = points[above]
        low = points[above - 1] if above else 0
        at_low = self.memory_gb_s[low] if low else 0.0
        return at_low + (self.memory_gb_s[high] - at_low) * (cpus - low) / (high - low)


@dataclass(frozen=True)
class JobFile:
    """A job to profile, and where each of its values stands."""

    job: JobSection
    layers: Layers

    @property
    def folder(self) -> Path:
        """The folder that paths of the file are relative to."""
        return Path(self.layers.source).parent

    def wrong(self, *path: str, what: str) -> ConfigError:
        """Return the error of a key that does not go with what is asked."""
        return config_error([Fault(path, what)], self.layers.origins, self.layers.source)


def read_job_file(path: Path) -> JobFile:
    """Read and check the file of a job.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: one line for each key that is wrong.
    """
    layers = read_layers(path)
    try:
        job = JobSection.model_validate_json(json.dumps(layers.tree, default=str))
    except ValidationError as error:
        faults = faults_of(error, JobSection, layers.tree)
    else:
        faults = list(_misfits(job))
        if not faults:
            return JobFile(job, layers)
    raise config_error(faults, layers.origins, layers.source)


def _misfits(job: JobSection) -> Iterator[Fault]:
    """Yield what does not go together."""
    server = job.server
    if job.gpus > server.gpus:
        what = f"expected at most the {server.gpus} of one server (server.gpus), not {job.gpus}"
        yield Fault(("gpus",), what)
    if job.gpus > server.cpus:
        what = f"expected a CPU for each of the job's {job.gpus} GPUs, not {server.cpus}"
        yield Fault(("server", "cpus"), what)
    needed_gb = job.dataset_gb + job.own_memory_gb * job.gpus
    if needed_gb > server.memory_gb:
        what = f"expected {needed_gb:g} or more, for epochs are measured with the whole dataset in "
        what += f"memory (dataset_gb, own_memory_gb), not {server.memory_gb:g}"
        yield Fault(("server", "memory_gb"), what)
