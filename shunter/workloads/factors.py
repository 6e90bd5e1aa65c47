"""Reading a table of factors: TOML, strict, maybe on top of the table of the package.

extends = "builtin:published"
[gpus.p100]
memory_mb = 16_000
[models.resnet50]
source = "measured on our own servers in March"
also = ["ResNet-50"]                     # other names of it
levels = {socket = 0.97, server = 0.9}   # how far apart the GPUs of a job are
shapes = {2x2 = 0.72, 4x1 = 0.41}        # servers x GPUs of each
beside = {switch = 0.95}                 # what one neighbour leaves
pairs = {lm = [0.8, 0.7]}                # on the same GPUs: what is left of this one, of that
gpu_utilisation = 0.9
gpu_memory_mb = 9_000
memory_cycle = {least_mb = 300, most_mb = 9_000, batch_s = 0.3}
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Final

from msgspec import Struct, ValidationError, convert

from shunter.core.speeds import FactorTable, MemoryCycle, ModelFactors, Shape
from shunter.errors import ConfigError
from shunter.events import BY_BUS, IN_SERVER, GpuType, Level
from shunter.workloads.loading import table_text

BUILTIN_FACTORS: Final = "builtin:published"
"""The source that names the table of the package: what papers publish."""

_PUBLISHED = Path(__file__).parent / "data" / "published.toml"
_SHAPE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


class Gpu(Struct, forbid_unknown_fields=True):
    """What is said of a type of GPU."""

    memory_mb: int


class Cycle(Struct, forbid_unknown_fields=True):
    """What is said of a model's memory in a mini-batch."""

    least_mb: int
    most_mb: int
    batch_s: float


class Model(Struct, forbid_unknown_fields=True):
    """What is said of a model."""

    source: str = ""
    also: tuple[str, ...] = ()
    levels: dict[Level, float] = {}
    shapes: dict[str, float] = {}
    beside: dict[Level, float] = {}
    pairs: dict[str, tuple[float, float]] = {}
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    memory_cycle: Cycle | None = None


class Document(Struct, forbid_unknown_fields=True):
    """A whole file."""

    models: dict[str, Model]
    gpus: dict[GpuType, Gpu] = {}
    extends: str = ""


@dataclass(frozen=True)
class FactorFile:
    """A table, the digest of its text, and where each model's factors come from."""

    table: FactorTable
    digest: str
    sources: Mapping[str, str]


def load_factors(source: str, read: Callable[[str], str]) -> FactorFile:
    """Return the table a source names: the one of the package, or a file's.

    Args:
        source: `BUILTIN_FACTORS`, or a path.
        read: returns the text of a file, or raises ConfigError.
    Raises:
        ConfigError: there is no such table, or it is wrong: every fault, with model and key.
    """
    text = table_text(source, BUILTIN_FACTORS, _PUBLISHED, read)
    try:
        document = convert(tomllib.loads(text), Document)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: not valid TOML ({error})") from error
    except ValidationError as error:
        raise ConfigError(f"{source}: {error}") from error
    if document.extends not in ("", BUILTIN_FACTORS) or document.extends == source:
        raise ConfigError(
            f"{source}: extends: expected {BUILTIN_FACTORS!r}, not {document.extends!r}"
        )
    faults = [f"{source}: {fault}" for fault in _faults(document)]
    if faults:
        raise ConfigError("\n".join(faults))
    below = load_factors(document.extends, read) if document.extends else None
    return _file(source, text, document, below)


def _file(source: str, text: str, document: Document, below: FactorFile | None) -> FactorFile:
    models = {} if below is None else dict(below.table.models)
    memory_mb = {} if below is None else dict(below.table.gpu_memory_mb)
    sources = {} if below is None else dict(below.sources)
    paired = _paired(document)
    for model, said in document.models.items():
        factors = ModelFactors(
            dict(said.levels),
            {_shape(shape): left for shape, left in said.shapes.items()},
            dict(said.beside),
            paired.get(model, {}),
            said.gpu_utilisation,
            said.gpu_memory_mb,
            _cycle(said.memory_cycle),
        )
        for name in (model, *said.also):
            models[name] = factors
            sources[name] = said.source or source
    memory_mb |= {gpu_type: gpu.memory_mb for gpu_type, gpu in document.gpus.items()}
    digest = blake2b(f"factors 1\n{text}".encode(), digest_size=32)
    if below is not None:
        digest.update(below.digest.encode())
    return FactorFile(FactorTable(models, memory_mb, source), digest.hexdigest(), sources)


def _cycle(said: Cycle | None) -> MemoryCycle | None:
    if said is None:
        return None
    return MemoryCycle(said.least_mb, said.most_mb, max(1, round(said.batch_s * 1e6)))


def _paired(document: Document) -> dict[str, dict[str, float]]:
    """Return what is left of each model beside each, by all their names."""
    found: dict[str, dict[str, float]] = {}
    for model, said in document.models.items():
        for other, (mine, theirs) in said.pairs.items():
            for name in (other, *document.models[other].also):
                found.setdefault(model, {})[name] = mine
            for name in (model, *said.also):
                found.setdefault(other, {})[name] = theirs
    return found


def _shape(text: str) -> Shape:
    found = _SHAPE.fullmatch(text)
    assert found is not None, "shapes were checked"
    return int(found[1]), int(found[2])


def _faults(document: Document) -> Iterator[str]:
    """Yield what is wrong with a document whose keys and types are right."""
    if not document.models:
        yield "models: expected at least one"
    for gpu_type, gpu in document.gpus.items():
        if gpu.memory_mb <= 0:
            yield f"gpus.{gpu_type}.memory_mb: expected MB above 0, not {gpu.memory_mb}"
    names: dict[str, str] = {}
    for model, said in document.models.items():
        for name in (model, *said.also):
            if names.setdefault(name, model) != model or said.also.count(name) > 1:
                yield f"models.{model}: the name {name!r} stands twice"
        for fault in _faults_of(model, said, document):
            yield f"models.{model}.{fault}"


def _faults_of(model: str, said: Model, document: Document) -> Iterator[str]:
    """Yield what is wrong with a model."""
    yield from _faults_of_places(said)
    yield from _faults_of_pairs(model, said, document)
    if said.gpu_utilisation is not None and not 0 <= said.gpu_utilisation <= 1:
        yield f"gpu_utilisation: expected a part from 0 to 1, not {said.gpu_utilisation:g}"
    if said.gpu_memory_mb is not None and said.gpu_memory_mb <= 0:
        yield f"gpu_memory_mb: expected MB above 0, not {said.gpu_memory_mb}"
    if (cycle := said.memory_cycle) is not None:
        if not 0 < cycle.least_mb <= cycle.most_mb:
            yield (
                "memory_cycle: expected 0 < least_mb <= most_mb, not "
                f"{cycle.least_mb} and {cycle.most_mb}"
            )
        if said.gpu_memory_mb is not None and cycle.most_mb > said.gpu_memory_mb:
            yield f"memory_cycle.most_mb: more than gpu_memory_mb, {said.gpu_memory_mb}"
        if not 1e-6 <= cycle.batch_s < inf:
            yield f"memory_cycle.batch_s: expected seconds above 0, not {cycle.batch_s:g}"


def _faults_of_places(said: Model) -> Iterator[str]:
    """Yield what is wrong with a model's factors of distance."""
    for shape in said.shapes:
        if not _SHAPE.fullmatch(shape) or shape.startswith("1x"):
            yield (
                f"shapes.{shape}: expected servers x GPUs of each, two servers or more, as in "
                "'2x2'; the speed in one server is 1"
            )
    for level in said.beside:
        if level not in BY_BUS:
            expected = ", ".join(BY_BUS)
            yield f"beside.{level}: expected {expected}: neighbours are jobs in the same server"
    places = [(f"levels.{level}", left) for level, left in said.levels.items()]
    places += [(f"shapes.{shape}", left) for shape, left in said.shapes.items()]
    places += [(f"beside.{level}", left) for level, left in said.beside.items()]
    for place, left in places:
        if not 0 < left <= 1:
            yield f"{place}: expected a part of the speed, over 0 up to 1, not {left:g}"
    near = [(level, said.levels[level]) for level in Level if level in said.levels]
    for (nearer, before), (farther, left) in pairwise(near):
        if left > before and (nearer in IN_SERVER) == (farther in IN_SERVER):
            yield f"levels.{farther}: {left:g} is faster than {before:g} at {nearer}"


def _faults_of_pairs(model: str, said: Model, document: Document) -> Iterator[str]:
    """Yield what is wrong with what a model and others leave of each other."""
    for other, rates in said.pairs.items():
        if other not in document.models:
            yield f"pairs.{other}: there is no model {other!r} in this file"
        elif other != model and model in document.models[other].pairs:
            yield f"pairs.{other}: the pair stands twice, here and in models.{other}"
        if other == model and rates[0] != rates[1]:
            yield f"pairs.{other}: a model beside itself: expected the same part twice"
        for left in rates:
            if not 0 <= left <= 1:
                yield f"pairs.{other}: expected parts of the speed alone, 0 to 1, not {left:g}"
