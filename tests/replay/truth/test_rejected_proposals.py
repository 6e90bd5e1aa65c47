"""All that `why` says of a job right after its proposal was rejected is true."""

import asyncio

import pytest

from shunter.ask.why import document, explain
from shunter.events import GangRejected
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.replay.truth.brute_force import Truth, decision_around
from tests.replay.truth.claim import Claim
from tests.replay.truth.claims import check
from tests.replay.truth.mixed_runs import simulated_once

MOST = 20
"""How many rejections of a run are looked at, the first ones."""


@pytest.mark.parametrize("name", ["las-stale", "srtf-decentralised"])
def test_what_is_said_after_a_rejection_is_true(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = simulated_once(name, tmp_path_factory)

    async def ran() -> list[int]:
        async with read_log(url) as reader:
            events = [event async for event in reader.events()]
            times = []
            rejected = [
                (seq, event)
                for seq, event in enumerate(events, 1)
                if isinstance(event, GangRejected)
            ]
            for seq, event in rejected[:MOST]:
                end = decision_around(events, seq)[1]
                said = document(await explain(reader, event.job_id, seq, event.at_us, rebuild))
                assert said["reason"]["name"] == "proposal_rejected"
                truth = Truth(events[:end], name, event.at_us)
                check(Claim(said, events, truth))
                times.append(truth.state.proposals.rejected_in_a_row(event.job_id))
            return times

    times = asyncio.run(ran())
    assert len(times) >= 10
    assert max(times) > 1, "some are rejected again and again"
