"""An attempt whose end was seen late: what its job is charged for."""

from dataclasses import replace

import pytest

from shunter.core import AttemptExited, SubmitJob
from shunter.core.fold import replay
from shunter.errors import IllegalEventError
from shunter.events import AttemptEnded, AttemptStarted, Event, GpusReleased, JobFailed
from tests.factories import (
    World,
    attempt_started,
    granted,
    job_id,
    job_spec,
    job_submitted,
    policy,
    servers,
)

J0 = job_id(0)
S = 1_000_000


def test_time_after_an_end_that_was_seen_late_counts_for_no_retry() -> None:
    """The scheduler was away from 2 s to 100 s: it is no service, and nothing of the time limit."""
    core, _ = World(servers=servers(4), is_live=True).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(2, retries=1, time_limit_us=50 * S))])
    core.step(0, [AttemptStarted(0, J0, 1)])
    seen = AttemptExited(100 * S, J0, 1, 1, released=True, ended_us=2 * S)
    assert core.step(100 * S, [seen])[0][0] == AttemptEnded(
        100 * S, J0, 1, 1, 2 * S, unused_us=98 * S
    )
    job = core.state.jobs[J0]
    assert (job.service_gpu_us, job.held_us) == (2 * 2 * S, 2 * S)
    again_us = core.deadline_us(100 * S)
    assert again_us is not None
    core.step(again_us, ())
    core.step(again_us, [AttemptStarted(again_us, J0, 2)])
    assert core.deadline_us(again_us) == again_us + 48 * S
    last = replace(seen, at_us=again_us + 40 * S, attempt=2, ended_us=again_us + S)
    assert core.step(last.at_us, [last])[0] == [
        AttemptEnded(last.at_us, J0, 2, 1, last.ended_us),
        GpusReleased(last.at_us, J0, 2),
        JobFailed(last.at_us, J0, "exit", 1, last.ended_us),
    ]


@pytest.mark.parametrize("unused_us", [-1, 101])
def test_no_more_is_unused_than_was_held(unused_us: int) -> None:
    events: tuple[Event, ...] = (*servers(4), job_submitted(), granted(n0=1), attempt_started())
    ended = AttemptEnded(100, J0, 1, 1, 5, unused_us=unused_us)
    with pytest.raises(IllegalEventError, match=f"used nothing for {unused_us} us"):
        replay((*events, ended))
