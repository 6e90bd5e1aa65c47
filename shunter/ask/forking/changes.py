"""What a person wants otherwise in a fork: another policy or parameter, servers, users left out."""

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from shunter.ask.forking.fork import Change
from shunter.config.cluster import ClusterSection, NodeGroup, expanded_hostlist
from shunter.config.keys import Fault, faults_of, parse_path, path_text
from shunter.config.layers import parse_value
from shunter.config.loading import refused_at_events
from shunter.config.model import Config, unsized
from shunter.config.policy import PolicySection
from shunter.config.policy_plugins import equipped, find_policy
from shunter.config.resolved import (
    PolicyRuntime,
    recorded_runtime,
    refuse_callers,
    refuse_misfits,
)
from shunter.core.cluster import Health
from shunter.core.state import State
from shunter.errors import ConfigError, UsageError
from shunter.events.facts.run import SchedulerStarted
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import NodeName, UserName

NOBODY_CALLS = "nobody calls in a fork, so job schedulers in here propose places"

_SIMULATED = ("schema", "seed", "cluster", "policy", "queues", "simulation")
"""The tables of a record that are as they are in a config file."""

_EXAMPLE = "such as name=gpu9,gpus=8,type=v100"


@dataclass(frozen=True)
class Wishes:
    """What is to be otherwise, as it was written; nothing by default.

    `settings` are KEY=VALUE, of `policy` or of a policy's parameters (`gavel.objective=…`).
    """

    policy: str | None = None
    settings: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is to be otherwise."""
        return self != Wishes()


def change_of(
    wishes: Wishes, started: SchedulerStarted, state: State, known_users: Container[str]
) -> Change:
    """Return the change of a fork.

    Args:
        wishes: what is to be otherwise.
        started: who decided in the log.
        state: at the moment of the fork.
        known_users: who has jobs then, or submits some later.
    Raises:
        ConfigError: a setting or a server is wrong, or there is no such policy.
        UsageError: a server or user is not there, or a server is there already.
    """
    known = state.cluster.servers
    there = [name for name, server in known.items() if server.health is not Health.removed]
    added = [each for text in wishes.added for each in _servers(text)]
    for place, (name, _) in enumerate(added):
        if name in there:
            raise UsageError(f"--add-node: there is a server {name} already")
        if any(name == other for other, _ in added[:place]):
            raise UsageError(f"--add-node: {name} is added twice")
    removed = [name for text in wishes.removed for name in _names(text)]
    for name in removed:
        if name not in there:
            raise UsageError(
                f"--remove-node: there is no server {name}; `shunter nodes` lists them"
            )
    users = tuple(UserName(user) for user in wishes.without)
    for user in users:
        if user not in known_users:
            raise UsageError(f"--without-user: nobody named {user} has or submits jobs there")
    other = other_start(started, wishes)
    if other is None:
        return Change(added=added, removed=removed, without=users)
    runtime = _changed_runtime(started.config, other.config)
    policy = runtime.policy
    other = replace(other, policy=policy.name, policy_version=policy.version)
    run = policy, runtime.rules
    return Change(other, run, added=added, removed=removed, without=users)


def other_start(started: SchedulerStarted, wishes: Wishes) -> SchedulerStarted | None:
    """Return what would have started another policy, or other parameters.

    Where callers proposed, job schedulers in here do. None: nobody wants either.

    Raises:
        ConfigError: a setting is wrong, or there is no such policy.
    """
    policy, settings = wishes.policy, wishes.settings
    document = json.loads(started.config)
    section = document["policy"]
    if policy is None and not settings and not _calls(section):
        return None
    if _calls(section):
        section["decentralised"]["schedulers"] = "built_in"
    if policy is not None and policy != section["name"]:
        find_policy(policy)
        section["name"], section["params"] = policy, {}
    paths = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: expected KEY=VALUE, such as policy.round=300s")
        path = _path_of(key.strip(), section["name"])
        if value.strip() or path[1:] == ["name"]:
            _put(document, path, parse_value(value), key.strip())
            paths.append(path)
        else:
            _leave_out(document, path)
    _drop_idle(section, paths)
    chosen = section["params"].get(section["name"], {})
    section["params"] = {section["name"]: chosen}
    _check(section, chosen)
    refuse_callers(PolicySection.model_validate_json(json.dumps(section)))
    config = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return replace(started, config=config)


def _drop_idle(section: dict[str, Any], paths: Sequence[Sequence[str]]) -> None:
    """Drop keys of sizing that nobody set here and that its kind does not use."""
    sizing = section.get("sizing")
    used = {"correct_beyond": sizing not in (None, "proportional"), "solve_limit": sizing == "opt"}
    for key, is_used in used.items():
        if not is_used and ["policy", key] not in [list(path) for path in paths]:
            section.pop(key, None)


def callers_propose(started: SchedulerStarted) -> bool:
    """Say whether callers proposed places in a log; nobody does in a fork."""
    return _calls(json.loads(started.config)["policy"])


def _calls(section: Mapping[str, Any]) -> bool:
    scheme = section.get("decentralised")
    return scheme is not None and scheme["schedulers"] == "callers"


def _path_of(key: str, policy: str) -> Sequence[str]:
    """Return where a setting stands in the record of a config.

    Raises:
        ConfigError: it is not of the policy that is to decide.
    """
    path = [str(part) for part in parse_path(key)]
    if path[0] != "policy":
        path = ["policy", "params", *path]
    if path == ["policy"] or (path[1:2] == ["params"] and path[2:3] != [policy]):
        raise ConfigError(
            f"--set {key}: expected a key of the table [policy], such as policy.round, or a "
            f"parameter of the policy that decides, such as {policy}.KEY"
        )
    return path


def _check(section: Mapping[str, object], params: object) -> None:
    """Raise ConfigError with one line for each key that is wrong."""
    name = str(section["name"])
    for model, document, place in (
        (PolicySection, section, "policy"),
        (find_policy(name).Params, params, name),
    ):
        try:
            model.model_validate_json(json.dumps(document))
        except ValidationError as error:
            lines = [
                f"--set {'.'.join(map(str, (place, *each['loc'])))}: {each['msg']}"
                for each in error.errors()
            ]
            raise ConfigError("\n".join(lines)) from error


def _leave_out(tree: dict[str, Any], path: Sequence[str]) -> None:
    """Take a key or a table away, so that its default holds; there may be none."""
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.pop(path[-1], None)


def _put(tree: dict[str, object], path: Sequence[str], value: object, key: str) -> None:
    for part in path[:-1]:
        inner = tree.get(part)
        if inner is None:
            inner = tree[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {key}: {part} is a value and has no keys")
        tree = inner
    tree[path[-1]] = value


def _servers(text: str) -> Iterable[tuple[NodeName, ConfigurationSet]]:
    """Return the servers of a text such as `name=gpu[5-8],gpus=8,type=v100`."""
    table: dict[str, object] = {}
    for each in _split(text):
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"--add-node {text}: expected KEY=VALUE,…, {_EXAMPLE}")
        if key.strip() in table:
            raise ConfigError(f"--add-node {text}: {key.strip()} is there twice; {_EXAMPLE}")
        table[key.strip()] = parse_value(value)
    try:
        group = NodeGroup.model_validate_json(json.dumps(table))
        return ClusterSection(nodes=(group,)).servers()
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"])) or "it"
        raise ConfigError(f"--add-node {text}: {where}: {wrong['msg']}; {_EXAMPLE}") from error


def _names(text: str) -> Sequence[NodeName]:
    """Return the servers that a hostlist such as `gpu[1-2],gpu7` names."""
    try:
        names = expanded_hostlist(text)
    except ValueError as error:
        raise ConfigError(f"--remove-node {text}: {error}") from error
    if not names:
        raise ConfigError("--remove-node: expected the name of a server, such as gpu[1-2],gpu7")
    return [NodeName(name) for name in names]


def _split(text: str) -> Sequence[str]:
    """Return the parts of a text between its commas, but for those in brackets."""
    return re.split(r",(?![^\[]*\])", text)


def _changed_runtime(before: str, record: str) -> PolicyRuntime:
    """Return the policy and the rules of a record that was changed.

    A record is no config file: paths and tables are left out of it, and some keys are settled. So
    what was wrong with it already is not asked about again, only what the other values bring.

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
    """Return the config of a simulation by a record, and what is wrong with it."""
    document = json.loads(record)
    tree = {key: document[key] for key in _SIMULATED if key in document}
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
