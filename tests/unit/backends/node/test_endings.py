"""What a status of 0 is worth after an attempt was asked to leave: by what was sent and said."""

import signal
from typing import Any, NamedTuple

import pytest

from shunter.backends.node import Ending, JobMessage, Verdict

FINISHED, GOES_ON = False, True
TERM, USR1 = signal.SIGTERM, signal.SIGUSR1


class Case(NamedTuple):
    """What was sent and said, in order, and what that comes to."""

    is_unfinished: bool
    warning: str
    said: str = ""
    is_signalled: bool = False
    number: int = USR1
    is_terminated: bool = False
    has_saved: bool = False


CASES = {
    "the file alone, nobody speaks": Case(FINISHED, ""),
    "the file alone, no answer yet": Case(FINISHED, "counts as finished", "training"),
    "the file alone, its loop had ended": Case(FINISHED, "", "training completed evaluating"),
    "it had begun another loop": Case(
        GOES_ON, "has not saved", "training completed training acknowledged"
    ),
    "another rank trained on for a while": Case(FINISHED, "", "completed training/1 acknowledged"),
    "it had seen the request": Case(GOES_ON, "has not saved", "training acknowledged"),
    "it could not save, and trained to its end": Case(
        FINISHED, "counts as finished", "training acknowledged failed training"
    ),
    "its 75 is hidden": Case(
        GOES_ON, "where 75 was expected", "training acknowledged saving", has_saved=True
    ),
    "it was asked in the evaluation after its loop": Case(
        GOES_ON, "75", "training completed evaluating acknowledged saving", has_saved=True
    ),
    "a checkpoint of its own accord": Case(
        FINISHED, "counts as finished", "training", has_saved=True
    ),
    "a signal, no SDK": Case(FINISHED, "SIGUSR1 had asked it", is_signalled=True),
    "a signal, with the SDK": Case(GOES_ON, "has not saved", "training", is_signalled=True),
    "a signal after its loop": Case(FINISHED, "", "training completed", is_signalled=True),
    "a signal that programs end of": Case(GOES_ON, "SIGTERM", is_signalled=True, number=TERM),
    "SIGTERM": Case(GOES_ON, "SIGTERM", is_terminated=True),
    "SIGTERM after its loop": Case(GOES_ON, "SIGTERM", "training completed", is_terminated=True),
    "SIGTERM when all was done": Case(
        FINISHED, "", "training completed done finished", is_terminated=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_status_of_0_is_worth_what_was_sent_and_said(case: Case) -> None:
    ending = Ending(case.number)
    ending.is_signalled = case.is_signalled
    for word in case.said.split():
        if word in ("acknowledged", "failed"):
            ending.take_answer(word)
        else:
            state, _, rank = word.partition("/")
            ending.take_progress(progress(state, int(rank or 0)))
    found = ending.of_zero(is_terminated=case.is_terminated, has_saved=case.has_saved)
    assert found.is_unfinished is case.is_unfinished
    assert case.warning in found.warning
    assert bool(case.warning) == bool(found.warning)
    assert found.warning.isprintable()
    assert len(found.warning) < 500


def test_number_that_is_no_signal_has_a_name_all_the_same() -> None:
    ending = Ending(200)
    ending.is_signalled = True
    assert ending.of_zero(is_terminated=False, has_saved=False) == Verdict(
        "ended with status 0 after signal 200 had asked it to leave, and counts as finished: a job "
        "that is to go on saves and exits with 75",
    )


def progress(state: str, rank: int) -> JobMessage:
    said: dict[str, Any] = {"what": "progress", "rank": rank, "step": 7, "state": state}
    return JobMessage.decoded(said)
