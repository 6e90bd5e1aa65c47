"""In the peer setting Shunter gives the end of every job that the peer gives, on any job list.

Method: small random lists of whole seconds, through a literal simulator and through Shunter. Gaps
and lengths lie on a common grid, so that ends, arrivals and timers often coincide.
"""

import pytest
from hypothesis import given, settings, strategies as st

from shunter.config import read_text
from shunter.events import JobRejected
from shunter.policies import load_history
from tests.peers.blox_literal import ROUND_S, SCHEDULES as BLOX_SCHEDULES, BloxJob, blox_ends
from tests.peers.played import SECOND_US, ends_s, play_blox, play_tiresias
from tests.peers.tiresias_literal import SCHEDULES, PeerJob, peer_run
from tests.slices import searched

SAMPLES = tuple(us // SECOND_US for us in load_history("builtin:yarn-gput1000", read_text))
WIDE = 9


@st.composite
def job_lists(draw: st.DrawFn, *, widest: int) -> list[PeerJob]:
    """Return jobs that attain up to some ten times the limits of the queues."""
    grid = draw(st.sampled_from([1, 50, 250, 500]))
    longest = draw(st.sampled_from([300, 6000, 20_000])) // grid
    widths = draw(st.sampled_from([[1, 8], [1, 2, 4, 8], [3, 5, 8]]))
    found: list[PeerJob] = []
    submit_s = 0
    for number in range(draw(st.integers(1, 20))):
        gpus = draw(st.sampled_from([*widths * 4, widest]))
        length = draw(st.integers(1, max(1, longest)))
        found.append(PeerJob(f"j{number}", gpus, submit_s, length * grid))
        submit_s += grid * (draw(st.sampled_from([0, 1, 400, 3000])) // grid)
        submit_s += grid * draw(st.integers(0, 3))
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
@searched(60)
@given(jobs=job_lists(widest=8))
def test_every_job_ends_when_the_tiresias_peer_says(schedule: str, jobs: list[PeerJob]) -> None:
    expected = peer_run(jobs, 8, schedule, samples=SAMPLES)

    outcome = play_tiresias(jobs, 8, schedule)

    assert ends_s(outcome) == expected.ends_s
    assert outcome.state.jobs == {}


@pytest.mark.parametrize("schedule", sorted(set(SCHEDULES) - {"fifo"}))
@settings(max_examples=20)
@given(jobs=job_lists(widest=WIDE))
def test_job_wider_than_the_cluster_is_rejected_where_the_peer_drops_it(
    schedule: str, jobs: list[PeerJob]
) -> None:
    """The peer leaves it in a queue for ever, and says nothing; its arrival is an event of both.

    Under fifo the peer would let nobody start after it, and Shunter goes on with the others.
    """
    expected = peer_run(jobs, 8, schedule, samples=SAMPLES)

    outcome = play_tiresias(jobs, 8, schedule)

    assert ends_s(outcome) == expected.ends_s
    rejected = [(event.job_id, event.needed, event.most) for event in outcome.of(JobRejected)]
    assert rejected == [(job.job_id, WIDE, 8) for job in jobs if job.gpus == WIDE]


@pytest.mark.parametrize("schedule", BLOX_SCHEDULES)
@searched(60)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 20, ROUND_S, 2 * ROUND_S, 1000]),
            st.sampled_from([1, 299_999, 300_000, 300_001, 600_000, 1_234_567, 2_100_000]),
        ),
        min_size=1,
        max_size=16,
    ),
    gpus=st.integers(1, 4),
)
def test_every_job_ends_when_the_blox_peer_says(
    schedule: str, rows: list[tuple[int, int]], gpus: int
) -> None:
    jobs: list[BloxJob] = []
    arrival_s = 0
    for number, (gap_s, length_ms) in enumerate(rows):
        arrival_s += gap_s
        jobs.append(BloxJob(f"j{number}", arrival_s, length_ms))

    outcome = play_blox(jobs, gpus, schedule)

    assert ends_s(outcome) == blox_ends(jobs, gpus, schedule)
