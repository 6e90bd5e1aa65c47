"""A recorded config with other values in `[policy]`: refused as a simulation with them would be.

A record is no config file: paths and tables are left out of it, and some keys are settled. So what
was wrong with it already is not asked about again, only what the other values bring.
"""

import json
from typing import Any

from pydantic import ValidationError

from shunter.app.config.faults import Fault, faults_of
from shunter.app.config.keys import path_text
from shunter.app.config.loading import refused_at_events
from shunter.app.config.model import Config, unsized
from shunter.app.config.policies import equipped, find_policy
from shunter.app.config.resolved import PolicyRuntime, recorded_runtime, refuse_misfits
from shunter.errors import ConfigError

__all__ = ["changed_runtime"]

_KEYS = ("schema", "seed", "cluster", "policy", "queues", "simulation")
"""The tables of a record that are as they are in a config file."""


def changed_runtime(before: str, record: str) -> PolicyRuntime:
    """Return the policy and the rules of a record that was changed.

    Args:
        before: the record as it is in the log.
        record: the same with other values in `policy`.
    Raises:
        ConfigError: the values do not go together with each other, or with the cluster.
    """
    config, faults = _checked(record)
    known = _checked(before)[1]
    if new := [each for each in faults if each not in known]:
        raise ConfigError("\n".join(_line(each) for each in new))
    runtime = recorded_runtime(record)
    equipped(runtime.policy)
    if config is not None:
        refuse_misfits(config, runtime.policy, _params_of(config), is_live=runtime.rules.is_live)
    return runtime


def _checked(record: str) -> tuple[Config | None, list[Fault]]:
    """Return the config of a simulation with the values of a record, and what is wrong with it."""
    document = json.loads(record)
    tree = {key: document[key] for key in _KEYS if key in document}
    tree["simulation"]["costs"].pop("gpu_copy_mb_s", None)  # its table is in no record
    try:
        config = Config.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        return None, faults_of(error, Config, tree)
    params = {config.policy.name: _params_of(config)}
    return config, [*refused_at_events(config, params), *unsized(config)]


def _params_of(config: Config) -> Any:
    section = config.policy
    table = section.params.get(section.name, {})
    return find_policy(section.name).Params.model_validate_json(json.dumps(table))


def _line(fault: Fault) -> str:
    return f"{path_text(fault.path)}: {fault.what}" if fault.path else fault.what
