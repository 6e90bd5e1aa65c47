"""Tables of sensitivity to CPUs and memory: read from files, and recorded in a log.

A file:

    {"proportional_per_gpu": {"cpus": 3, "memory_gb": 62.5},
     "cpu_points": [1, 3, 6], "memory_gb_points": [62.5, 125],
     "models": {"res50": {"table": [[0.4, 0.4], [1.0, 1.0], [1.15, 1.15]]}}}

The form in a log, in thousandths of a CPU and MB for each GPU:

    {"proportional": [3000, 62500],
     "models": {"res50": {"1": [[1000, 3000], [62500, 125000], [[0.4, 0.4], [1.0, 1.0]]]}}}
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, Final

from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.errors import ConfigError
from shunter.events import Resources
from shunter.workloads.loading import table_text

# What the Synergy simulator publishes of its models; `data/synergy.json` describes itself.

PUBLISHED = Path(__file__).parent / "data" / "synergy.json"


@cache
def published_models() -> dict[str, Any]:
    """Return the published models by name, as the file has them; nobody changes them."""
    models: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))["models"]
    return models


# Reading a table: rows are CPUs for each GPU, columns memory, cells the throughput over that at the
# proportional share. `multi_gpu` has tables by GPUs, with columns `multi_gpu_memory_gb_points`;
# rows of 0 at their end were not measured. Unknown and repeated keys are faults.

BUILTIN_SENSITIVITY: Final = "builtin:synergy"
"""The source that names the table of the package: what the Synergy simulator publishes."""

SPEED_MOST = 1e6
GANG_MOST = (1 << 16) - 1
_SHOWN_MOST = 5
_MILLI, _MB = 1000, 1000
_GANG = re.compile("[1-9][0-9]{0,4}")  # written in one way, so that no gang is there twice
_KEYS = (
    *("about", "source", "server", "proportional_per_gpu", "cpu_points", "memory_gb_points"),
    *("multi_gpu_memory_gb_points", "models"),
)
_MODEL_KEYS = ("about", "class", "batch", "on_servers", "table", "multi_gpu")
_GANG_KEYS = ("about", "speedup", "cpus", "memory_gb", "storage_mbps", "table")
_SHARE_KEYS = ("cpus", "memory_gb", "storage_mbps", "network_gbps")


@dataclass(frozen=True)
class SensitivityFile:
    """A table, and the digest of the text it was read from."""

    table: SensitivityTable
    digest: str


def load_sensitivity(source: str, read: Callable[[str], str]) -> SensitivityFile:
    """Return the table a source names: the built-in one, or a file's.

    Args:
        source: `BUILTIN_SENSITIVITY`, or a path.
        read: returns the text of a file, or raises ConfigError.
    Raises:
        ConfigError: there is no such table, or it is wrong: the first few faults, with model and
            cell.
    """
    text = table_text(source, BUILTIN_SENSITIVITY, PUBLISHED, read)
    try:
        document = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: not valid JSON ({error})") from error
    table = _Reading(source).table(document)
    digest = blake2b(f"sensitivity 1\n{text}".encode(), digest_size=32)
    return SensitivityFile(table, digest.hexdigest())


def builtin_sensitivity() -> SensitivityFile:
    """Return the table that comes with the package."""

    def no_file(path: str) -> str:
        raise AssertionError(f"the built-in table is no file: {path}")

    return load_sensitivity(BUILTIN_SENSITIVITY, no_file)


class _Object(dict[str, Any]):
    """An object of a document, and the keys that it has more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.twice = [key for key, count in counts.items() if count > 1]


class _Reading:
    """One reading, with the faults found so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._faults: list[str] = []

    def table(self, document: object) -> SensitivityTable:
        """Return the table of a document."""
        whole = self._object(document, "the document", _KEYS)
        cpus = self._points(whole.get("cpu_points"), "cpu_points", _MILLI)
        memory = self._points(whole.get("memory_gb_points"), "memory_gb_points", _MB)
        of_gangs = whole.get("multi_gpu_memory_gb_points")
        gang_memory = memory
        if of_gangs is not None:
            gang_memory = self._points(of_gangs, "multi_gpu_memory_gb_points", _MB)
        share = self._object(whole.get("proportional_per_gpu"), "proportional_per_gpu", _SHARE_KEYS)
        fair = Resources(
            0,
            self._amount(share.get("cpus"), "proportional_per_gpu, cpus", _MILLI),
            self._amount(share.get("memory_gb"), "proportional_per_gpu, memory_gb", _MB),
        )
        self._refuse()
        axes = [
            (fair.cpus_milli, cpus, "cpu_points"),
            (fair.memory_mb, memory, "memory_gb_points"),
        ]
        if of_gangs is not None:
            axes.append((fair.memory_mb, gang_memory, "multi_gpu_memory_gb_points"))
        for amount, points, what in axes:
            if amount not in points:
                self._add(what, "lacks the proportional share, at which all speeds are 1")
        models = self._object(whole.get("models"), "models")
        if not models:
            self._add("models", "expected at least one")
        self._refuse()
        found = {
            model: self._model(model, entry, cpus, (memory, gang_memory), fair)
            for model, entry in models.items()
        }
        self._refuse()
        return SensitivityTable(found, fair, self._name)

    def _model(
        self,
        model: str,
        entry: object,
        cpus: tuple[int, ...],
        columns: tuple[tuple[int, ...], tuple[int, ...]],
        fair: Resources,
    ) -> dict[int, Sensitivity]:
        """Return the matrices of one model, by number of GPUs."""
        whole = self._object(entry, model, _MODEL_KEYS)
        found = {1: self._matrix(whole.get("table"), model, cpus, columns[0], fair)}
        for gpus, gang in self._object(
            whole.get("multi_gpu", _Object([])), f"{model}, multi_gpu"
        ).items():
            where = f"{model}, {gpus[:20]} GPUs"
            if not _GANG.fullmatch(gpus) or not 1 < int(gpus) <= GANG_MOST:
                self._add(where, f"expected a number of GPUs from 2 to {GANG_MOST}")
                continue
            rows = self._object(gang, where, _GANG_KEYS).get("table")
            if isinstance(rows, list) and rows and all(map(_is_zero, rows)):
                self._add(where, "rows of zeros only: leave out what was not measured")
                continue
            while isinstance(rows, list) and rows and _is_zero(rows[-1]):
                rows = rows[:-1]
            count = len(rows) if isinstance(rows, list) else len(cpus)
            found[int(gpus)] = self._matrix(rows, where, cpus[:count], columns[1], fair)
        return dict(sorted(found.items()))

    def _matrix(
        self,
        rows: object,
        where: str,
        cpus: tuple[int, ...],
        memory: tuple[int, ...],
        fair: Resources,
    ) -> Sensitivity:
        """Return one matrix; every cell that is wrong is a fault of its own."""
        nothing = Sensitivity((1,), (1,), ((1.0,),))
        if not isinstance(rows, list) or len(rows) != len(cpus) or not rows:
            self._add(where, f"expected a table of {len(cpus)} rows, one for each of cpu_points")
            return nothing
        speeds: list[tuple[float, ...]] = []
        before = len(self._faults)
        for row, at_cpus in zip(rows, cpus, strict=True):
            in_row = f"{where}, {at_cpus / _MILLI:g} CPUs"
            if not isinstance(row, list) or len(row) != len(memory):
                self._add(in_row, f"expected {len(memory)} speeds, one for each memory point")
                return nothing
            if _is_zero(row):
                self._add(in_row, "a row of zeros: leave out what was not measured")
                continue
            speeds.append(
                tuple(
                    self._speed(cell, f"{in_row}, {at_memory / _MB:g} GB")
                    for cell, at_memory in zip(row, memory, strict=True)
                )
            )
        if len(self._faults) == before:
            self._check(where, speeds, cpus, memory, fair)
        return Sensitivity(cpus, memory, tuple(speeds))

    def _check(
        self,
        where: str,
        speeds: list[tuple[float, ...]],
        cpus: tuple[int, ...],
        memory: tuple[int, ...],
        fair: Resources,
    ) -> None:
        """Note where a matrix falls along an axis, or is not 1 at the proportional share."""
        for row, at_cpus in enumerate(cpus):
            for column, at_memory in enumerate(memory):
                cell = f"{where}, {at_cpus / _MILLI:g} CPUs, {at_memory / _MB:g} GB"
                here = speeds[row][column]
                fewer = speeds[row - 1][column] if row else 0.0
                less = speeds[row][column - 1] if column else 0.0
                if here < fewer or here < less:
                    what = "CPUs" if here < fewer else "memory"
                    self._add(
                        cell, f"{here:g} is slower than {max(fewer, less):g} with less {what}"
                    )
        if fair.cpus_milli not in cpus:
            self._add(where, "lacks the row of the proportional share")
            return
        at_fair = speeds[cpus.index(fair.cpus_milli)][memory.index(fair.memory_mb)]
        if abs(at_fair - 1.0) > 1e-9:
            self._add(where, f"expected 1 at the proportional share, not {at_fair:g}")

    def _points(self, value: object, where: str, unit: int) -> tuple[int, ...]:
        if not isinstance(value, list) or not value:
            self._add(where, "expected a list of amounts for each GPU, ascending")
            return ()
        points = tuple(self._amount(item, where, unit) for item in value)
        if any(later <= earlier for earlier, later in pairwise(points)):
            self._add(where, "expected amounts that rise")
        return points

    def _amount(self, value: object, where: str, unit: int) -> int:
        number = _number(value)
        if 0.5 < number * unit < 1 << 50:  # it is one unit or more once it is rounded
            return round(number * unit)
        what = f"expected a number above 0, not {_shown(value)}"
        if number > 0:
            what = f"expected {1 / unit:g} to {(1 << 50) / unit:g}, not {_shown(value)}"
        self._add(where, what)
        return 1

    def _speed(self, value: object, where: str) -> float:
        number = _number(value)
        if 0 < number <= SPEED_MOST:
            return number
        hint = "; with such a share it would never end" if number == 0 else ""
        bound = f" and at most {SPEED_MOST:g}" if number > 0 else ""
        self._add(where, f"expected a speed above 0{bound}, not {_shown(value)}{hint}")
        return 0.0

    def _object(
        self, value: object, where: str, known: Collection[str] | None = None
    ) -> Mapping[str, Any]:
        """Return an object, with keys that are known (None: any names), each once."""
        if isinstance(value, _Object):
            for key in value.twice:
                self._add(where, f"{_shown(key)} is there twice: leave one of them out")
            for key in () if known is None else [key for key in value if key not in known]:
                near = get_close_matches(key, known or (), 1)
                hint = f"; did you mean {near[0]!r}?" if near else ";"
                expected = ", ".join(known or ())
                self._add(where, f"unknown key {_shown(key)}{hint} expected {expected}")
            return value
        self._add(where, f"expected an object, not {_shown(value)}")
        return _Object([])

    def _add(self, where: str, what: str) -> None:
        self._faults.append(f"{self._name}: {where}: {what}")

    def _refuse(self) -> None:
        if self._faults:
            lines = self._faults[:_SHOWN_MOST]
            if hidden := len(self._faults) - len(lines):
                lines.append(f"{self._name}: and {hidden} more faults")
            raise ConfigError("\n".join(lines))


def _number(value: object) -> float:
    """Return a number; -1 for what is none, infinity for one that is too large."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -1.0
    return -1.0


def _is_zero(row: object) -> bool:
    return isinstance(row, list) and bool(row) and all(cell == 0 for cell in row)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def compact_sensitivity(table: SensitivityTable) -> dict[str, object]:
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


def parse_compact_sensitivity(form: Mapping[str, Any], name: str) -> SensitivityTable:
    """Return the table that `compact_sensitivity` wrote.

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
