"""A table of sensitivity as a log records it: whole amounts per GPU, and speeds.

    {"proportional": [3000, 62500],
     "models": {"res50": {"1": [[1000, 3000], [62500, 125000], [[0.4, 0.4], [1.0, 1.0]]]}}}

Amounts are thousandths of a CPU and MB for each GPU.
"""

from collections.abc import Mapping
from typing import Any

from shunter.core.speeds.sensitivity import Sensitivity, SensitivityTable
from shunter.errors import ConfigError
from shunter.events.values.resources import Resources


def compact_form(table: SensitivityTable) -> dict[str, object]:
    """Return a table as JSON values, the same ones for equal tables."""
    fair = table.proportional
    return {
        "proportional": [fair.cpus_milli, fair.memory_mb],
        "models": {
            model: {
                str(gpus): [
                    list(matrix.cpus_milli),
                    list(matrix.memory_mb),
                    [list(row) for row in matrix.speeds],
                ]
                for gpus, matrix in sorted(sizes.items())
            }
            for model, sizes in sorted(table.models.items())
        },
    }


def parse_compact(form: Mapping[str, Any], name: str) -> SensitivityTable:
    """Return the table that `compact_form` wrote.

    Raises:
        ConfigError: it did not.
    """
    try:
        cpus_milli, memory_mb = form["proportional"]
        models = {
            str(model): {
                int(gpus): Sensitivity(
                    tuple(map(int, cpus)),
                    tuple(map(int, memory)),
                    tuple(tuple(map(float, row)) for row in rows),
                )
                for gpus, (cpus, memory, rows) in sizes.items()
            }
            for model, sizes in form["models"].items()
        }
        return SensitivityTable(models, Resources(0, int(cpus_milli), int(memory_mb)), name)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error
