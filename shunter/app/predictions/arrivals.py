"""Jobs that may come: those of the past, begun anew at a drawn instant of it.

Who comes after a moment may be put before those that wait, under most policies. So a stretch of the
past is taken for the future: from a drawn instant on, job after job with the same gaps, and from
the beginning again at its end (a circular block bootstrap with one block; Politis and Romano, 1992,
for its wrapping around). That keeps bursts, and which kinds of jobs come together. A drawn job asks
for what the one of the past did, but depends on none.
"""

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import replace

from shunter.core.rng import Rng
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.values.ids import JobId

PAST_LEAST = 5
"""With fewer submissions than these in the past, nobody is taken to come; ours."""

PAST_MOST = 2_000
"""So many of the last submissions are the past that is drawn from; ours."""


def drawn_arrivals(
    past: Sequence[JobSubmitted], now_us: int, most: int, seed: int, taken: Container[JobId]
) -> list[JobSubmitted]:
    """Return jobs that may come after an instant, in their order.

    Args:
        past: submissions up to now, in order.
        now_us: the instant.
        most: how many.
        seed: draws the stretch of the past.
        taken: ids that none of them may have.
    """
    known = past[-PAST_MOST:]
    if len(known) < PAST_LEAST or known[0].at_us >= now_us:
        return []
    first_us, span_us = known[0].at_us, now_us - known[0].at_us
    begins_us = first_us + Rng(seed, "arrivals").below(span_us)
    place = bisect_right([each.at_us for each in known], begins_us)
    found: list[JobSubmitted] = []
    number = 0
    while len(found) < most:
        turns, index = divmod(place + len(found), len(known))
        at_us = now_us + known[index].at_us - begins_us + turns * span_us
        number += 1
        while (job_id := JobId(f"arrival{number}")) in taken:
            number += 1
        spec = replace(
            known[index].spec, depends_on=(), array=JobId(""), array_index=None, at_once=None
        )
        found.append(JobSubmitted(max(at_us, now_us + 1), job_id, replace(spec, group="")))
    return found
