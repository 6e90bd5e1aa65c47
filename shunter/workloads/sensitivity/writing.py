"""Writing a table of sensitivity: the document of a file that `load_sensitivity` reads."""

from collections.abc import Iterable
from typing import Any

from shunter.core.performance.sensitivity import Sensitivity, SensitivityTable
from shunter.errors import ConfigError
from shunter.workloads.sensitivity.profiling import resampled

_MILLI, _MB = 1000, 1000


def table_document(table: SensitivityTable, about: Iterable[str] = ()) -> dict[str, Any]:
    """Return a table as a file of it has it.

    All models of a file have the same points: those of any matrix, and the
    proportional share. A matrix that lacks one gets it
    where the core takes its speed to be, so that no speed changes. What a model is with its fewest
    GPUs counts for jobs with fewer as well, in a table as in the file.

    Args:
        table: the models and the proportional share, at which all their speeds are 1.
        about: what is to be said of the table, such as the notes of profiles; not read back.
    Raises:
        ConfigError: there is no model, or one without a matrix.
    """
    matrices = [matrix for sizes in table.models.values() for matrix in sizes.values()]
    if not matrices or not all(table.models.values()):
        raise ConfigError(f"{table.name or 'table'}: expected models, each with a matrix")
    fair = table.proportional
    cpus = sorted({fair.cpus_milli, *(at for matrix in matrices for at in matrix.cpus_milli)})
    memory = sorted({fair.memory_mb, *(at for matrix in matrices for at in matrix.memory_mb)})

    def rows(matrix: Sensitivity) -> dict[str, object]:
        return {"table": [list(row) for row in resampled(matrix, cpus, memory)]}

    models: dict[str, Any] = {}
    for model, sizes in sorted(table.models.items()):
        fewest, *others = sorted(sizes)
        models[model] = rows(sizes[fewest])
        if others:
            models[model]["multi_gpu"] = {str(gpus): rows(sizes[gpus]) for gpus in others}
    return {
        "about": list(about),
        "proportional_per_gpu": {
            "cpus": fair.cpus_milli / _MILLI,
            "memory_gb": fair.memory_mb / _MB,
        },
        "cpu_points": [point / _MILLI for point in cpus],
        "memory_gb_points": [point / _MB for point in memory],
        "models": models,
    }
