"""The simulated backend as what a job is measured on: as fast as a table of sensitivity says.

Each measurement is a job that runs an epoch on a server of its own, with CPUs and memory that it
asks for; those that are asked for together run in one simulation.
"""

from collections.abc import Sequence
from functools import cached_property

from shunter.config import make_config, read_text
from shunter.core.speeds import Sensitivity
from shunter.events import JobId, JobSpec
from shunter.ops.profiling import JobFile, Point
from shunter.plugins import did_you_mean
from shunter.run import simulate
from shunter.workloads import (
    BUILTIN_SENSITIVITY,
    Profile,
    QualityReport,
    SensitivityFile,
    Trace,
    TraceJob,
    load_sensitivity,
    published_models,
)

_MILLI, _US = 1000, 1_000_000


class SimulatedMachine:
    """Runs a job on simulated servers.

    Raises:
        ConfigError: the table cannot be read or lacks the model, or nobody says how long an epoch
            takes.
    """

    evidence = "simulated"

    def __init__(self, file: JobFile) -> None:
        self._file, self._job = file, file.job
        self._source = self._named()
        found = self._read()
        self._table, self._digest = found.table, found.digest
        self._epoch_us = round(self._seconds() * _US)
        self._now_us = 0

    @property
    def now_us(self) -> int:
        """The virtual time that all measurements took so far."""
        return self._now_us

    @property
    def notes(self) -> tuple[str, ...]:
        """What the job's speed was taken from."""
        seconds = self._epoch_us / _US
        return (
            (
                f"the job is as fast as {self._job.model} in {self._source}, with {seconds:g} s an "
                "epoch at the proportional share there"
            ),
        )

    def epochs_s(self, points: Sequence[Point]) -> list[float]:
        """Return the seconds of an epoch at each point."""
        job = self._job
        specs = [
            JobSpec(
                job.gpus,
                model=job.model,
                cpus_milli=each.cpus * _MILLI,
                memory_mb=each.memory_mb or self._memory_mb,
            )
            for each in points
        ]
        jobs = [
            TraceJob(JobId(f"p{number}"), 0, spec, self._epoch_us)
            for number, spec in enumerate(specs)
        ]
        report = QualityReport(len(jobs), len(jobs), len(jobs))
        trace = Trace(self._file.layers.source, "profile", jobs, self._digest, report)
        result = simulate(make_config(self._config(len(jobs)), "profile"), trace=trace)
        spans = {each.job_id: each.jct_us or 0 for each in result.stories()}
        ran = [spans[each.job_id] for each in jobs]
        self._now_us += max(ran, default=0)
        return [span_us / _US for span_us in ran]

    def checks(self, profile: Profile) -> list[Point]:
        """Return the points to hold a profile to: those of the table.

        CPUs are within the profile's, memory is less than the server has.
        """
        gpus, matrix = self._job.gpus, self._matrix
        return [
            Point(cpus_milli * gpus // _MILLI, memory_mb * gpus)
            for cpus_milli in matrix.cpus_milli
            if profile.cpus[0] * _MILLI <= cpus_milli * gpus <= profile.cpus[-1] * _MILLI
            for memory_mb in matrix.memory_mb
            if memory_mb * gpus < self._memory_mb
        ]

    @property
    def _memory_mb(self) -> int:
        return round(self._job.server.memory_gb * 1000)

    @cached_property
    def _matrix(self) -> Sensitivity:
        matrix = self._table.of(JobSpec(self._job.gpus, model=self._job.model))
        assert matrix is not None, "the table has the model"
        return matrix

    def _named(self) -> str:
        source = self._job.simulated.table
        return source if source.startswith("builtin:") else str(self._file.folder / source)

    def _read(self) -> SensitivityFile:
        found = load_sensitivity(self._source, read_text)
        model = self._job.model
        if model not in found.table.models:
            known = did_you_mean(model, tuple(sorted(found.table.models)))
            raise self._file.wrong("model", what=f"no model {model!r} in {self._source}{known}")
        return found

    def _seconds(self) -> float:
        """Return the seconds of an epoch at the table's proportional share."""
        said, job = self._job.simulated.epoch_s, self._job
        if said is not None:
            return said
        if self._source != BUILTIN_SENSITIVITY:
            what = f"missing; expected seconds of an epoch, which {self._source} does not say"
            raise self._file.wrong("simulated", "epoch_s", what=what)
        servers = published_models()[job.model]["on_servers"]
        cpus = self._table.proportional.cpus_milli // _MILLI
        return job.steps * float(servers[str(cpus)]["iter_time_s"])

    def _config(self, jobs: int) -> dict[str, object]:
        server = self._job.server
        node = {
            "name": f"s[1-{jobs}]" if jobs > 1 else "s1",
            "gpus": server.gpus,
            "type": server.gpu_type,
            "cpus": server.cpus,
            "memory_gb": server.memory_gb,
        }
        return {
            "cluster": {"nodes": [node]},
            "workload": {"trace": self._file.layers.source, "sensitivity": self._source},
            "policy": {"name": "fifo"},
            "log": {"url": "none:"},
        }
