"""What the local backend is told: its folder, its nodes, and how long it waits for jobs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.backends.agents.settings import Limits, Owner, Socket
from shunter.events.values import NodeName


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A part of this machine: GPUs by index or UUID, CPUs, and its sockets."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...] = ()
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalSettings(Limits):
    """Where attempts live, and the limits of their supervisors.

    Below the control group `cgroup` memory is limited: None is the one the agent finds itself in,
    an empty one means never.
    """

    root: str
    nodes: tuple[LocalNode, ...]
    term: int
    environment: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": os.environ.get("PATH", os.defpath)}
    )
    cgroup: str | None = None
    beat_s: float | None = field(default=5.0, kw_only=True)
    patrol_s: float = field(default=1.0, kw_only=True)
    gang_ports: tuple[int, int] = field(default=(20_000, 29_000), kw_only=True)

    @property
    def owner(self) -> Owner:
        """Who schedules here."""
        return Owner("", self.term, "", self.root)
