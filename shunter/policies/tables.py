"""Tables that policies learn from: how long jobs ran, and how skewed models are."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from math import exp, isfinite, log1p
from statistics import NormalDist
from typing import Final

from shunter.errors import ConfigError

# Histories of GPU time, each named by its source:
#
#     builtin:yarn-gput1000        the samples of the Tiresias simulator (data/README.md)
#     exponential:MEAN             a distribution, cut into equally likely quantiles;
#     lognormal:MU,SIGMA           numbers are GPU-seconds, MU and SIGMA those of their
#     uniform:LOW,HIGH             natural logarithm
#     log                          the jobs that finish in the same log: nothing to load
#     anything else                a file: one number of GPU-seconds a line, a header allowed
#
# Quantiles are at (k + 1/2) / n, k = 0 … n - 1: no chance, and no infinite last one.

History = tuple[int, ...]
"""GPU time of jobs in GPU-microseconds, ascending, each above 0, at least one."""

QUANTILES: Final = 1000
"""Samples of a distribution; about as many as the built-in history has."""

BUILTIN_HISTORIES: Final = ("yarn-gput1000",)

_GPU_S_MAX = 2**53 / 1e6  # up to here a float is exact to the microsecond
_EXPECTED = "expected one number of GPU-seconds a line, above 0"


LOG: Final = "log"


def is_file(source: str) -> bool:
    """Say whether a source names a file."""
    kind, colon, _ = source.partition(":")
    return source != LOG and not (colon and kind.isalpha())


def load_history(source: str, read: Callable[[str], str], *, quantiles: int = QUANTILES) -> History:
    """Return the history a source names.

    Args:
        source: a text as listed at the head of the file.
        read: returns the text of a file, or raises ConfigError.
        quantiles: into how many samples a distribution is cut.
    Raises:
        ConfigError: there is no such history, or it is wrong; names file and line.
    """
    kind, colon, rest = source.partition(":")
    if kind == "builtin" and colon:
        return builtin_history(rest)
    if kind in _DISTRIBUTIONS and colon:
        return distribution_history(source, quantiles=quantiles)
    if colon and kind.isalpha():
        raise ConfigError(
            f"there is no history {source!r}; expected builtin:NAME, "
            f"{', '.join(f'{name}:{numbers}' for name, (numbers, _) in _DISTRIBUTIONS.items())}, "
            "or a file"
        )
    return parse_history(read(source), source)


def builtin_history(name: str) -> History:
    """Return a history that comes with the package; ConfigError if there is none."""
    if name not in BUILTIN_HISTORIES:
        known = ", ".join(BUILTIN_HISTORIES)
        raise ConfigError(f"there is no built-in history {name!r}; known: {known}")
    # The package's own data are as fixed as its code: this is no reach outside.
    data = files("shunter.policies") / "data" / f"{name}.csv"
    return parse_history(data.read_text(encoding="utf-8"), f"builtin:{name}")


def parse_history(text: str, name: str) -> History:
    """Return the samples in the text of a file.

    Args:
        text: one number of GPU-seconds a line, ascending; blank lines are skipped, and the first
            line may be a header.
        name: what messages call the file.
    Raises:
        ConfigError: no number is there, or a line is no number above 0, or below the one before.
    """
    lines = [(place, line.strip()) for place, line in enumerate(text.split("\n"), start=1)]
    lines = [(place, line) for place, line in lines if line]
    if lines and _is_header(lines[0][1]):
        del lines[0]
    if not lines:
        raise ConfigError(f"{name} is empty: {_EXPECTED}")
    samples = [_sample_us(line, f"{name}, line {place}") for place, line in lines]
    for before, after in pairwise(range(len(samples))):
        if samples[after] < samples[before]:
            place, line = lines[after]
            raise ConfigError(
                f"{name}, line {place}: {line} stands behind {lines[before][1]}; "
                "expected ascending numbers: sort the file"
            )
    return tuple(samples)


def distribution_history(text: str, *, quantiles: int = QUANTILES) -> History:
    """Return equally likely samples of a distribution such as "exponential:3600".

    Raises:
        ConfigError: it is unknown, or its numbers are not as they must be.
    """
    assert quantiles >= 1
    kind, _, rest = text.partition(":")
    if kind not in _DISTRIBUTIONS:
        raise ConfigError(f"there is no distribution {kind!r}; known: {', '.join(_DISTRIBUTIONS)}")
    numbers, quantile_of = _DISTRIBUTIONS[kind]
    try:
        quantile = quantile_of(*_numbers(rest))
    except (TypeError, ValueError) as error:
        expected = f"{kind}:{numbers} with {_CONDITIONS[kind]}"
        raise ConfigError(f"{text!r}: expected {expected}") from error
    try:
        samples_s = [quantile((part + 0.5) / quantiles) for part in range(quantiles)]
    except OverflowError as error:
        raise ConfigError(f"{text!r}: its samples are too large") from error
    if max(samples_s) > _GPU_S_MAX:
        raise ConfigError(f"{text!r}: expected samples of at most {_GPU_S_MAX:g} GPU-seconds")
    # Whole milliseconds, so that the last bit of a machine's logarithm shows nowhere.
    return tuple(sorted(max(round(sample_s * 1000), 1) * 1000 for sample_s in samples_s))


def _numbers(text: str) -> list[float]:
    numbers = [float(part) for part in text.split(",")]
    if not all(map(isfinite, numbers)):
        raise ValueError(text)
    return numbers


def _exponential(mean: float) -> Callable[[float], float]:
    if mean <= 0:
        raise ValueError(mean)
    return lambda share: -mean * log1p(-share)


def _lognormal(mu: float, sigma: float) -> Callable[[float], float]:
    if sigma <= 0:
        raise ValueError(sigma)
    normal = NormalDist()
    return lambda share: exp(mu + sigma * normal.inv_cdf(share))


def _uniform(low: float, high: float) -> Callable[[float], float]:
    if not 0 <= low < high:
        raise ValueError(low, high)
    return lambda share: low + share * (high - low)


_DISTRIBUTIONS: Final[Mapping[str, tuple[str, Callable[..., Callable[[float], float]]]]] = {
    "exponential": ("MEAN", _exponential),
    "lognormal": ("MU,SIGMA", _lognormal),
    "uniform": ("LOW,HIGH", _uniform),
}
_CONDITIONS: Final = {
    "exponential": "a number above 0",
    "lognormal": "two numbers, SIGMA above 0",
    "uniform": "two numbers, 0 <= LOW < HIGH",
}


def _is_header(line: str) -> bool:
    """Say whether a line is a name; a number with a slip in it is none."""
    try:
        float(line)
    except ValueError:
        return line[0].isalpha() and "," not in line
    return False


def _sample_us(text: str, where: str) -> int:
    try:
        value_s = float(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {_EXPECTED}, not {text!r}") from error
    sample_us = round(value_s * 1_000_000) if 0 < value_s <= _GPU_S_MAX else 0
    if not sample_us:
        raise ConfigError(f"{where}: {_EXPECTED}, not {text!r}")
    return sample_us


# Skew: the largest tensor over all of them (Gu et al., Tiresias, NSDI 2019). A skewed model suffers
# when its GPUs are spread. data/README.md describes the built-in table.

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
