"""Policies by name: the entry points of the group `shunter.policies`, loaded one at a time."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from shunter.app.config.cluster import ClusterSection
from shunter.core.placement import Placement
from shunter.core.ports import Policy
from shunter.core.ranking import RankedPolicy
from shunter.core.throughputs import ThroughputTable
from shunter.errors import ConfigError, NotFoundError
from shunter.events.values.ids import GpuType
from shunter.policies.params import Extra, PolicyParams

__all__ = [
    "NeedsExtra",
    "NeedsPolicy",
    "NeedsThroughputs",
    "NeedsTypes",
    "PolicyPlugin",
    "completed",
    "equipped",
    "find_policy",
    "fitted",
    "informed",
    "policy_names",
]

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


@runtime_checkable
class NeedsTypes(Protocol):
    """A policy that must know something of every GPU type, such as its price."""

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Raise a ConfigError if it does not."""


@runtime_checkable
class NeedsExtra(Protocol):
    """A policy that may compute with a package not everybody has installed."""

    @property
    def extra(self) -> Extra | None:
        """What it computes with, if anything."""


@runtime_checkable
class NeedsPolicy(Protocol):
    """A policy that is put around an index policy."""

    inside_name: str
    inside_params: Mapping[str, Any]

    def around(self, inside: RankedPolicy) -> Policy[Any]:
        """Return the policy with the one inside."""


def equipped(policy: Policy[Any]) -> Policy[Any]:
    """Return the policy, if what it computes with is installed.

    Raises:
        ConfigError: it is not; the message names the extra.
    """
    extra = policy.extra if isinstance(policy, NeedsExtra) else None
    if extra is None or find_spec(extra.module) is not None:
        return policy
    raise ConfigError(
        f"policy {policy.name} needs the package {extra.name}, which is not installed; install the "
        f"extra: pip install 'shunter[{extra.name}]'; {extra.otherwise}"
    )


def completed(policy: Policy[Any], placement: Placement) -> Policy[Any]:
    """Return the policy with the one inside it, if it is to have one.

    Raises:
        ConfigError: that one is not installed, has no index, or its parameters are wrong.
    """
    if not isinstance(policy, NeedsPolicy):
        return policy
    key, name = f"policy.params.{policy.name}", policy.inside_name
    try:
        plugin = find_policy(name)
        params = plugin.Params.model_validate_json(json.dumps(dict(policy.inside_params)))
    except NotFoundError as error:
        raise ConfigError(f"{key}.inside: {error}") from error
    except ValidationError as error:
        faults = [
            f"{key}.inside_params.{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise ConfigError("\n".join(faults)) from error
    inside = plugin.build(params, placement)
    if not isinstance(inside, RankedPolicy):
        raise ConfigError(f"{key}.inside: policy {name!r} has no index to order jobs by")
    return policy.around(inside)


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


def fitted(policy: Policy[Any], cluster: ClusterSection) -> Policy[Any]:
    """Return the policy, if it knows what it needs of all GPU types of a cluster.

    Raises:
        ConfigError: it does not; the message names types and key.
    """
    if isinstance(policy, NeedsTypes):
        policy.check_types([where.gpu_type for _, where in cluster.servers() if where.gpus])
    return policy


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
