"""A time limit is told by the key that sets it, and what is added to it for a start."""

import pytest

from shunter.app.live.policy.asked import START, START_S, AskedPolicy
from shunter.events.facts.run import SchedulerStarted
from tests.factories import policy


def test_what_a_start_may_take_more_is_told_apart_from_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = SchedulerStarted(0, 1, "0", "fifo", "1", 0, "{}")
    asked = AskedPolicy(policy("fifo"), started, b"", 90_000_000)
    try:
        monkeypatch.setattr(asked, "_hook", "plan")
        assert (asked.limit_s, asked.limit_in_words) == (90, "policy.time_limit, 90 s")
        monkeypatch.setattr(asked, "_hook", START)
        assert asked.limit_s == 90 + START_S
        assert asked.limit_in_words == "policy.time_limit, 90 s, and 60 s more to start"
    finally:
        asked.close()
