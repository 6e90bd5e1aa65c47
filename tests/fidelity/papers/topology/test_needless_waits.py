"""Who waits needlessly, held to what is free after each plan, server by server."""

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from shunter.core import Observers, View
from shunter.events import KINDS, Event, JobId
from shunter.run import simulate
from shunter_papers.topology.needless_waits import GANG, NeedlessWaits, fits
from shunter_papers.topology.scenes import CONTENDERS, CURVES, FLOOR, Scene

pytestmark = pytest.mark.fidelity


@given(
    st.lists(st.integers(0, 5), max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_a_gang_fits_where_each_part_has_a_server_of_its_own(
    free: list[int], shape: list[int]
) -> None:
    ways = permutations(range(len(free)), len(shape))
    assert fits(free, shape) == any(
        all(free[at] >= part for at, part in zip(way, shape, strict=True)) for way in ways
    )


class Literal:
    """What is true at the end of each instant, by all that jobs hold."""

    def __init__(self) -> None:
        self.needless: set[JobId] = set()
        self._at_us = 0
        self._last: set[JobId] = set()

    def observers(self) -> Observers:
        return dict.fromkeys(KINDS.values(), self._note)

    def _note(self, event: Event, view: View) -> None:
        if event.at_us > self._at_us:
            self.needless |= self._last
        self._at_us = event.at_us
        free = {name: server.gpus_up for name, server in view.cluster.servers.items()}
        for job in view.jobs.values():
            for share in job.allocation.shares:
                free[share.node] -= share.gpus
        self._last = {
            job.job_id
            for job in view.jobs.values()
            if not job.allocation.shares and job.spec.gpus == GANG
            for shape, speed in CURVES[job.spec.model]
            if speed >= FLOOR and fits([*free.values()], shape)
        }


def test_needless_waits_are_those_with_a_place_left_after_the_plan() -> None:
    found = {}
    for contender in CONTENDERS["locality"]:
        scene, waits, literal = Scene("locality", 0.9, 150, 3), NeedlessWaits(), Literal()
        listeners = [waits.observers(), literal.observers()]
        trace = scene.trace(contender.contract)
        simulate(scene.config(contender), trace=trace, listeners=listeners)
        assert waits.jobs == literal.needless, contender.name
        found[contender.name] = len(waits.jobs), len(waits.slow)
    assert found["one server"][0] > 0
    assert found["by contract"] == (0, 0)
    assert found["by skew"][1] > found["one server"][1] == 0
