"""The timetables of gangs over several servers that share GPUs in turns.

The gang with the least part of those that meet has a quantum in each period; turns begin and end at
the same instants on all of their servers. The rule is that of the simulator and of live servers: it
depends on who shares what alone (`core/time_shares.py`).
"""

from collections.abc import Mapping

from shunter.backends.node import Timetable
from shunter.core import Tenant, gang_slots
from shunter.events import JobId


def timetables(tenants: Mapping[JobId, Tenant], quantum_us: int) -> dict[JobId, Timetable]:
    """Return when each gang over several servers has its turns.

    Args:
        tenants: all jobs that share GPUs in turns.
        quantum_us: the shortest turn, in microseconds.
    """
    found = {}
    for job_id, slot in gang_slots(tenants).items():
        period_us = round(quantum_us / slot.least)
        first_us, end_us = round(slot.begins * period_us), round(slot.ends * period_us)
        found[job_id] = Timetable(period_us, first_us, end_us - first_us)
    return found
