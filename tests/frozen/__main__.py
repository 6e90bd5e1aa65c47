"""Choose the questions, ask them, and keep the answers: README.md says when one may.

python -m tests.frozen            print the digests, and what the kept questions cover
python -m tests.frozen --write    choose the questions; keep answers and digests
"""

import lzma
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from shunter.api import queue_document
from shunter.ask import clock, fold_events
from shunter.core import State
from shunter.events import AllocationChanged, Event
from tests.frozen import questions as frozen
from tests.replay.truth.brute_force import decision_around

SOLVED = ("finish_time_fairness", "hierarchical", "makespan", "max_min_fairness")
SIMULATED = (
    *("drf", "fifo", "fifo-topology", "fifo_backfill", "fifo_easy", "ftf", "gandiva-growing"),
    *("gandiva-packed", "gittins", "las-decentralised", "las-skew", "las-tuned", "sjf"),
    *("srtf-events", "tetris", "tiresias", "two_level-srtf"),
)
PARTNERS = (1, 2, 4)
"""A run is compared with those so many places after it."""
MOMENTS, REASONS, QUEUES = 80, 5, 3
"""At how many moments of a log it is looked for what its jobs wait for, evenly over its events;
about how many reasons it is asked at most, the rarest ones; at how many its queue is asked for."""


def about(run: str, events: Sequence[Event]) -> Iterator[str]:
    """Yield the questions about one log, at the ends of decisions.

    Of a reason or phase that jobs have in it: the job in the middle of all that are found, at an
    event or, every other time, shortly before the next one with what would help.
    """
    found = defaultdict[str, list[tuple[int, str]]](list)
    state = State()
    for place in range(MOMENTS):
        seq = decision_around(events, 1 + place * (len(events) - 1) // MOMENTS)[1]
        fold_events(state, events[state.seq : seq])
        for row in queue_document(state, state.jobs.values(), clock, now="", ranks={})["jobs"]:
            found[row["reason"]["name"] if row["reason"] else row["state"]].append((seq, row["id"]))
    rarest = sorted(found, key=lambda what: (len(found[what]), what))[:REASONS]
    for number, places in enumerate(found[what] for what in rarest):
        seq, job_id = places[len(places) // 2]
        later_us = events[seq].at_us - 1
        if number % 2 or later_us < events[seq - 1].at_us or run in SOLVED:
            yield f"why {run} {job_id} --at e{seq}"
        else:
            yield f"why {run} {job_id} --at {clock(later_us)} --counterfactuals"
    changes = [event.job_id for event in events if isinstance(event, AllocationChanged)]
    busiest = max(sorted(changes), key=changes.count)
    yield f"why {run} {busiest}"
    if run in SIMULATED[::2]:
        yield f"why {run} {busiest} --inevitable"
    for number in range(1, QUEUES + 1):
        yield f"queue {run} e{decision_around(events, number * len(events) // (QUEUES + 2))[1]}"
    yield f"history {run}"


def questions(logs: frozen.Logs) -> Iterator[str]:
    """Yield all questions, in the order in which they are kept."""
    for run, scene in frozen.SCENES_BY_RUN.items():
        instants = [event.at_us for event in scene.run().events]
        seq = len(instants) if scene.at_us is None else bisect_right(instants, scene.at_us)
        yield f"why {run}"
        if "held_by_it" not in run:  # its hold has no command: deciding again has none
            yield from (f"queue {run} e{seq}", f"history {run}")
    for run in (*SOLVED, *SIMULATED):
        yield from about(run, logs.recorded(run).events)
    for runs, partners in ((SOLVED, PARTNERS[:1]), (SIMULATED, PARTNERS)):
        for place, run in enumerate(runs):
            yield from (f"diff {run} {runs[(place + one) % len(runs)]}" for one in partners)


with TemporaryDirectory() as folder:
    logs = frozen.Logs(Path(folder))
    if "--write" in sys.argv:
        lines = [frozen.canonical(each, logs.answer(each)) + "\n" for each in questions(logs)]
        frozen.ANSWERS.write_bytes(lzma.compress("".join(lines).encode(), preset=9))
    table = frozen.digest_table(logs, frozen.kept_answers())
    if "--write" in sys.argv:
        frozen.DIGESTS.write_text(table, encoding="utf-8")
    sys.stdout.write(table)
