"""A policy of a test that remembers nothing and is asked at every round; it says how it plans."""

from shunter.core import Observers, View
from shunter.events import Target

__all__ = ["Stateless"]


class Stateless:
    """All of the policy port but the plan."""

    def start(self, view: View) -> None:
        """Remember nothing."""

    def observers(self, memory: None) -> Observers:
        return {}

    def advance(self, memory: None, view: View) -> None:
        """Keep nothing up to date."""

    def target(self, memory: None, view: View) -> tuple[Target, ...] | None:
        return None

    def wake_at(self, memory: None) -> int | None:
        return 0

    def settled(self, memory: None) -> bool:
        return False
