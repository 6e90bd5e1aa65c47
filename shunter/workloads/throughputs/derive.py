"""Derive the built-in table from the throughput file of the Gavel simulator.

    python -m shunter.workloads.throughputs.derive simulation_throughputs.json gavel.json

Kept are the three GPU types on which a simulation can run, with three significant digits: what the
measurements are worth. README.md names source and licence.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Final

from shunter.core.speeds.speed_model import ThroughputTable
from shunter.errors import UsageError
from shunter.events.values.ids import GpuType
from shunter.workloads.throughputs.compact import compact_form
from shunter.workloads.throughputs.reading import load_throughputs

GPU_TYPES: Final = (GpuType("k80"), GpuType("p100"), GpuType("v100"))

SOURCE: Final = (
    "simulation_throughputs.json of the Gavel simulator (stanford-futuredata, commit c4fa400), "
    "Narayanan et al., OSDI 2020; three significant digits"
)


def derive_table(table: ThroughputTable) -> dict[str, object]:
    """Return the table as it is shipped, from the whole one."""
    narrowed = table.narrowed(GPU_TYPES)
    rounded = replace(
        narrowed,
        alone={
            gpu_type: {kind: _rounded(rate) for kind, rate in rates.items()}
            for gpu_type, rates in narrowed.alone.items()
        },
        paired={
            gpu_type: {pair: (_rounded(one), _rounded(other)) for pair, (one, other) in at.items()}
            for gpu_type, at in narrowed.paired.items()
        },
    )
    remarks = {
        "source": SOURCE,
        "licence": "MIT",
        "derived_by": "shunter/workloads/throughputs/derive.py",
    }
    return {**remarks, **compact_form(rounded)}


def main(arguments: Sequence[str]) -> None:
    """Read the file named first, write the table to the file named second."""
    if len(arguments) != 2:
        raise UsageError("derive takes two paths: simulation_throughputs.json gavel.json")
    source = load_throughputs(arguments[0], lambda path: Path(path).read_text(encoding="utf-8"))
    Path(arguments[1]).write_text(_text(derive_table(source.table)), encoding="utf-8")


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")


def _text(table: dict[str, object]) -> str:
    """Return JSON with one kind a line, and rates in lines of a hundred characters."""
    parts = []
    for key, value in table.items():
        match value:
            case dict():
                columns = (f"{json.dumps(name)}:\n{_filled(at)}" for name, at in value.items())
                text = "{\n" + ",\n".join(columns) + "\n}"
            case list():
                text = "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
            case _:
                text = json.dumps(value)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _filled(numbers: list[object]) -> str:
    return fill(json.dumps(numbers), 100, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main(sys.argv[1:])
