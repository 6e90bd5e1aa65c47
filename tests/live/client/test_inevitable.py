"""What would have spared a job its wait, asked of the log that a real daemon wrote."""

import json

import pytest

from tests.live.api.serving import Served, awaited
from tests.live.client.test_dry_run import SLEEPS

pytestmark = pytest.mark.live


def test_wait_is_spared_by_the_order_of_one_decision(served: Served) -> None:
    with served.client() as client:
        first = client.submit(SLEEPS, gpus=3)
        awaited(lambda: first.state() == "running")
        third = client.submit(["sleep", "2"], gpus=3)
        second = client.submit(["sleep", "1"], gpus=2)
        first.cancel()
        assert third.result() == 0
        assert second.result() == 0
        log = str(served.root / "log.db")
        asked = ("why", second.id, "--inevitable", "--within", "1s", "--log", log)
        found = json.loads(served.run(*asked, "--json").stdout)["inevitable"]
        assert found["as_it_was"]["agrees"]
        assert [each["seq"] for each in found["tried"] if each["avoids"]] == [found["found"]["seq"]]
        assert found["found"]["placed"]
        events = client.events(kind="AllocationChanged", job=third.id)["events"]
        assert found["found"]["us"] <= events[0]["at_us"] <= found["next"]["us"]
