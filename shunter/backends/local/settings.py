"""What the local backend is told: its folder, its nodes, and how long it waits for jobs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.backends.supervised.order_parts import Limits
from shunter.events.values.ids import NodeName


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A part of this machine: GPUs as CUDA names them (index or UUID), and CPUs."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalSettings(Limits):
    """Where attempts live, and the limits of their supervisors.

    Of `ports`, the second no more, each attempt gets one that nobody else has. Below the control
    group `cgroup` memory is limited: None is the one found by memory.py, an empty one means never.
    """

    root: str
    nodes: tuple[LocalNode, ...]
    term: int
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": os.environ.get("PATH", os.defpath)}
    )
    beat_s: float = 5.0
    patrol_s: float = 1.0
    ports: tuple[int, int] = (20_000, 29_000)
    cgroup: str | None = None
