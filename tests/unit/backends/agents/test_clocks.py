"""A host's clock as ours: bounded by every answer, and corrected by those that contradict."""

from shunter.backends.live import ClockOffset


def test_narrowest_answer_says_how_far_a_clock_is_ahead() -> None:
    clock = ClockOffset()
    clock.note(asked_ns=100, remote_ns=1100, came_ns=300)
    assert clock.ahead_ns == 900
    clock.note(asked_ns=400, remote_ns=1350, came_ns=420)
    assert clock.ahead_ns == 940
    clock.note(asked_ns=500, remote_ns=1500, came_ns=600)
    assert (clock.ahead_ns, clock.to_local(1440), clock.to_remote(500)) == (940, 500, 1440)


def test_clock_that_drifts_is_followed_for_ever() -> None:
    """Goal: days later it is known as well as at first. Method: 50 ppm, answers within 200 us."""
    clock, day_us = ClockOffset(), 86_400_000_000
    for at_us in range(0, 10 * day_us, 600_000_000):
        ahead_us = at_us * 50 // 1_000_000
        clock.note(at_us, at_us + 100 + ahead_us, at_us + 200)
        assert abs(clock.ahead_ns - ahead_us) <= 200


def test_clock_that_stood_still_is_followed_at_once() -> None:
    clock = ClockOffset()
    clock.note(1000, 6005, 1010)
    clock.note(9000, 9005, 9030)
    assert clock.ahead_ns == -10
