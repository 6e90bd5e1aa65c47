"""The text's own numbers of distance and neighbours, and what the model of speeds makes of them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from shunter.core.speeds import SpeedModel
from shunter.events import (
    Allocation,
    ConfigurationSet,
    GpuType,
    JobSpec,
    Level,
    LevelGroups,
    NodeName,
    Share,
)
from shunter.workloads import BUILTIN_FACTORS, load_factors

_NODES: Final = [NodeName(f"n{number}") for number in range(4)]
_WHERE: Final = ConfigurationSet(
    "p100x8",
    GpuType("p100"),
    8,
    rack="r",
    levels=(
        LevelGroups(Level.switch, (0b11, 0b1100, 0b110000, 0b11000000)),
        LevelGroups(Level.socket, (0b1111, 0b11110000)),
    ),
)
_NEAR: Final = "one neighbour below the same switch"


@dataclass(frozen=True)
class Figure:
    """A number of the text: a speed relative to the job near and alone, and ours.

    `bound` says that the text gives it as the least (above) or the most (below); empty: it is it.
    """

    model: str
    setting: str
    published: float
    ours: float
    bound: str = ""

    def document(self) -> dict[str, Any]:
        """Return it as a part of the document."""
        return asdict(self)


def figures() -> tuple[Figure, ...]:
    """Return the numbers of the text's table in its order (SOSP-SRC 2017)."""
    return tuple(_figures())


def _figures() -> Iterator[Figure]:
    yield Figure("ResNet-50, TF", "2 servers x 2", 0.72, _apart("resnet50", 2))
    yield Figure("ResNet-50, TF", "4 servers x 1", 0.41, _apart("resnet50", 4))
    yield Figure("VGG-16, TF", "2 servers x 2", 0.53, _apart("vgg16", 2), "at most")
    yield Figure("Inception-v3, TF", "2 servers x 2", 1.0, _apart("inception3", 2))
    yield Figure("AlexNet, CNTK", "2 GPUs on different sockets", 0.73, _across("alexnet"))
    yield Figure("ResNet-152, CNTK", "2 GPUs on different sockets", 0.89, _across("resnet152"))
    yield Figure("RNN, TF", _NEAR, 0.88, _beside("rnn"), "at least")
    yield Figure("RNN, CNTK", _NEAR, 0.60, _beside("rnn-cntk"), "at least")


def _apart(model: str, servers: int) -> float:
    """Return the speed of a gang of four over so many servers, of that in one."""
    mask = (1 << 4 // servers) - 1
    shares = tuple(Share(node, mask) for node in _NODES[:servers])
    return _speed(JobSpec(4, model=model), Allocation(shares))


def _across(model: str) -> float:
    return _speed(JobSpec(2, model=model), Allocation((Share(_NODES[0], 0b10001),)))


def _beside(model: str) -> float:
    mine, other = (Allocation((Share(_NODES[0], mask),)) for mask in (1, 2))
    return _speed(JobSpec(1, model=model), mine, other)


def _speed(spec: JobSpec, where: Allocation, *neighbours: Allocation) -> float:
    factors = load_factors(BUILTIN_FACTORS, lambda source: source).table
    model = SpeedModel(dict.fromkeys(_NODES, _WHERE), factors=factors)
    return model.speed(spec, where, neighbours=neighbours)
