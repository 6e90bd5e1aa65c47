"""The config as the log records it: canonical JSON (`recorded.py` reads it).

It leaves out `[log]`, paths, and everything that changes no event; input files are recorded by
digest. So equal runs record equal bytes, wherever they read from and write to.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from shunter.config.cluster import GPU
from shunter.config.loading import LoadedConfig
from shunter.config.model import Config
from shunter.config.policy import PolicySection
from shunter.config.policy_plugins import (
    built,
    completed,
    equipped,
    find_policy,
    fitted,
    informed,
    weighed,
)
from shunter.config.recorded import (
    FULL_WAITS,
    LAUNCHES_FIRST,
    MOVES_EVICTED,
    REACTIONS,
    REACTOR,
    RETRIES_ELSEWHERE,
    PolicyRuntime,
    rules_of,
    table_check,
)
from shunter.config.simulation import Reactions, find_world
from shunter.core import AnyPolicy
from shunter.errors import ConfigError


def record_of(
    loaded: LoadedConfig,
    *,
    instant: bool,
    workload: Mapping[str, object],
    moves_evicted: bool = True,
) -> str:
    """Return the canonical JSON of a config.

    Args:
        loaded: the config.
        instant: whether the backend's outcomes take no time.
        workload: what is said of the jobs, apart from their digest.
        moves_evicted: whether the plan that evicts a job may move it.
    """
    document = loaded.config.model_dump(mode="json", by_alias=True)
    document.pop("log")
    name = loaded.config.policy.name
    params = loaded.chosen_params.record()
    document["policy"]["params"] = {name: params}
    _settle_later_keys(document, loaded)
    document["workload"] = workload
    for name in ("backend", "server"):
        document.pop(name, None)
    document |= _conduct(loaded, instant=instant, moves_evicted=moves_evicted)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _conduct(loaded: LoadedConfig, *, instant: bool, moves_evicted: bool) -> dict[str, Any]:
    """Return what the record says of how jobs are run; `_rules` follow from it."""
    config = loaded.config
    found: dict[str, Any] = {"reasons": config.log.reasons, "instant": instant}
    if launches_first(config):
        found[LAUNCHES_FIRST] = True
    if loaded.chosen_params.full_waits:
        found[FULL_WAITS] = True
    if moves_evicted:
        found[MOVES_EVICTED] = True
    if config.backend.is_live:
        found["backend"] = {
            "kind": config.backend.kind,
            "checkpoints_stay": config.backend.checkpoints_stay,
            RETRIES_ELSEWHERE: True,
        }
        if config.backend.launches_wait:
            found["backend"]["launches_wait"] = True
        found[REACTOR] = REACTIONS
    return found


def launches_first(config: Config) -> bool:
    """Say whether a job keeps what it was given until it was launched there.

    So it is wherever launches take time; logs of earlier versions do not say it.
    """
    simulation = config.simulation
    by_peers = simulation.lease.round_ends == "last_gang"
    costs = simulation.costs
    return config.backend.is_live or (not by_peers and bool(costs.start or costs.resume))


def tolerance_of(config: Config) -> float:
    """Return from which part on a measured speed corrects the table; 0: none does."""
    return config.policy.tolerance(is_measured=_is_measured(config))


LEARNS_TOLERANCE: Final = "policy.placement = 'topology'"
"""The key and value with which `learns_tolerance` can hold, for messages."""


def learns_tolerance(config: Config) -> bool:
    """Say whether curves of tolerance are learnt from what gangs measure."""
    return config.policy.learns(is_measured=_is_measured(config))


def _is_measured(config: Config) -> bool:
    return config.backend.is_live or bool(config.simulation.samples.every)


def _settle_later_keys(document: dict[str, Any], loaded: LoadedConfig) -> None:
    """Leave out later keys that are not in use; put a skew table in its place.

    So a run that uses none of them records what it recorded before there were any, and no file is
    needed to decide again.
    """
    section, simulation = document["policy"], document["simulation"]
    for group in document["cluster"]["nodes"]:
        for name in ("units", "socket_gpus", "switch_gpus", "socket_cpus"):
            if not group[name]:
                del group[name]
        if group["device"] == GPU:
            del group["device"]
    if not document["cluster"]["devices"]:
        del document["cluster"]["devices"]
    costs = simulation["costs"]
    if loaded.config.policy.placement == "skew":
        section["skew"] = {**section["skew"], "models": loaded.skews}
        del section["skew"]["table"]
    else:
        del section["skew"]
    if loaded.config.policy.placement != "topology":
        del section["topology"]
    else:
        if section["topology"]["make_room"] is None:
            del section["topology"]["make_room"]
        if learns_tolerance(loaded.config):
            section["topology"]["learn"] = True
        else:
            del section["topology"]["learn"]
    off = ("aging", "decentralised", "on_fault", "sizing", "slicing", "solve_limit", "time_limit")
    for name in off:
        if section.get(name) is None:
            section.pop(name, None)
    if section.get("slicing", {}).get("boundary_most", 0) is None:
        del section["slicing"]["boundary_most"]
    section["correct_beyond"] = tolerance = tolerance_of(loaded.config)
    if not tolerance:
        del section["correct_beyond"]
    simulation["speeds"].pop("sensitivity", None)
    if simulation["reactions"] == Reactions.trace:
        del simulation["reactions"]
    if not loaded.config.simulation.samples.every:
        del simulation["samples"]
    if simulation["speeds"].get("shared") is None:
        simulation["speeds"].pop("shared", None)
    if world := simulation.pop("world"):
        simulation.update(find_world(world).record())
    if not loaded.config.simulation.costs.turn:
        del costs["turn"]
    if loaded.config.simulation.costs.gpu_copy_mb_s is None:
        del costs["gpu_copy_mb_s"]
    if loaded.config.simulation.turn_ends == "at_boundary":
        del simulation["turn_ends"]
    if costs["migrate"] is None:
        costs["migrate"] = costs["resume"]
    if loaded.config.simulation.costs.checkpoint_mb:
        costs["model_mb"] = loaded.config.simulation.costs.sizes_mb(loaded.tensors_mb)
    else:
        del costs["checkpoint_mb"], costs["bandwidth_mb_s"], costs["model_mb"]


def policy_runtime(loaded: LoadedConfig, *, instant: bool) -> PolicyRuntime:
    """Return the policy of a config, and its rules.

    Raises:
        ConfigError: what was set does not go together, or lacks a package; file and key are named.
    """
    try:
        return _runtime(loaded, instant=instant)
    except ConfigError as error:
        lines = (f"{loaded.source}: {line}" for line in str(error).splitlines())
        raise ConfigError("\n".join(lines)) from error


def _runtime(loaded: LoadedConfig, *, instant: bool) -> PolicyRuntime:
    config, section = loaded.config, loaded.config.policy
    sensitivity, is_live = loaded.sensitivity, config.backend.is_live
    placement = section.placement_strategy(loaded.skews)
    plain = built(find_policy(section.name), loaded.chosen_params, placement)
    policy = section.aged(weighed(equipped(plain), sensitivity))
    policy = completed(policy, placement, sensitivity, at_events=not section.round_us)
    policy = informed(policy, loaded.throughputs)
    policy = section.sized(policy, sensitivity, is_live=is_live)
    policy = section.making_room(section.proposing(policy))
    if not is_live:
        refuse_callers(section)
    refuse_misfits(config, policy, loaded.chosen_params, is_live=is_live)
    if is_live:
        refuse_short_probes(section, loaded.chosen_params)
    document = {
        "seed": config.seed,
        "simulation": config.simulation.model_dump(mode="json", include={"lease", "reactions"}),
        **_conduct(loaded, instant=instant, moves_evicted=True),
    }
    check = table_check(tolerance_of(config), sensitivity)
    return PolicyRuntime(
        policy, rules_of(section, document, check, learns=learns_tolerance(config))
    )


PROBE_LIVE_LEAST_US = 6_000_000
"""A live job tells its mini-batches once a second, and is to be measured six times in a probe."""


def refuse_short_probes(section: PolicySection, params: Any) -> None:
    """Raise ConfigError if live jobs could not be measured in what a policy tries.

    They would tell too little in two probes, and be taken for jobs that make no progress.
    """
    probes_us: Mapping[str, int] = getattr(params, "probes_us", {})
    for name, probe_us in probes_us.items():
        if probe_us < PROBE_LIVE_LEAST_US:
            raise ConfigError(
                f"policy.params.{section.name}.{name}.probe: expected "
                f"{PROBE_LIVE_LEAST_US / 1e6:g}s at least, not {probe_us / 1e6:g}s: live jobs tell "
                "how fast they are once a second, and one that has told too little in a probe "
                "would be taken for one that makes no progress"
            )


def refuse_callers(section: PolicySection) -> None:
    """Raise ConfigError if jobs of a simulation are to wait for callers."""
    if section.waits_for_callers:
        raise ConfigError(
            "policy.decentralised.schedulers: nobody calls in a simulation, so no job would start; "
            "expected 'built_in', not 'callers'"
        )


def refuse_misfits(config: Config, policy: AnyPolicy, params: Any, *, is_live: bool) -> None:
    """Raise ConfigError if a policy does not go together with the rest of a config.

    Args:
        config: the whole of it.
        policy: as it was built from it.
        params: the parameters of the policy.
        is_live: whether live jobs are measured, as often as it takes.
    """
    fitted(policy, config.cluster)
    if getattr(policy, "needs_slicing", False) and config.policy.slicing is None:
        raise ConfigError(
            f"policy {policy.name} shares GPUs in turns: name how as [policy.slicing], with "
            "quantum = '60s', say"
        )
    _check_trials(config, params, is_live=is_live)


def _check_trials(config: Config, params: Any, *, is_live: bool) -> None:
    """Refuse trials that are too short, or in which jobs would not be measured."""
    probes_us: Mapping[str, int] = getattr(params, "probes_us", {})
    slicing = config.policy.slicing
    for name, probe_us in probes_us.items():
        if slicing is not None and probe_us < slicing.quantum:
            raise ConfigError(
                f"policy.params.{config.policy.name}.{name}.probe: expected a quantum of "
                f"policy.slicing at least, {slicing.quantum / 1e6:g}s: who waits for a turn "
                "measures nothing"
            )
    needed_us: int | None = getattr(params, "needs_samples_us", None)
    if needed_us is None or is_live:
        return  # live they are sampled as often as it takes
    if not 0 < config.simulation.samples.every <= needed_us:
        raise ConfigError(
            f"simulation.samples.every: expected at most {needed_us / 1e6:g}s and more than 0: "
            "jobs must be measured six times in the probe of what "
            f"policy.params.{config.policy.name} tries"
        )
