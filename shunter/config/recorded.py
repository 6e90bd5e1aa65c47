"""What a log's recorded config says: the policy and the rules that decided, and its tables.

The record is checked as far as the policy needs it: who asks a log why a job waits does not load
the models of clusters, workloads and worlds.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.config.policy import PolicySection
from shunter.config.policy_plugins import built, completed, find_policy, informed, weighed
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
REACTIONS, _BOUND_DEPARTURES, _LOWER_GUARDS = 3, 2, 3


@dataclass(frozen=True)
class PolicyRuntime:
    """A policy and the rules by which it is asked."""

    policy: AnyPolicy
    rules: RoundRules


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
        check = table_check(section.correct_beyond or 0.0, sensitivity)
        learns = section.learns(is_measured=bool(section.topology.learn))
        rules = rules_of(section, document, check, learns=learns)
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"the config recorded in the log cannot be read: {error}") from error
    # The record holds the whole table, whatever was read then.
    placement = section.placement_strategy(section.skew.models)
    policy = section.aged(weighed(built(plugin, params, placement), sensitivity))
    policy = completed(policy, placement, sensitivity)
    policy = informed(policy, recorded_throughputs(record))
    policy = section.sized(policy, sensitivity, is_live=rules.is_live)
    return PolicyRuntime(section.making_room(section.proposing(policy)), rules)


def rules_of(
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
        live_reactions=document["simulation"].get("reactions") == "live",
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


def table_check(tolerance: float, table: SensitivityTable | None) -> TableCheck | None:
    """Return what corrects a table by what jobs measure; None: nothing does."""
    return TableCheck(table, tolerance) if tolerance and table is not None else None


def recorded_throughputs(record: str) -> ThroughputTable | None:
    """Return the table of throughputs of a recorded config, None if there was none.

    It is the `throughputs` of the config that was run, in the same order.

    Raises:
        ConfigError: the record was not written by `record_of`.
    """
    form = _recorded_table(record, "throughputs")
    if form is None:
        return None
    from shunter.workloads import parse_compact_throughputs

    return parse_compact_throughputs(form, "the recorded table of throughputs")


def recorded_sensitivity(record: str) -> SensitivityTable | None:
    """Return the table of sensitivity of a recorded config, None if there was none.

    Raises:
        ConfigError: the record was not written by `record_of`.
    """
    form = _recorded_table(record, "sensitivity")
    if form is None:
        return None
    from shunter.workloads import parse_compact_sensitivity

    return parse_compact_sensitivity(form, "the recorded table of sensitivity")


def _recorded_table(record: str, name: str) -> Any:
    try:
        return json.loads(record)["workload"].get(name)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"the config recorded in the log cannot be read: {error}") from error
