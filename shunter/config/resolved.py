"""The config as the log records it: canonical JSON, and what can be rebuilt from it.

It leaves out `[log]`, paths, and everything that changes no event; input files are recorded by
digest. So equal runs record equal bytes, wherever they read from and write to.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
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
from shunter.config.simulation import Reactions, find_world
from shunter.core import AnyPolicy
from shunter.core.planning import RoundRules
from shunter.core.speeds import SensitivityTable, TableCheck, ThroughputTable
from shunter.errors import ConfigError

LAUNCHES_FIRST = "launches_first"
"""The key that says it in the record, where it is so."""

FULL_WAITS = "full_waits"
RETRIES_ELSEWHERE = "retries_elsewhere"
"""The key that says that plans without classes tell it of those that lose their GPUs, too.

Logs of earlier versions do not say it, and are decided again as they were.
"""

MOVES_EVICTED = "moves_evicted"
"""The key that says that the plan which evicts a job gives it other GPUs, if some are left.

Logs of earlier versions do not say it, nor do those of simulations where it can change nothing.
"""

REACTOR = "reactor"
"""The key of a live record by which all that follows from facts is in the log.

Its value is the version of what follows: since 2, jobs fail that leave too often without progress;
since 3, a guard is why a job waits only where those whom it guards rank behind that job.
Logs of earlier versions do not have it, or a lower one, and are verified as they were.
"""
_REACTIONS, _BOUND_DEPARTURES, _LOWER_GUARDS = 3, 2, 3


@dataclass(frozen=True)
class PolicyRuntime:
    """A policy and the rules by which it is asked."""

    policy: AnyPolicy
    rules: RoundRules


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
        found[REACTOR] = _REACTIONS
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


def _table_check(tolerance: float, table: SensitivityTable | None) -> TableCheck | None:
    return TableCheck(table, tolerance) if tolerance and table is not None else None


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
    check = _table_check(tolerance_of(config), sensitivity)
    return PolicyRuntime(policy, _rules(section, document, check, learns=learns_tolerance(config)))


def _rules(
    section: PolicySection, document: Mapping[str, Any], check: TableCheck | None, *, learns: bool
) -> RoundRules:
    """Return the rules by which a policy is asked, as a record says them.

    A log of an earlier version lacks keys that say later rules, and is decided again without these.
    """
    backend, reactor = document.get("backend"), document.get(REACTOR, 0)
    live = backend or {}
    return RoundRules(
        round_us=section.round_us,
        seed=document["seed"],
        instant=document["instant"],
        backend_rounds=document["simulation"]["lease"]["round_ends"] == "last_gang",
        all_reasons=document["reasons"] == "all",
        guards=section.guards.guards(
            launches_first=document.get(LAUNCHES_FIRST, False),
            only_lower=reactor >= _LOWER_GUARDS,
        ),
        is_live=backend is not None,
        live_reactions=document["simulation"].get("reactions") == Reactions.live,
        checkpoints_stay=live.get("checkpoints_stay", False),
        launches_wait=live.get("launches_wait", False),
        takes_turns=section.slicing is not None,
        on_fault=section.reaction(is_live=backend is not None),
        table_check=check,
        learns_tolerance=learns,
        decentralised=section.scheme,
        full_waits=document.get(FULL_WAITS, False),
        moves_evicted=document.get(MOVES_EVICTED, False),
        bounds_departures=reactor >= _BOUND_DEPARTURES,
        retries_elsewhere=live.get(RETRIES_ELSEWHERE, False),
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


def recorded_runtime(record: str) -> PolicyRuntime:
    """Return the policy and the rules that a recorded config describes.

    Raises:
        ConfigError: the record was not written by `record_of`, or a policy is not installed.
    """
    sensitivity = recorded_sensitivity(record)
    try:
        document = json.loads(record)
        section = PolicySection.model_validate_json(json.dumps(document["policy"]))
        table = json.dumps(section.params[section.name])
        plugin = find_policy(section.name)
        params = plugin.Params.model_validate_json(table)
        check = _table_check(section.correct_beyond or 0.0, sensitivity)
        learns = section.learns(is_measured=bool(section.topology.learn))
        rules = _rules(section, document, check, learns=learns)
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"the config recorded in the log cannot be read: {error}") from error
    # The record holds the whole table, whatever was read then.
    placement = section.placement_strategy(section.skew.models)
    policy = section.aged(weighed(built(plugin, params, placement), sensitivity))
    policy = completed(policy, placement, sensitivity)
    policy = informed(policy, recorded_throughputs(record))
    policy = section.sized(policy, sensitivity, is_live=rules.is_live)
    return PolicyRuntime(section.making_room(section.proposing(policy)), rules)


def recorded_throughputs(record: str) -> ThroughputTable | None:
    """Return the table of throughputs of a recorded config, None if there was none.

    It is the `throughputs` of the config that was run, in the same order.

    Raises:
        ConfigError: the record was not written by `record_of`.
    """
    from shunter.workloads import parse_compact_throughputs

    form = _recorded_table(record, "throughputs")
    return (
        None
        if form is None
        else parse_compact_throughputs(form, "the recorded table of throughputs")
    )


def recorded_sensitivity(record: str) -> SensitivityTable | None:
    """Return the table of sensitivity of a recorded config, None if there was none.

    Raises:
        ConfigError: the record was not written by `record_of`.
    """
    from shunter.workloads import parse_compact_sensitivity

    form = _recorded_table(record, "sensitivity")
    return (
        None
        if form is None
        else parse_compact_sensitivity(form, "the recorded table of sensitivity")
    )


def _recorded_table(record: str, name: str) -> Any:
    try:
        return json.loads(record)["workload"].get(name)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"the config recorded in the log cannot be read: {error}") from error
