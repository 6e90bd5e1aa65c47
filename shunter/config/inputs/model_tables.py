"""The tables of models: their speed with other CPUs, memory, distances and neighbours."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from shunter.config.faults import Fault
from shunter.config.inputs.text import read_text
from shunter.config.keys import Path
from shunter.config.layers import FACTORS, SENSITIVITY, TRUE_SENSITIVITY
from shunter.config.model import Config
from shunter.errors import ConfigError

if TYPE_CHECKING:
    from shunter.workloads.factors import FactorFile
    from shunter.workloads.sensitivity import SensitivityFile

F = TypeVar("F", "FactorFile", "SensitivityFile")


def read_sensitivity(
    config: Config | None, known: "SensitivityFile | None", faults: list[Fault]
) -> "SensitivityFile | None":
    """Return the table of sensitivity if one is named."""
    source = None if config is None else config.workload.sensitivity
    if source is None:
        return None
    from shunter.workloads.sensitivity import load_sensitivity

    return _read(source, SENSITIVITY, load_sensitivity, known, faults)


def read_true_sensitivity(
    config: Config | None, known: "SensitivityFile | None", faults: list[Fault]
) -> "SensitivityFile | None":
    """Return the table of how fast simulated jobs really are, if one is named."""
    source = None if config is None else config.simulation.speeds.sensitivity
    if source is None:
        return None
    from shunter.workloads.sensitivity import load_sensitivity

    return _read(source, TRUE_SENSITIVITY, load_sensitivity, known, faults)


def read_factors(
    config: Config | None, known: "FactorFile | None", faults: list[Fault]
) -> "FactorFile | None":
    """Return the table of factors if one is named."""
    source = None if config is None else config.workload.factors
    if source is None:
        return None
    from shunter.workloads.factors import load_factors

    return _read(source, FACTORS, load_factors, known, faults)


def _read(
    source: str,
    key: Path,
    load: Callable[[str, Callable[[str], str]], F],
    known: F | None,
    faults: list[Fault],
) -> F | None:
    """Return the table a key names, or the known one; note its faults."""
    if known is not None and known.table.name == source:
        return known
    try:
        return load(source, read_text)
    except ConfigError as error:
        faults += [Fault(key, line) for line in str(error).splitlines()]
        return None
