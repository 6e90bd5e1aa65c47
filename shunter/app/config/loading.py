"""From layers to a config that is whole and checked, with the parameters of every policy."""

import copy
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from shunter.app.config.faults import Fault, config_error, faults_of
from shunter.app.config.keys import Origins
from shunter.app.config.layers import CLUSTER_FILE, NODES, Layers, read_layers
from shunter.app.config.model import Config
from shunter.app.config.policies import did_you_mean, find_policy, policy_names
from shunter.errors import ConfigError
from shunter.policies.params import PolicyParams

__all__ = ["LoadedConfig", "load_config", "make_config"]


@dataclass(frozen=True)
class LoadedConfig:
    """A checked config with its policies' parameters, and where values came from."""

    config: Config
    params: Mapping[str, PolicyParams]
    layers: Layers

    @property
    def source(self) -> str:
        """The file it was read from."""
        return self.layers.source

    @property
    def chosen_params(self) -> PolicyParams:
        """The parameters of the policy that decides."""
        return self.params[self.config.policy.name]

    def replaced(self, values: Mapping[str, Any], place: str) -> "LoadedConfig":
        """Return the config with other values for some keys, checked again.

        Raises:
            ConfigError: it is no longer right.
        """
        return check_layers(self.layers.replaced(values, place))


def load_config(
    path: str | FilePath,
    overrides: Iterable[tuple[str, str]] = (),
    environ: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read and check a config file.

    Args:
        path: a TOML file.
        overrides: pairs such as ("--set", "policy.name=las"), the later the stronger.
        environ: where SHUNTER_A__B is looked up; None is the environment of the process.
    Raises:
        NotFoundError: there is no such file.
        ConfigError: one line for each key that is wrong.
    """
    return check_layers(read_layers(path, overrides, os.environ if environ is None else environ))


def make_config(tree: Mapping[str, Any], source: str = "config") -> LoadedConfig:
    """Check a config that is given as tables, lists and values.

    Raises:
        ConfigError: one line for each key that is wrong.
    """
    return check_layers(Layers(source, dict(tree), Origins()))


def check_layers(layers: Layers) -> LoadedConfig:
    """Return the config that merged layers make.

    Raises:
        ConfigError: one line for each key that is wrong.
    """
    faults: list[Fault] = []
    layers = _with_cluster_file(layers, faults)
    tree = layers.tree
    config: Config | None = None
    try:
        config = Config.model_validate_json(_json(tree))
    except ValidationError as error:
        faults += faults_of(error, Config, tree)
    params = _checked_params(tree, faults)
    if config is None or faults:
        raise config_error(faults, layers.origins, layers.source)
    return LoadedConfig(config, params, layers)


def _with_cluster_file(layers: Layers, faults: list[Fault]) -> Layers:
    """Return layers in which the servers of a cluster file stand in its place.

    What is checked again later, or recorded, is then what was read here.
    """
    cluster = layers.tree.get("cluster")
    file = cluster.get("file") if isinstance(cluster, dict) else None
    if not isinstance(file, str) or not file or NODES[1] in (cluster or ()):
        return layers
    from shunter.app.inputs import read_cluster

    try:
        groups = read_cluster(file)
    except ConfigError as error:
        faults += [Fault(CLUSTER_FILE, line) for line in str(error).splitlines()]
        return layers
    keys = ("name", "gpus", "cpus", "memory_gb", "rack")
    nodes = [{key: getattr(group, key) for key in keys} for group in groups]
    read = Layers(layers.source, copy.deepcopy(layers.tree), layers.origins.copy())
    read.put(NODES, nodes, f"{file}:{groups[0].line}")
    return read


def _checked_params(tree: Mapping[str, Any], faults: list[Fault]) -> dict[str, PolicyParams]:
    """Check every policy's table, chosen or not; return the parameters by name."""
    section = tree.get("policy", {})
    section = section if isinstance(section, dict) else {}
    tables = section.get("params", {})
    tables = tables if isinstance(tables, dict) else {}
    name = section.get("name", "fifo")
    known = policy_names()
    if isinstance(name, str) and name not in known:
        faults.append(Fault(("policy", "name"), f"no policy {name!r}{did_you_mean(name, known)}"))
    params: dict[str, PolicyParams] = {}
    for policy in dict.fromkeys([*tables, name]):
        table = tables.get(policy, {})
        path = ("policy", "params", policy)
        if policy not in known:
            if policy in tables:
                faults.append(Fault(path, f"no policy {policy!r}{did_you_mean(policy, known)}"))
            continue
        model = find_policy(policy).Params
        try:
            params[policy] = model.model_validate_json(_json(table))
        except ValidationError as error:
            faults += faults_of(error, model, table, path)
    return params


def _json(tree: Any) -> str:
    """Return a tree as JSON: strict models take a list for a tuple from there only."""
    return json.dumps(tree, default=str)
