"""Policies by name: the entry points of the group `shunter.policies`, loaded one at a time."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import ValidationError

from shunter.core import AnyPolicy
from shunter.core.planning import Placement, told_of
from shunter.core.ranking import RankedPolicy, Weighing
from shunter.core.speeds import SensitivityTable, ThroughputTable
from shunter.errors import ConfigError, NotFoundError, ShunterError
from shunter.events import GpuType
from shunter.plugins import Plugins
from shunter.policies import Extra, PolicyParams

if TYPE_CHECKING:
    from shunter.config.cluster import ClusterSection

POLICIES = Plugins("policy", "shunter.policies")
HOOKS = ("start", "observers", "advance", "target", "plan", "wake_at", "settled")


class PolicyPlugin(Protocol):
    """What an entry point of the group gives: a class with its parameters' model."""

    name: str
    oracle: bool
    Params: type[PolicyParams]

    def build(self, params: PolicyParams, placement: Placement) -> AnyPolicy:
        """Return the policy."""


@runtime_checkable
class NeedsThroughputs(Protocol):
    """A policy that must be told how fast jobs are where."""

    def knowing(self, table: ThroughputTable) -> AnyPolicy:
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
    inside_params: Mapping[str, object]

    def around(self, inside: RankedPolicy) -> AnyPolicy:
        """Return the policy with the one inside."""


def equipped(policy: AnyPolicy) -> AnyPolicy:
    """Return the policy, if what it computes with is installed.

    Raises:
        ConfigError: it is not; the message says how to install it.
    """
    extra = policy.extra if isinstance(policy, NeedsExtra) else None
    if extra is None or find_spec(extra.module) is not None:
        return policy
    raise ConfigError(
        f"policy {policy.name} needs the package {extra.name}, which is not installed; "
        f"{extra.hint}; {extra.otherwise}"
    )


def built(plugin: PolicyPlugin, params: PolicyParams, placement: Placement) -> AnyPolicy:
    """Return the policy of a plugin.

    Raises:
        ConfigError: it cannot be built, or lacks something that every policy has.
    """
    try:
        policy = plugin.build(params, placement)
    except (KeyboardInterrupt, ShunterError):
        raise
    except BaseException as error:
        raise ConfigError(f"policy {plugin.name!r} failed in {told_of('build', error)}") from error
    kinds = {"name": str, "version": str, "oracle": bool}
    lacking = [
        f"{name} ({kind.__name__})"
        for name, kind in kinds.items()
        if not isinstance(getattr(policy, name, None), kind)
    ]
    lacking += [f"{hook}()" for hook in HOOKS if not callable(getattr(policy, hook, None))]
    if lacking:
        raise ConfigError(f"policy {plugin.name!r}: what it builds lacks {', '.join(lacking)}")
    return policy


def weighed(policy: AnyPolicy, table: SensitivityTable | None) -> AnyPolicy:
    """Return the policy, its index going by how sensitive models are if it can.

    Args:
        policy: the policy, not yet with anything around its index.
        table: how sensitive models are; None: nobody knows.
    """
    if table is None or not isinstance(policy, RankedPolicy):
        return policy
    index = policy.index
    return replace(policy, index=index.knowing(table)) if isinstance(index, Weighing) else policy


def completed(
    policy: AnyPolicy,
    placement: Placement,
    table: SensitivityTable | None = None,
    *,
    at_events: bool = False,
) -> AnyPolicy:
    """Return the policy with the one inside it, if it is to have one.

    Args:
        policy: the policy.
        placement: where the one inside puts jobs.
        table: how sensitive models are, for the one inside.
        at_events: whether it is to decide at every event; one that cannot is refused then.
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
    if at_events and params.needs_rounds:
        raise ConfigError(f"{key}.inside_params: {params.needs_rounds}")
    inside = weighed(built(plugin, params, placement), table)
    if not isinstance(inside, RankedPolicy):
        raise ConfigError(f"{key}.inside: policy {name!r} has no index to order jobs by")
    return policy.around(inside)


def informed(policy: AnyPolicy, table: ThroughputTable | None) -> AnyPolicy:
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


def fitted(policy: AnyPolicy, cluster: "ClusterSection") -> AnyPolicy:
    """Return the policy, if it knows what it needs of all GPU types of a cluster.

    Raises:
        ConfigError: it does not; the message names types and key.
    """
    if isinstance(policy, NeedsTypes):
        policy.check_types([where.gpu_type for _, where in cluster.servers() if where.gpus])
    return policy


def find_policy(name: str) -> PolicyPlugin:
    """Load the policy of that name.

    Raises:
        NotFoundError: there is none; the message names those that are.
        ConfigError: its package cannot be imported, or what it gives is no policy.
    """
    point = POLICIES.point(name)
    if point is None:
        raise NotFoundError(f"there is {POLICIES.missing(name)}")
    plugin = _plugin(name, point, POLICIES.loaded(point))
    # Its types are looked at when they are first used, and that is here: a wrong one is its fault.
    POLICIES.tried(point, plugin.Params.model_rebuild)
    return plugin


def _plugin(name: str, point: EntryPoint, found: Any) -> PolicyPlugin:
    """Return the policy of an entry point; ConfigError: it lacks a part."""
    wanted = {
        "Params": isinstance(getattr(found, "Params", None), type)
        and issubclass(found.Params, PolicyParams),
        "build": callable(getattr(found, "build", None)),
        "name": isinstance(getattr(found, "name", None), str),
        "oracle": isinstance(getattr(found, "oracle", None), bool),
    }
    expected = {
        "Params": "a class below shunter.policies.params.PolicyParams",
        "build": "a function",
        "name": "a text",
        "oracle": "True or False",
    }
    lacking = [f"{part} ({expected[part]})" for part, is_there in wanted.items() if not is_there]
    if lacking:
        raise ConfigError(
            f"policy {name!r} of {point.value} is no policy: it lacks {', '.join(lacking)}"
        )
    plugin: PolicyPlugin = found
    return plugin
