"""Optimistic profiling of one job: few measurements, a matrix, and how far it is right.

Synergy (Mohan et al., OSDI 2022, section 3.1): epochs are measured at a few numbers of CPUs with
all of the dataset in memory, all other cells are modelled. Cells that were modelled are then
measured where the machine can, and both stand beside each other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

from shunter.core.speeds.sensitivity import SensitivityTable
from shunter.counting import counted
from shunter.events.facts import ProfileMeasured
from shunter.events.values import GpuType
from shunter.ops.profiling.job_file import JobFile, JobSection
from shunter.run.summary import SCHEMA
from shunter.workloads.profiling import CpuSearch, Profile, RelativeProfile, table_document

_MILLI = 1000
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
