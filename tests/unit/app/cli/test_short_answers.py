"""The short answer of `why`: three lines, and free GPUs that are enough with for what they are."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.ask import clock, fold_events
from shunter.ask.why import document, explain
from shunter.cli import app
from shunter.core import JobPhase, State
from shunter.events import AllocationChanged, Event, RoundPlanned
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.factories import needs_highs
from tests.replay.truth.brute_force import decision_around
from tests.replay.truth.mixed_runs import simulated_once
from tests.slices import share

NAMES = (
    *("fifo", "fifo-events", "fifo_easy", "las", "srtf", "gittins", "drf"),
    *("gandiva", "gavel", "two_level", "las-decentralised"),
)
MOMENTS = range(10, 700, 29)
OF_ROOM = (
    *("no_capacity", "outranked", "guard_min_runtime", "guard_preemption_limit"),
    *("share_met", "time_sliced"),
)
FREE = re.compile(r"it needs (\d+) GPUs?, and (\d+) (?:is|are) free")
GIVEN = re.compile(r"(?:which|\d+ of them) (?:is|are) given to (\S+?),? (?:.*)by the plan at (\S+)")
SAID = re.compile(r"^, (which|\d+ of them|kept for|but)|; the (plan|round) at \S+ (starts|decides)")
OURS = ("class reason", "a plan on these", "may make leave", "all that ask for the same wait")


def told(url: str, moments: Sequence[int]) -> Iterator[tuple[dict[str, Any], Sequence[Event]]]:
    """Yield what is said of jobs that wait at some moments of a log, with what follows."""

    async def asked() -> list[tuple[dict[str, Any], Sequence[Event]]]:
        found: list[tuple[dict[str, Any], Sequence[Event]]] = []
        async with read_log(url) as reader:
            events, state = [event async for event in reader.events()], State()
            for seq in (one for one in moments if one < len(events)):
                end = decision_around(events, seq)[1]
                fold_events(state, events[state.seq : end])
                waiting = [each for each in state.jobs.values() if each.phase is JobPhase.waiting]
                for job in waiting[::2]:
                    at_us = events[seq - 1].at_us
                    said = document(await explain(reader, job.job_id, seq, at_us, rebuild))
                    found.append((said, events[end:]))
        return found

    yield from asyncio.run(asked())


@needs_highs
@pytest.mark.parametrize("name", NAMES)
def test_free_gpus_that_are_enough_are_told_with_for_what_they_are(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked, enough = 0, 0
    for said, after in told(simulated_once(name, tmp_path_factory), share(MOMENTS)):
        asked += 1
        short, reason = said["short"], said["reason"]["name"]
        assert [*short] == ["answer", "waits_for", "to_do"]
        assert all(short.values()), short
        whole = " ".join([*short.values(), *said["details"], *said["needs_at_least"]])
        assert not [words for words in OURS if words in whole]
        found = FREE.search(short["answer"])
        if found is None or reason not in OF_ROOM or int(found[2]) < int(found[1]):
            continue
        enough += 1
        rest = short["answer"][found.end() :]
        assert SAID.search(rest), f"for what those are is not said: {short['answer']}"
        given = GIVEN.search(rest)
        if given and isinstance(after[0], RoundPlanned):  # nothing else happens before that plan
            assert given[2].rstrip(",;") == clock(after[0].at_us)
            assert given[1].rstrip(",") in _started(after)
    print(f"{name}: {asked} asked, enough GPUs were free in {enough}")
    assert asked


def _started(events: Sequence[Event]) -> set[str]:
    """Return the jobs that a plan gives GPUs which is first of some events."""
    found = set()
    for event in events[1:]:
        if isinstance(event, RoundPlanned) or event.at_us != events[0].at_us:
            break
        if isinstance(event, AllocationChanged) and event.allocation.shares:
            found.add(str(event.job_id))
    return found


def test_a_wait_is_told_in_three_lines_and_the_rest_with_long(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = simulated_once("las", tmp_path_factory)
    every = told(url, MOMENTS[:9])
    said = next(said for said, _ in every if said["reason"]["name"] == "outranked")
    job, at = said["job"]["id"], f"e{said['at']['seq']}"

    def asked(*words: str) -> list[str]:
        done = CliRunner().invoke(app, ["why", job, "--log", url, "--at", at, *words])
        assert done.exit_code == 0, done.output
        return done.output.splitlines()

    first, *rest = asked()
    assert first == f"{said['short']['answer']}   (at {said['at']['time']})"
    assert [line.strip().partition("  ")[0] for line in rest] == ["waits for", "to do"]
    whole = asked("--long")
    assert whole[0] == f"{said['headline']}   (at {said['at']['time']})"
    assert [f"  {line}" for line in said["details"]] == whole[1 : 1 + len(said["details"])]
    assert any(line.startswith(("  decision ", "  found by ")) for line in whole)
    assert "reasons over time" in whole
