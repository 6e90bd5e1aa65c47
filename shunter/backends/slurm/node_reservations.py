"""Reservations of Slurm as one of its users meets them: nodes that are kept from the user's jobs.

Slurm starts no job that would not end before a reservation of its node begins, unless the job names
that reservation. So also those who may use one are kept from its nodes, as long as they do not
name it.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from shunter import clock
from shunter.backends.slurm.records import Reservation
from shunter.events.values.ids import NodeName

LEAST_S: Final = 600.0
"""What has less time than this spends a good part of it on starts and saves of its jobs."""
SLACK_LEAST_S: Final = 60.0
"""Slurm counts limits in minutes, and a job that waits starts a little later than it was asked."""


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """That a node is kept from this user, between instants in seconds since 1970."""

    start_s: float
    end_s: float
    is_maintenance: bool
    name: str

    def in_words(self, node: str) -> str:
        """Return a sentence for people, in the local time of this machine."""
        what = "for maintenance" if self.is_maintenance else f"for reservation {self.name}"
        until = "" if self.end_s == float("inf") else f" to {_time_of_day(self.end_s)}"
        return f"Slurm keeps node {node} {what} from {_time_of_day(self.start_s)}{until}"

    def limit_s(self, now_s: float) -> float:
        """Return the longest time limit with which a job ends before, in whole minutes.

        A tenth of the time is left for the wait in Slurm's queue.
        """
        left_s = self.start_s - now_s
        return max(0.0, (left_s - max(SLACK_LEAST_S, left_s / 10)) // 60 * 60)


def least_s(limit_s: float) -> float:
    """Return the shortest time limit that is worth asking for."""
    return min(LEAST_S, limit_s / 4)


def reservations_by_node(
    reservations: Sequence[Reservation], nodes: Collection[NodeName], now_s: float
) -> dict[NodeName, NodeReservation]:
    """Return the reservation of each node that begins first and is not over."""
    found: dict[NodeName, NodeReservation] = {}
    for each in sorted(reservations, key=lambda each: (each.start_s or 0, each.name)):
        if each.end_s is not None and each.end_s <= now_s:
            continue
        kept = node_reservation(each)
        for node in nodes:
            if node in each.nodes:
                found.setdefault(node, kept)
    return found


def node_reservation(found: Reservation) -> NodeReservation:
    """Return what a reservation means for each of its nodes."""
    end_s = float("inf") if found.end_s is None else float(found.end_s)
    return NodeReservation(float(found.start_s or 0), end_s, found.is_maintenance, found.name)


def reservation_in(options: Sequence[str]) -> str:
    """Return the reservation that options of sbatch name; nothing if they name none."""
    named = [option for option in options if option.startswith("--reservation=")]
    return named[-1].partition("=")[2] if named else ""


def _time_of_day(at_s: float) -> str:
    """Return an instant in local time, with the day if it is not today."""
    at, today = time.localtime(at_s), time.localtime(clock.wall_s())
    is_today = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", at)
