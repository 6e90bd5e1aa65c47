"""Optimistic profiling of one job: few measurements, a matrix, and how far it is right.

Synergy (Mohan et al., OSDI 2022, section 3.1): epochs are measured at a few numbers of CPUs with
all of the dataset in memory, all other cells are modelled. Modelled cells are then measured where
the machine can, and the profile shows both values.

    job file ─▶ machine (simulated or a real server) ─▶ profile ─▶ document, table, facts of a log

The file of a job says what it reads, how fast that is read, and on which servers:

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from pydantic import Field, ValidationError

from shunter.config import (
    Fault,
    Layers,
    Positive,
    Section,
    Share,
    Span,
    Stretch,
    config_error,
    faults_of,
    read_layers,
)
from shunter.core.speeds import SensitivityTable
from shunter.counting import counted
from shunter.errors import ConfigError
from shunter.events import GpuType, ProfileMeasured, Resources
from shunter.run import SCHEMA
from shunter.workloads import (
    BUILTIN_SENSITIVITY,
    CpuSearch,
    MinioModel,
    Profile,
    RelativeProfile,
    table_document,
)

# The file of a job to profile.

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


CLAIM: Final = 0.03
"""How far from the measured one a modelled epoch is at the most, as Synergy claims."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """What a job has while an epoch is measured.

    Attributes:
        cpus: of the whole job.
        memory_mb: of the whole job; 0: all there is, and the whole dataset in it.
    """

    cpus: int
    memory_mb: int = 0


class Machine(Protocol):
    """Where a job is measured."""

    @property
    def evidence(self) -> str:
        """What kind of proof a measurement here is: "simulated" or "live"."""

    @property
    def now_us(self) -> int:
        """The time since measuring began, on the clock of the measurements."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the measurements, a sentence each."""

    def epochs_s(self, points: Sequence[Point]) -> Sequence[float | None]:
        """Return the seconds of an epoch at each point; None where it cannot run.

        With all memory it can.
        """

    def checks(self, profile: Profile) -> list[Point]:
        """Return the points at which a profile can be held to measurements."""


@dataclass(frozen=True)
class Cell:
    """An epoch as measured, and as the profile has it, in seconds."""

    point: Point
    measured_s: float
    modelled_s: float

    @property
    def is_input(self) -> bool:
        """Whether the profile was made of it: it had all memory."""
        return not self.point.memory_mb

    @property
    def error(self) -> float:
        """How much longer the modelled epoch is, as a part of the measured one."""
        return self.modelled_s / self.measured_s - 1


@dataclass(frozen=True)
class Profiled:
    """What came of profiling a job."""

    file: JobFile
    evidence: str
    profile: Profile
    relative: RelativeProfile
    cells: tuple[Cell, ...]
    measured: tuple[ProfileMeasured, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> Cell | None:
        """The modelled cell furthest from its measurement; None without any."""
        modelled = [cell for cell in self.cells if not cell.is_input]
        return max(modelled, key=lambda cell: abs(cell.error), default=None)

    def within_claim(self, *, is_between: bool) -> tuple[int, int]:
        """Return how many modelled cells are as near as is claimed, and of how many.

        Args:
            is_between: those with a number of CPUs that was not measured.
        """
        modelled = [cell for cell in self.cells if not cell.is_input]
        of_kind = [cell for cell in modelled if self.is_between(cell) is is_between]
        return sum(abs(cell.error) <= CLAIM for cell in of_kind), len(of_kind)

    def is_between(self, cell: Cell) -> bool:
        """Say whether the profile has no measurement with a cell's number of CPUs."""
        return cell.point.cpus not in self.profile.full_s

    def table(self) -> dict[str, Any]:
        """Return the document of a table of sensitivity with this model alone."""
        job = self.file.job
        models = {job.model: {job.gpus: self.relative.matrix}}
        about = [f"{self.evidence}: {job.model} on {counted(job.gpus, 'GPU')}", *self.notes]
        return table_document(SensitivityTable(models, job.share, job.model), about)

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        job, demand, worst = self.file.job, self.profile.demand, self.worst
        return {
            "schema": SCHEMA,
            "evidence": self.evidence,
            "model": job.model,
            "gpus": job.gpus,
            "steps": job.steps,
            "epochs_s": {str(cpus): seconds for cpus, seconds in self.profile.full_s.items()},
            "demand_per_gpu": {
                "cpus": demand.cpus_milli / _MILLI,
                "memory_gb": demand.memory_mb / 1000,
            },
            "cells": [_cell_document(cell) for cell in self.cells],
            "worst": None if worst is None else _cell_document(worst),
            "claim": {
                "error": CLAIM,
                "cpus_measured": _count_document(self.within_claim(is_between=False)),
                "cpus_between": _count_document(self.within_claim(is_between=True)),
            },
            "notes": list(self.notes),
            "table": self.table(),
        }


@dataclass
class _Measuring:
    """A machine, and the facts of what was measured on it."""

    machine: Machine
    job: JobSection
    report: Report
    facts: list[ProfileMeasured] = field(default_factory=list)

    def run(self, points: Sequence[Point]) -> list[tuple[Point, float]]:
        """Measure an epoch at each point; return those at which the job runs."""
        found = zip(points, self.machine.epochs_s(points), strict=True)
        ran = [(point, epoch_s) for point, epoch_s in found if epoch_s is not None]
        self.facts += [self._fact(point, epoch_s) for point, epoch_s in ran]
        return ran

    def _fact(self, point: Point, epoch_s: float) -> ProfileMeasured:
        job = self.job
        return ProfileMeasured(
            self.machine.now_us,
            job.model,
            GpuType(job.server.gpu_type),
            job.gpus,
            job.steps / epoch_s,
            job.batch_size,
            point.cpus * _MILLI,
            point.memory_mb or None,
        )


def profiled(file: JobFile, machine: Machine, report: Report) -> Profiled:
    """Measure a job on a machine, and return its profile beside the measurements.

    Args:
        file: the job.
        machine: where it runs.
        report: told what is measured next.
    Raises:
        ConfigError: the measurements make no profile, or what the machine raises.
    """
    job = file.job
    measuring = _Measuring(machine, job, report)
    search = CpuSearch(job.server.cpus, job.gpus)
    what = " (to warm up)"
    while (cpus := search.next_cpus) is not None:
        report(f"an epoch, CPUs: {cpus}{what}")
        [(_, epoch_s)] = measuring.run([Point(cpus)])
        search.record(epoch_s)
        if what:
            measuring.facts.clear()  # of a run to warm up
            what = ""
    full_s = search.epoch_s
    profile = Profile(job.gpus, full_s, job.cache(full_s), job.own_memory_mb)
    checks = machine.checks(profile)
    if checks:
        report(f"modelled cells: {len(checks)}")
    found = measuring.run(checks)
    found += [(Point(cpus), seconds) for cpus, seconds in full_s.items()]
    relative = profile.relative_to(job.share)
    return Profiled(
        file,
        machine.evidence,
        profile,
        relative,
        tuple(_cells(profile, found)),
        tuple(measuring.facts),
        (*machine.notes, *relative.notes),
    )


def _cells(profile: Profile, found: Iterable[tuple[Point, float]]) -> Iterator[Cell]:
    """Yield cells by CPUs and by memory, the most first."""
    full_mb = profile.memory_mb(100) * profile.gpus
    for point, seconds in sorted(
        found, key=lambda each: (-each[0].cpus, -(each[0].memory_mb or inf))
    ):
        memory_mb = (point.memory_mb or full_mb) // profile.gpus
        yield Cell(point, seconds, profile.seconds(point.cpus, memory_mb))


def _count_document(within: tuple[int, int]) -> dict[str, int]:
    return {"cells_within": within[0], "cells": within[1]}


def _cell_document(cell: Cell) -> dict[str, Any]:
    return {
        "cpus": cell.point.cpus,
        "memory_gb": cell.point.memory_mb / 1000 or None,
        "measured_s": cell.measured_s,
        "modelled_s": cell.modelled_s,
        "error": cell.error,
        "is_input": cell.is_input,
    }
