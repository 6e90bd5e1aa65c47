"""From layers to a config that is whole and checked, with the parameters of every policy."""

import copy
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic.json_schema import JsonSchemaValue

from shunter.config.inputs import (
    misfits,
    read_cluster,
    read_model_table,
    read_text,
    read_throughputs,
)
from shunter.config.keys import (
    DEFAULT,
    Fault,
    Origins,
    Path,
    config_error,
    faults_in,
    faults_of,
    path_text,
    value_at,
)
from shunter.config.layers import (
    CLUSTER_FILE,
    FACTORS,
    NODES,
    SENSITIVITY,
    SKEW_TABLE,
    THROUGHPUTS,
    TRUE_SENSITIVITY,
    Layers,
    history_tables,
    read_layers,
)
from shunter.config.model import Config, unsized
from shunter.config.policy import SkewSection
from shunter.config.policy_plugins import POLICIES, find_policy
from shunter.config.simulation import WORLDS
from shunter.config.workload import ONE_OF
from shunter.core.speeds import FactorTable, SensitivityTable, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.plugins import did_you_mean
from shunter.policies import ModelSkew, PolicyParams, duration_text, load_skews, parse_history

if TYPE_CHECKING:
    from shunter.workloads import FactorFile, SensitivityFile, ThroughputFile


SkewTables = Mapping[str, Mapping[str, ModelSkew]]


@dataclass(frozen=True)
class LoadedConfig:
    """A checked config with its policies' parameters, and where values came from.

    `tables` are the skew tables that were read, by what names them; `throughput_file` is the whole
    table of throughputs; `truth_file` is how sensitive models really are in a simulation, where
    that is another table.
    """

    config: Config
    params: Mapping[str, PolicyParams]
    layers: Layers
    tables: SkewTables = field(default_factory=dict)
    throughput_file: "ThroughputFile | None" = None
    sensitivity_file: "SensitivityFile | None" = None
    factor_file: "FactorFile | None" = None
    truth_file: "SensitivityFile | None" = None

    @cached_property
    def throughputs(self) -> ThroughputTable | None:
        """The throughputs on the cluster's GPU types, as they are recorded; None if none."""
        if self.throughput_file is None:
            return None
        types = (GpuType(group.type) for group in self.config.cluster.nodes)
        return self.throughput_file.table.narrowed(types)

    @property
    def sensitivity(self) -> SensitivityTable | None:
        """How fast models are by CPUs and memory; None if no table was named."""
        return None if self.sensitivity_file is None else self.sensitivity_file.table

    @property
    def factors(self) -> FactorTable | None:
        """What distance and others leave of models' speeds; None if no table was named."""
        return None if self.factor_file is None else self.factor_file.table

    def table_records(self) -> dict[str, object]:
        """Return the tables of the workload as a log records them, by their keys."""
        from shunter.workloads import compact_sensitivity, compact_throughputs

        record: dict[str, object] = {}
        if self.throughputs is not None:
            record["throughputs"] = compact_throughputs(self.throughputs)
        if self.sensitivity is not None:
            record["sensitivity"] = compact_sensitivity(self.sensitivity)
        return record

    def table_digests(self) -> Iterator[tuple[str, str]]:
        """Yield the tables that were read, with the digests of their texts."""
        if self.throughput_file is not None:
            yield "throughputs", self.throughput_file.digest
        if self.sensitivity_file is not None:
            yield "sensitivity", self.sensitivity_file.digest
        if self.factor_file is not None:
            yield "factors", self.factor_file.digest
        if self.truth_file is not None:
            yield "simulated sensitivity", self.truth_file.digest

    @property
    def skews(self) -> dict[str, float]:
        """The skews of the table that is used, by model, with those set instead."""
        return {model.model: model.skew for model in self._table.values()} | dict(
            self.config.policy.skew.models
        )

    @property
    def tensors_mb(self) -> dict[str, float]:
        """The size of all tensors in the table that is used, by model."""
        return {model.model: model.total_mb for model in self._table.values()}

    @property
    def _table(self) -> Mapping[str, ModelSkew]:
        return self.tables.get(self.config.policy.skew.table, {})

    @property
    def source(self) -> str:
        """The file it was read from."""
        return self.layers.source

    @property
    def chosen_params(self) -> PolicyParams:
        """The parameters of the policy that decides."""
        return self.params[self.config.policy.name]

    def replaced(self, values: Mapping[str, object], place: str) -> "LoadedConfig":
        """Return the config with other values for some keys, checked again.

        Raises:
            ConfigError: it is no longer right.
        """
        return check_layers(self.layers.replaced(values, place), self)


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


def make_config(tree: Mapping[str, object], source: str = "config") -> LoadedConfig:
    """Check a config that is given as tables, lists and values.

    Raises:
        ConfigError: one line for each key that is wrong.
    """
    return check_layers(Layers(source, dict(tree), Origins()))


def check_layers(layers: Layers, known: LoadedConfig | None = None) -> LoadedConfig:
    """Return the config that merged layers make.

    Args:
        layers: what was set.
        known: a config whose tables were read already, and are not read again.
    Raises:
        ConfigError: one line for each key that is wrong.
    """
    faults: list[Fault] = []
    layers = _with_histories(_with_cluster_file(layers, faults), faults)
    tree = layers.tree
    config: Config | None = None
    try:
        config = Config.model_validate_json(_json(tree))
    except ValidationError as error:
        faults += faults_of(error, Config, tree)
    faults += _lacking_jobs(tree, config)
    params = _checked_params(tree, faults)
    faults += refused_at_events(config, params)
    faults += unsized(config)
    faults += _unknown_world(config)
    read = known.tables if known is not None else {}
    tables = {**read, **_skew_table(config, read, faults)}
    throughput_file = _throughputs(config, known.throughput_file if known else None, faults)
    model_tables = _model_tables(config, known, faults)
    if config is None or faults:
        raise config_error(faults, layers.origins, layers.source)
    return LoadedConfig(config, params, layers, tables, throughput_file, *model_tables)


def _lacking_jobs(tree: Mapping[str, object], config: Config | None) -> list[Fault]:
    """Return what is wrong where a simulation has no jobs; a live cluster needs none."""
    backend = tree.get("backend")
    kind = backend.get("kind", "simulated") if isinstance(backend, dict) else "simulated"
    if kind != "simulated":
        return []
    if "workload" not in tree:
        return [Fault(("workload",), "missing; expected the jobs")]
    if config is not None and not config.workload.has_jobs:
        return [Fault(("workload",), ONE_OF)]
    return []


def _with_cluster_file(layers: Layers, faults: list[Fault]) -> Layers:
    """Return layers in which the servers of a cluster file stand in its place.

    What is checked again later, or recorded, is then what was read here.
    """
    cluster = layers.tree.get("cluster")
    if not isinstance(cluster, dict) or NODES[1] in cluster:
        return layers
    file = cluster.get("file")
    if not isinstance(file, str) or not file:
        return layers
    try:
        groups = read_cluster(file)
    except ConfigError as error:
        faults += faults_in(error, CLUSTER_FILE)
        return layers
    keys = ("name", "gpus", "cpus", "memory_gb", "rack")
    nodes = [{key: getattr(group, key) for key in keys} for group in groups]
    tree, origins = copy.deepcopy(layers.tree), layers.origins.copy()
    read = Layers(layers.source, tree, origins, layers.histories)
    read.put(NODES, nodes, f"{file}:{groups[0].line}")
    return read


def _with_histories(layers: Layers, faults: list[Fault]) -> Layers:
    """Return layers in which the samples of a history file stand in its place."""
    named = history_tables(layers.tree)
    if not named:
        return layers
    files = tuple(str(table["history"]) for table in named.values())
    tree, origins = copy.deepcopy(layers.tree), layers.origins.copy()
    read = Layers(layers.source, tree, origins, layers.histories + files)
    for policy, table in named.items():
        path, file = ("policy", "params", policy, "history"), str(table["history"])
        try:
            samples_us = parse_history(read_text(file), file)
        except ConfigError as error:
            faults += faults_in(error, path)
            samples_us = (1,)
        samples_s = [sample_us / 1e6 for sample_us in samples_us]
        read.put(path, samples_s, layers.origins.of(path))
    return read


def _skew_table(config: Config | None, known: SkewTables, faults: list[Fault]) -> SkewTables:
    """Return the skew table by its name, if it is used; check what replaces it."""
    if config is None:
        return {}
    section = config.policy.skew
    is_used = config.policy.placement == "skew" or config.simulation.costs.by_model
    if not is_used and section == SkewSection.usual():
        return {}
    table = known.get(section.table)
    if table is None:
        try:
            table = load_skews(section.table, read_text)
        except ConfigError as error:
            faults += faults_in(error, SKEW_TABLE)
            return {}
    models = tuple(table)
    faults += [
        Fault(
            ("policy", "skew", "models", name),
            f"no model {name!r} in {section.table}{did_you_mean(name, models)}",
        )
        for name in section.models
        if name not in table
    ]
    return {section.table: table}


def _throughputs(
    config: Config | None, known: "ThroughputFile | None", faults: list[Fault]
) -> "ThroughputFile | None":
    """Return the table of throughputs if one is named; check it with the cluster."""
    if config is None or config.workload.throughputs is None:
        return None
    source, base_type = config.workload.throughputs, config.workload.base_type
    try:
        file = read_throughputs(source, base_type, known)
    except ConfigError as error:
        faults += faults_in(error, THROUGHPUTS)
        return None
    nodes = config.cluster.nodes
    types = [group.type if group.names and group.accelerators else "" for group in nodes]
    units = [group.type for group in nodes if group.units]
    faults += [
        Fault(("cluster", "nodes", number, "type"), what)
        for number, what in misfits(file.table, types, units)
    ]
    return file


def _model_tables(
    config: Config | None, known: LoadedConfig | None, faults: list[Fault]
) -> "tuple[SensitivityFile | None, FactorFile | None, SensitivityFile | None]":
    """Return the tables of sensitivity and factors, and that of the truth."""
    if config is None:
        return None, None, None
    from shunter.workloads import load_sensitivity

    sensitivity = known.sensitivity_file if known else None
    factors, real = (known.factor_file, known.truth_file) if known else (None, None)
    workload, truth = config.workload, config.simulation.speeds.sensitivity
    return (
        read_model_table(workload.sensitivity, SENSITIVITY, load_sensitivity, sensitivity, faults),
        read_model_table(workload.factors, FACTORS, _load_factors, factors, faults),
        read_model_table(truth, TRUE_SENSITIVITY, load_sensitivity, real, faults),
    )


def _load_factors(source: str, read: Callable[[str], str]) -> "FactorFile":
    from shunter.workloads import load_factors

    return load_factors(source, read)


def _checked_params(tree: Mapping[str, object], faults: list[Fault]) -> dict[str, PolicyParams]:
    """Check every policy's table, chosen or not; return the parameters by name."""
    section = tree.get("policy", {})
    section = section if isinstance(section, dict) else {}
    tables = section.get("params", {})
    tables = tables if isinstance(tables, dict) else {}
    name = section.get("name", "fifo")
    if isinstance(name, str) and POLICIES.point(name) is None:
        faults.append(Fault(("policy", "name"), POLICIES.missing(name)))
    params: dict[str, PolicyParams] = {}
    for policy in dict.fromkeys([*tables, *([name] if isinstance(name, str) else [])]):
        table = tables.get(policy, {})
        path = ("policy", "params", policy)
        if POLICIES.point(policy) is None:
            if policy in tables and policy != name:
                faults.append(Fault(path, POLICIES.missing(policy)))
            continue
        model = find_policy(policy).Params
        try:
            params[policy] = model.model_validate_json(_json(table))
        except ValidationError as error:
            faults += faults_of(error, model, table, path)
    return params


def refused_at_events(config: Config | None, params: Mapping[str, PolicyParams]) -> Iterator[Fault]:
    """Yield what is wrong where a policy is to decide at every event that cannot."""
    if config is None or config.policy.round_us or config.policy.name not in params:
        return
    if why := params[config.policy.name].needs_rounds:
        yield Fault(("policy", "trigger"), why)


def _unknown_world(config: Config | None) -> Iterator[Fault]:
    """Yield what is wrong with the world's name."""
    name = "" if config is None else config.simulation.world
    if name and name not in WORLDS.names():
        yield Fault(("simulation", "world"), WORLDS.missing(name))


def _json(tree: object) -> str:
    """Return a tree as JSON: strict models take a list for a tuple from there only."""
    return json.dumps(tree, default=str)


# A config as it is in effect.

_MISSING = object()


@dataclass(frozen=True)
class Setting:
    """One key: `text` is its value as --set takes it."""

    key: str
    value: object
    origin: str

    @property
    def text(self) -> str:
        """The value in the notation of TOML."""
        return json.dumps(self.value, ensure_ascii=False)


def effective(loaded: LoadedConfig) -> dict[str, object]:
    """Return the whole config with all defaults, as tables, lists and values."""
    document = loaded.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["policy"]["params"] = {
        name: params.model_dump(mode="json", by_alias=True)
        for name, params in loaded.params.items()
    }
    return document


def settings(loaded: LoadedConfig) -> list[Setting]:
    """Return every key of a config that has a value, in the order of the model."""
    return [
        Setting(path_text(path), value, _origin(loaded, path))
        for path, value in _leaves(effective(loaded), ())
    ]


def json_schema() -> JsonSchemaValue:
    """Return the JSON schema of config files, for editors."""
    schema = Config.model_json_schema(by_alias=True)
    _write_durations(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _origin(loaded: LoadedConfig, path: Path) -> str:
    if value_at(loaded.layers.tree, path, _MISSING) is _MISSING:
        return DEFAULT
    return loaded.layers.origins.of(path)


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the values of tables, and of lists of tables; other lists are values."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    else:
        yield path, value


def _write_durations(schema: object) -> None:
    """Write the defaults of durations as people do; the model holds microseconds."""
    if isinstance(schema, list):
        for item in schema:
            _write_durations(item)
    if not isinstance(schema, dict):
        return
    # Those that may be left out have no default, so that no alternative of `anyOf` needs a look.
    is_duration = str(schema.get("title", "")).startswith("duration")
    if is_duration and isinstance(schema.get("default"), int):
        schema["default"] = duration_text(schema["default"])
    for item in schema.values():
        _write_durations(item)
