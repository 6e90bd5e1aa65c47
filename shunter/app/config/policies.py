"""Policies by name: the entry points of the group `shunter.policies`, loaded one at a time."""

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from shunter.core.placement import Placement
from shunter.core.ports import Policy
from shunter.core.throughputs import ThroughputTable
from shunter.errors import ConfigError, NotFoundError
from shunter.policies.params import PolicyParams

__all__ = ["NeedsThroughputs", "PolicyPlugin", "find_policy", "informed", "policy_names"]

GROUP = "shunter.policies"


class PolicyPlugin(Protocol):
    """What an entry point of the group gives: a class with its parameters' model."""

    name: str
    oracle: bool
    Params: type[PolicyParams]

    def build(self, params: Any, placement: Placement) -> Policy[Any]:
        """Return the policy."""


@runtime_checkable
class NeedsThroughputs(Protocol):
    """A policy that must be told how fast jobs are where."""

    def knowing(self, table: ThroughputTable) -> Policy[Any]:
        """Return the policy with a table."""


def informed(policy: Policy[Any], table: ThroughputTable | None) -> Policy[Any]:
    """Return the policy with the table of throughputs, if it takes one.

    One that says `needs_table = False` does without.

    Raises:
        ConfigError: it does, and there is none.
    """
    if not isinstance(policy, NeedsThroughputs):
        return policy
    if table is None and not getattr(policy, "needs_table", True):
        return policy
    if table is None:
        raise ConfigError(f"policy {policy.name} needs a table; name it as workload.throughputs")
    return policy.knowing(table)


def policy_names() -> tuple[str, ...]:
    """Return the names of all installed policies, in order."""
    return tuple(sorted(_entry_points()))


def find_policy(name: str) -> PolicyPlugin:
    """Load the policy of that name.

    Raises:
        NotFoundError: there is none; the message names those that are.
        ConfigError: its package cannot be imported.
    """
    point = _entry_points().get(name)
    if point is None:
        raise NotFoundError(f"there is no policy {name!r}{did_you_mean(name, policy_names())}")
    try:
        found: PolicyPlugin = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"policy {name!r} cannot be loaded from {point.value}: {error}"
        ) from error
    return found


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return the end of a message about an unknown name."""
    near = get_close_matches(name, known, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{guess}; known: {', '.join(known)}"


def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points by name; of equal names, the one of our own package."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.value)
    ours = [point for point in points if point.value.startswith("shunter.")]
    return {point.name: point for point in [*points, *ours]}
