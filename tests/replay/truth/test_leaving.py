"""Of jobs that are about to leave their GPUs, `why` names the order that says so in the log."""

import asyncio
from typing import Any

import pytest

from shunter.ask import clock, span
from shunter.ask.why import document, explain
from shunter.events import (
    AllocationChanged,
    AttemptEnded,
    AttemptStarted,
    Event,
    JobId,
    JobSuspended,
    RoundPlanned,
)
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.replay.truth.brute_force import decision_around
from tests.replay.truth.mixed_runs import simulated_once

MOST = 12
"""So many orders of a log are looked at."""


def orders(events: list[Event]) -> list[tuple[int, AllocationChanged, int]]:
    """Return each order that makes an attempt leave, with what is the next of the job after it."""
    found = []
    for seq, event in enumerate(events, 1):
        if not isinstance(event, AllocationChanged):
            continue
        own = [
            (number, each)
            for number, each in enumerate(events, 1)
            if getattr(each, "job_id", "") == event.job_id
        ]
        before = [each for number, each in own if number < seq]
        after = [(number, each) for number, each in own if number > seq]
        if isinstance(before[-1], AttemptStarted) and isinstance(
            after[0][1], JobSuspended | AttemptEnded
        ):
            found.append((seq, event, after[0][0]))
    return found


@pytest.mark.parametrize("name", ["gavel", "las", "tiresias"])
def test_order_to_leave_is_told_with_its_decision_its_round_and_for_whom(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)

    async def ran() -> int:
        async with read_log(url) as reader:
            events = [event async for event in reader.events()]
            found = orders(events)[:MOST]
            for seq, order, next_seq in found:
                last_seq = max(seq, next_seq - 1)
                at_us = events[last_seq - 1].at_us
                said = document(
                    await explain(reader, JobId(order.job_id), last_seq, at_us, rebuild)
                )
                if decision_around(events, last_seq)[1] < next_seq:
                    _check(said, events, seq, at_us)
            return len(found)

    assert asyncio.run(ran()) >= 3


def _check(said: Any, events: list[Event], seq: int, at_us: int) -> None:
    order = events[seq - 1]
    assert isinstance(order, AllocationChanged)
    planned = [each for each in events[:seq] if isinstance(each, RoundPlanned)][-1]
    told = said["leaves"]
    assert said["phase"] == "suspending"
    assert (told["seq"], told["at_us"], told["rule"]) == (seq, order.at_us, order.because.rule)
    assert (told["round"], planned.at_us) == (planned.number, order.at_us)
    assert told["beneficiaries"] == list(order.because.beneficiaries)
    by = f" at {clock(order.at_us)} by e{seq} of round {planned.number}: "
    (line,) = [each for each in said["details"] if each.startswith("it was told to ")]
    assert by in line
    assert line.startswith("it was told to move to ") is bool(order.allocation.shares)
    rule = line.split(by)[1].replace(" ", "_")
    assert rule.startswith(order.because.rule)
    assert all(each in line for each in order.because.beneficiaries)
    assert f" for {span(at_us - order.at_us)} (attempt " in said["headline"]
