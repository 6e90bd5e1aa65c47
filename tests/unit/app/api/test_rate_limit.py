import pytest

from shunter.api import RateLimit
from shunter.errors import RateLimitedError


def test_so_many_at_once_and_then_a_steady_rate() -> None:
    limit = RateLimit(2.0)
    limit.take("ana", 0.0)
    limit.take("ana", 0.0)
    with pytest.raises(RateLimitedError, match="ana proposes too often: 2 times a second") as told:
        limit.take("ana", 0.0)
    assert told.value.retry_after_s == 0.5
    limit.take("ana", 0.5)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 0.6)


def test_a_rest_saves_up_one_second_at_most() -> None:
    limit = RateLimit(3.0)
    for _ in range(3):
        limit.take("ana", 1000.0)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 1000.0)


def test_users_have_limits_of_their_own() -> None:
    limit = RateLimit(1.0)
    limit.take("ana", 0.0)
    limit.take("bo", 0.0)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 0.0)


def test_less_than_one_a_second_is_one_after_a_while() -> None:
    limit = RateLimit(0.5)
    limit.take("ana", 0.0)
    with pytest.raises(RateLimitedError) as told:
        limit.take("ana", 1.0)
    assert told.value.retry_after_s == 1.0
    limit.take("ana", 2.0)
