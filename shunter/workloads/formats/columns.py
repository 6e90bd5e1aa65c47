"""The columns of a canonical trace that become the job's specification, one line each.

Units: seconds, whole jobs' CPUs, gigabytes of 1,000 megabytes. docs/reference/traces.md lists them
for people, and a test compares the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Final

from shunter.core.planning.approver import unfit_for_sizes
from shunter.core.speeds.speed_model import unfit_contract
from shunter.events.values.job_spec import JobSpec, Level, SuspendMode
from shunter.workloads.formats import cells
from shunter.workloads.formats.format import read_count, read_seconds
from shunter.workloads.quality import Fault, number_fault

REQUIRED: Final = ("submit_s", "duration_s", "gpus")
ROW_COLUMNS: Final = ("job_id", "submit_s", "duration_s", "status")
"""The columns that are a job's own; all others are its specification's."""


@dataclass(frozen=True)
class Column:
    """One column: the field it fills, and how texts and values turn into each other.

    `read` and `write` handle one item where the column is a list.
    """

    name: str
    field: str
    read: Callable[[str], object]
    write: Callable[[object], str]
    is_number: bool = False
    is_list: bool = False

    def value(self, text: str) -> object:
        """Return the value of a cell that is not empty; ValueError if it is none."""
        if self.is_list:
            return tuple(self.read(item) for item in cells.split_list(text))
        return self.read(text)

    def texts(self, spec: JobSpec) -> str | list[str]:
        """Return what to write for a specification; empty stands for an optional default."""
        value = getattr(spec, self.field)
        if value == _DEFAULTS[self.field] and self.name not in REQUIRED:
            return ""
        return [self.write(item) for item in value] if self.is_list else self.write(value)

    def fault(self, text: str) -> Fault:
        """Return what is wrong with a text `value` refused."""
        if self.is_number:
            return number_fault(text)
        return Fault.unparsable if text.strip() else Fault.missing


def read_spec(texts: Mapping[str, str]) -> JobSpec:
    """Return the specification of a row; ValueError if a cell is wrong."""
    spec = _build(texts)
    if wrong := _contradiction(spec):
        raise ValueError(f"impossible {wrong}")
    return spec


def spec_fault(texts: Mapping[str, str]) -> tuple[Fault, str, str] | None:
    """Return fault, column and text of the first wrong cell; None if none is."""
    for column in SPEC_COLUMNS:
        text = texts.get(column.name, "")
        if text or column.name in REQUIRED:
            try:
                column.value(text)
            except ValueError:
                return column.fault(text), column.name, text
    wrong = _contradiction(_build(texts))
    return (Fault.impossible, wrong, texts.get(wrong, "")) if wrong else None


def _build(texts: Mapping[str, str]) -> JobSpec:
    values = {
        column.field: column.value(text)
        for column in SPEC_COLUMNS
        if (text := texts.get(column.name, "")) or column.name in REQUIRED
    }
    return JobSpec(**values)  # type: ignore[arg-type]  # a test holds columns and fields together


def _contradiction(spec: JobSpec) -> str:
    """Return the column that cannot be as the others are; empty if none."""
    if not spec.gpus and not spec.cpus_milli:
        return "gpus"
    if (unfit := unfit_for_sizes(spec) or unfit_contract(spec)) is not None:
        return unfit[0]
    return "shapes" if any(sum(shape) != spec.gpus for shape in spec.shapes) else ""


def _seconds(value: object) -> str:
    assert isinstance(value, int)
    return cells.fixed_text(value, 6)


def _thousandths(value: object) -> str:
    assert isinstance(value, int)
    return cells.fixed_text(value, 3)


def _number(name: str, read: Callable[[str], object]) -> Column:
    return Column(name, name, read, str, is_number=True)


def _text(name: str) -> Column:
    return Column(name, name, str, str)


def _time(name: str, read: Callable[[str], object]) -> Column:
    return Column(name, f"{name.removesuffix('_s')}_us", read, _seconds, is_number=True)


_DEFAULTS: Final = {
    each.name: None if each.default is MISSING else each.default for each in fields(JobSpec)
}

SPEC_COLUMNS: Final = (
    _number("gpus", read_count),
    _text("user"),
    _text("queue"),
    _text("model"),
    _number("batch_size", cells.read_positive),
    _number("total_steps", cells.read_positive),
    Column("cpus", "cpus_milli", cells.read_thousandths, _thousandths, is_number=True),
    Column("memory_gb", "memory_mb", cells.read_thousandths, _thousandths, is_number=True),
    _time("time_limit_s", cells.read_length),
    _number("weight", cells.read_above_zero),
    _number("priority", cells.read_priority),
    Column("gpu_type", "gpu_types", str, str, is_list=True),
    _text("name"),
    _text("group"),
    Column("command", "command", str, str, is_list=True),
    _text("directory"),
    _number("gpus_min", cells.read_positive),
    _number("gpus_max", cells.read_positive),
    Column("shapes", "shapes", cells.read_shape, cells.write_shape, is_list=True),
    _time("deadline_s", read_seconds),
    Column("depends_on", "depends_on", cells.read_dependency, cells.write_dependency, is_list=True),
    _number("array_index", read_count),
    Column("tolerance", "tolerance", cells.read_tolerance, cells.write_tolerance, is_list=True),
    Column("max_level", "max_level", Level, str),
    _number("min_speed", cells.read_above_zero),
    Column("suspend_mode", "suspend_mode", SuspendMode, str),
    _time("checkpoint_interval_s", cells.read_length),
    _number("skew", cells.read_part),
    _text("array"),
    _number("at_once", cells.read_positive),
    Column("split_may_change", "split_may_change", cells.read_yes, cells.write_yes),
    _number("retries", read_count),
    Column(
        "shape_tolerance",
        "shape_tolerance",
        cells.read_shape_tolerance,
        cells.write_shape_tolerance,
        is_list=True,
    ),
    _number("interference", cells.read_part),
    Column("migratable", "migratable", cells.read_yes, cells.write_yes),
)
"""In the order of the specification's fields."""
