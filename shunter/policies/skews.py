"""How unevenly a model's tensors are sized: what decides whether it must be consolidated.

The skew of a model is the size of its largest tensor over that of all of them (Gu et al., Tiresias,
NSDI 2019). A skewed model sends large messages to one server, and suffers when its GPUs are spread.
The built-in table is described in data/README.md.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import isfinite
from typing import Final

from shunter.errors import ConfigError

BUILTIN_SKEWS: Final = "builtin:model-skew"
"""The source that names the table of the package."""

_COLUMNS: Final = ("model", "total_mb", "largest_mb", "skew")
_SKEW_ERROR_MAX = 0.01  # sizes are rounded, often to a tenth of a megabyte


@dataclass(frozen=True, slots=True)
class ModelSkew:
    """The tensors of a model: all and the largest in MB, and the skew, from 0 to 1."""

    model: str
    total_mb: float
    largest_mb: float
    skew: float


def load_skews(source: str, read: Callable[[str], str]) -> Mapping[str, ModelSkew]:
    """Return the table a source names, by model: the built-in one, or a file's.

    Args:
        source: `BUILTIN_SKEWS`, or a path.
        read: returns the text of a file, or raises ConfigError.
    Raises:
        ConfigError: there is no such table, or it is wrong; names file, line and column.
    """
    if source == BUILTIN_SKEWS:
        return builtin_skews()
    if source.startswith("builtin:"):
        raise ConfigError(f"there is no table {source!r}; expected {BUILTIN_SKEWS} or a file")
    return parse_skews(read(source), source)


def builtin_skews() -> Mapping[str, ModelSkew]:
    """Return the table that comes with the package."""
    # The package's own data are as fixed as its code: this is no reach outside.
    data = files("shunter.policies") / "data" / "model-skew.csv"
    return parse_skews(data.read_text(encoding="utf-8"), BUILTIN_SKEWS)


def parse_skews(text: str, name: str) -> Mapping[str, ModelSkew]:
    """Return the table in the text of a file, in its order.

    Args:
        text: CSV with the header `model,total_mb,largest_mb,skew`, in any order.
        name: what messages call the file.
    Raises:
        ConfigError: a column is missing, a number wrong, a model there twice, or no row.
    """
    rows = _rows(text, name)
    line, header = next(rows, (1, []))
    if sorted(header) != sorted(_COLUMNS):
        expected, found = ",".join(_COLUMNS), ",".join(header) or "nothing"
        raise ConfigError(f"{name}, line {line}: expected the header {expected}, found {found}")
    skews: dict[str, ModelSkew] = {}
    for line, fields in rows:
        where = f"{name}, line {line}"
        if len(fields) != len(header):
            raise ConfigError(f"{where}: {len(fields)} fields, expected {len(header)}")
        skew = _model_skew(dict(zip(header, fields, strict=True)), where)
        if skew.model in skews:
            raise ConfigError(f"{where}, column model: {skew.model!r} stands twice")
        skews[skew.model] = skew
    if not skews:
        raise ConfigError(f"{name} is empty: expected one row for each model")
    return skews


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, each with its line."""
    reader = csv.reader(text.removesuffix("\n").split("\n"), strict=True)
    try:
        for fields in reader:
            cells = [field.strip() for field in fields]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise ConfigError(f"{name}, line {reader.line_num}: not valid CSV ({error})") from error


def _model_skew(texts: Mapping[str, str], where: str) -> ModelSkew:
    model = texts["model"]
    if not model:
        raise ConfigError(f"{where}, column model: missing")
    total_mb = _above_zero(texts, "total_mb", where)
    largest_mb = _above_zero(texts, "largest_mb", where)
    skew = _above_zero(texts, "skew", where)
    if largest_mb > total_mb:
        raise ConfigError(
            f"{where}, column largest_mb: {largest_mb:g} is more than total_mb = {total_mb:g}"
        )
    if abs(skew - largest_mb / total_mb) > _SKEW_ERROR_MAX:
        raise ConfigError(
            f"{where}, column skew: expected largest_mb / total_mb = {largest_mb / total_mb:.3f}, "
            f"not {texts['skew']!r}"
        )
    return ModelSkew(model, total_mb, largest_mb, skew)


def _above_zero(texts: Mapping[str, str], column: str, where: str) -> float:
    text = texts[column]
    try:
        value = float(text)
    except ValueError as error:
        raise ConfigError(f"{where}, column {column}: not a number: {text!r}") from error
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"{where}, column {column}: expected a number above 0, not {text!r}")
    return value
