"""Curves of a log that is folded here event by event."""

from shunter.ask import PARTS, Curves
from shunter.core import State
from shunter.core.fold import apply
from shunter.events import NodeDrained
from tests.factories import granted, job_finished, job_submitted, node_added, node_name


def test_gpus_that_jobs_hold_on_a_drained_server_are_there() -> None:
    """Goal: what is in use is never more than what there is."""
    drained = NodeDrained(PARTS // 2, node_name(0))
    start = (node_added(0, 4), job_submitted(0, 3), granted(0, 0, n0=0b111, instant=True))
    state, curves = State(), Curves(1)
    for event in (*start, drained, job_finished(0, PARTS - 100), node_added(1, 1, at=PARTS)):
        curves.before(event, state)
        curves.take(event, state, apply(state, event))
    curves.close(state)
    assert curves.gpus_used == [3.0] * (PARTS - 100) + [0.0] * 100
    assert curves.gpus_up == [4.0] * (PARTS // 2) + [3.0] * (PARTS // 2 - 100) + [0.0] * 100
