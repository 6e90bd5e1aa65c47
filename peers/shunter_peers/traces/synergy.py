"""The traces of the Synergy simulator: comma-separated, no header, one job a line.

`id,model,arrival_s,iterations,gpus` (Mohan et al., OSDI 2022; commit 1bb2bed). A row gives
iterations, not a duration: that is iterations x the published seconds of one at the GPU's share of
a server, on however many GPUs. Those seconds depend on how many CPUs servers have for each GPU;
option `cpus_per_gpu` says it. Option `unknown` says what becomes of rows with models of which
nothing is published: an error, or they are dropped.
"""

from typing import Final

from shunter.errors import TraceError
from shunter.events import JobId, JobSpec
from shunter.workloads import Fault, Inspection, TraceJob, published_models
from shunter.workloads.formats import (
    SECONDS_MAX,
    DelimitedRows,
    TraceFormat,
    TraceText,
    can_read,
    first_fault,
    read_positive,
    read_seconds,
)

_COLUMNS: Final = ("id", "model", "arrival_s", "iterations", "gpus")
_RATIOS: Final = ("3", "4", "5", "6")
_UNKNOWN: Final = ("error", "drop")


def parse_synergy(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them.

    Raises:
        TraceError: the file has a header, or a model of which nothing is published.
    """
    rows = DelimitedRows(file, _COLUMNS)
    models = _Models(file)
    jobs: list[TraceJob] = []
    for fields in rows:
        inspection.rows_read += 1
        if rows.last_row_line == 0 and _is_header(fields):
            raise TraceError(
                f"{file.path}, line {rows.line}: expected a job, not a header: a trace of format "
                f"synergy has none, and its columns are {', '.join(_COLUMNS)}; remove the line"
            )
        if not rows.is_whole(fields, inspection):
            continue
        job_id, model, arrival, iterations, gpus = cells = [cell.strip() for cell in fields]
        if not job_id or not model:
            inspection.drop(Fault.missing, "model" if job_id else "id", "", rows.line)
            continue
        try:
            submit_us, width = read_seconds(arrival), read_positive(gpus)
            steps = read_positive(iterations)
        except ValueError:
            inspection.drop(*_fault(cells), rows.line)
            continue
        step_s = models.iteration_s(model, rows.line)
        if step_s is None:
            inspection.drop(Fault.unknown, "model", model, rows.line)
        elif steps * step_s > SECONDS_MAX:
            inspection.drop(Fault.impossible, "iterations", iterations, rows.line)
        else:
            spec = models.spec(width, model, steps)
            jobs.append(TraceJob(JobId(job_id), submit_us, spec, round(steps * step_s * 1e6)))
            inspection.places.append(rows.line)
    rows.report_blanks(inspection)
    return jobs


class _Models:
    """Looks models up among the published ones; equal specifications are one object."""

    def __init__(self, file: TraceText) -> None:
        self._path = file.path
        self._is_refused = file.options["unknown"] == "error"
        self._specs: dict[tuple[int, str, int], JobSpec] = {}
        ratio = file.options["cpus_per_gpu"]
        self._iteration_s: dict[str, float] = {
            name: model["on_servers"][ratio]["iter_time_s"]
            for name, model in published_models().items()
        }

    def iteration_s(self, model: str, line: int) -> float | None:
        """Return the seconds of an iteration; None: unknown, and such rows are dropped.

        Raises:
            TraceError: they are an error.
        """
        found = self._iteration_s.get(model)
        if found is None and self._is_refused:
            raise TraceError(
                f"{self._path}, line {line}: nothing is published of model {model!r}: expected "
                f"one of {', '.join(self._iteration_s)}; correct it, or leave such rows out with "
                "workload.options.unknown = 'drop' (--option unknown=drop)"
            )
        return found

    def spec(self, gpus: int, model: str, steps: int) -> JobSpec:
        """Return the specification of a row."""
        key = gpus, model, steps
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = JobSpec(gpus=gpus, model=model, total_steps=steps)
        return spec


def _is_header(fields: list[str]) -> bool:
    """Say whether a row has no number where jobs have three."""
    return len(fields) == len(_COLUMNS) and not any(can_read(float, cell) for cell in fields[2:])


def _fault(cells: list[str]) -> tuple[Fault, str, str]:
    _, _, arrival, iterations, gpus = cells
    return first_fault(
        ("arrival_s", arrival, read_seconds),
        ("iterations", iterations, read_positive),
        ("gpus", gpus, read_positive),
    )


def _recognises(head: str) -> bool:
    """Say whether a file begins with a job: its model is no number, what follows is."""
    line = head.lstrip("\r\n ").partition("\n")[0]
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_COLUMNS) or not cells[1] or can_read(float, cells[1]):
        return False
    return all(can_read(float, cell) for cell in cells[2:])


FORMAT: Final = TraceFormat(
    name="synergy",
    recognises=_recognises,
    parse=parse_synergy,
    options={"cpus_per_gpu": _RATIOS, "unknown": _UNKNOWN},
)
