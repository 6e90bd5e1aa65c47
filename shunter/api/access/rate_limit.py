"""How often a user may call: so many times a second, and as many at once after a rest."""

from shunter.errors import RateLimitedError

__all__ = ["RateLimit"]


class RateLimit:
    """A bucket of tokens for each user, filled at a steady rate; it knows no clock."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, user: str, now_s: float) -> None:
        """Take a token of a user.

        Args:
            user: who calls; one of a bounded set.
            now_s: the instant, by a clock that never goes back.
        Raises:
            RateLimitedError: there is none; it says when there will be.
        """
        left, then_s = self._left.get(user, (self._most, now_s))
        left = min(self._most, left + (now_s - then_s) * self._per_s)
        if left < 1:
            wait_s = (1 - left) / self._per_s
            self._left[user] = (left, now_s)
            raise RateLimitedError(
                f"{user} proposes too often: {self._per_s:g} times a second are allowed "
                f"(server.proposals_per_s); again in {wait_s:.3f} s",
                wait_s,
            )
        self._left[user] = (left - 1, now_s)
