"""`policy.sizing` and `workload.sensitivity`: what is checked, recorded and rebuilt."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, policy_runtime, record_of, recorded_runtime
from shunter.core.ranking import Aged, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import TableCheck
from shunter.errors import ConfigError
from shunter.policies import DominantShare, HighsSolver, RemainingVolume, sizing
from shunter.policies.gavel import TwoLevelPolicy
from shunter.workloads import builtin_sensitivity, table_document
from tests.factories import needs_highs

CONFIG = """\
[[cluster.nodes]]
name = "n"
gpus = 4
cpus = 12
memory_gb = 250
[workload]
trace = "jobs.csv"
sensitivity = "builtin:synergy"
[policy]
name = "las"
sizing = "tune"
"""

WriteConfig = Callable[[str], Path]


def loaded(write_config: WriteConfig, text: str = CONFIG) -> LoadedConfig:
    return load_config(write_config(text))


def recorded(config: LoadedConfig) -> str:
    return record_of(config, instant=False, workload=config.table_records())


def test_index_policy_sizes_jobs_by_the_table(write_config: WriteConfig) -> None:
    policy = policy_runtime(loaded(write_config), instant=False).policy
    assert isinstance(policy, RankedPolicy)
    assert policy.sizing is not None
    assert policy.sizing.mechanism is Mechanism.tune
    assert policy.sizing.table == builtin_sensitivity().table


@needs_highs
def test_opt_has_a_solver_with_the_limit_that_is_asked_for(write_config: WriteConfig) -> None:
    for limit, seconds in (("", None), ('solve_limit = "2s"', 2.0)):
        text = CONFIG.replace('sizing = "tune"', f'sizing = "opt"\n{limit}')
        policy = policy_runtime(loaded(write_config, text), instant=False).policy
        assert isinstance(policy, RankedPolicy)
        assert policy.sizing == Sizing(
            Mechanism.opt, builtin_sensitivity().table, HighsSolver(seconds_most=seconds)
        )


def test_opt_without_its_package_says_how_to_install_it(
    write_config: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "find_spec", lambda name: None)
    loaded(write_config)
    with pytest.raises(ConfigError, match=r"policy.sizing.*highspy.*\[solvers\]"):
        loaded(write_config, CONFIG.replace('"tune"', '"opt"'))


@pytest.mark.parametrize("half", ["", "raise ImportError('libhighs.so: cannot open')"])
def test_opt_with_a_broken_package_is_told_before_anything_runs(
    write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """An installation that was cut off imports, and has nothing in it."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/highspy.py").write_text(half)
    monkeypatch.syspath_prepend(tmp_path / "there")
    monkeypatch.delitem(sys.modules, "highspy", raising=False)
    with pytest.raises(ConfigError, match=r"policy.sizing.*installed and cannot be used \("):
        loaded(write_config, CONFIG.replace('"tune"', '"opt"'))
    sys.modules.pop("highspy", None)


SAMPLED = f'{CONFIG}correct_beyond = 0.2\n[simulation.samples]\nevery = "1m"\n'


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [
        (SAMPLED, 0.2),
        (SAMPLED.replace("correct_beyond = 0.2\n", ""), 0.1),
        (SAMPLED.replace("0.2", "0"), None),
        (SAMPLED.replace('"1m"', '"0s"'), None),
        (SAMPLED.replace('sizing = "tune"\ncorrect_beyond = 0.2\n', ""), None),
    ],
    ids=["said", "left out", "never", "no samples", "no sizing"],
)
def test_tables_are_corrected_where_jobs_are_sized_by_one_and_measured(
    write_config: WriteConfig, text: str, tolerance: float | None
) -> None:
    config = loaded(write_config, text)
    check = policy_runtime(config, instant=False).rules.table_check
    record = recorded(config)
    assert json.loads(record)["policy"].get("correct_beyond") == tolerance
    assert check == recorded_runtime(record).rules.table_check
    table = builtin_sensitivity().table
    assert check == (None if tolerance is None else TableCheck(table, tolerance))


def test_how_fast_jobs_really_are_is_read_beside_the_config_and_recorded_by_digest(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    path = write_config(f'{CONFIG}[simulation.speeds]\nsensitivity = "truth.json"\n')
    truth = builtin_sensitivity()
    (tmp_path / "truth.json").write_text(json.dumps(table_document(truth.table, [])))
    config = load_config(path)
    assert config.truth_file is not None
    assert config.truth_file.table.models.keys() == truth.table.models.keys()
    assert dict(config.table_digests())["simulated sensitivity"] == config.truth_file.digest
    assert "sensitivity" not in json.loads(recorded(config))["simulation"]["speeds"]

    (tmp_path / "truth.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"simulation.speeds.sensitivity: .*truth.json"):
        load_config(path)


def test_live_cluster_sizes_jobs_where_agents_hold_them_to_it(write_config: WriteConfig) -> None:
    live = '[backend]\nkind = "local"\n[backend.local]\nroot = "r"\n[log]\nurl = "log.db"\n'
    config = loaded(write_config, CONFIG.replace("[workload]", f"{live}[workload]"))
    assert config.config.policy.sizing is Mechanism.tune


@pytest.mark.parametrize("name", ["drf", "tetris"])
@pytest.mark.parametrize(
    "rest", ['sizing = "tune"\n', "", '[policy.aging]\nevery = "1h"\n', "two_level"]
)
def test_order_by_demands_knows_the_table_now_and_from_the_record(
    write_config: WriteConfig, name: str, rest: str
) -> None:
    """`[policy] sizing` need not be there, nor need the index stand alone."""
    before = 'name = "las"\nsizing = "tune"\n'
    after = f'name = "{name}"\n{rest}'
    if rest == "two_level":
        after = f'name = "two_level"\n[policy.params.two_level]\ninside = "{name}"\n'
    config = loaded(write_config, CONFIG.replace(before, after))
    rebuilt = recorded_runtime(recorded(config)).policy
    for policy in (policy_runtime(config, instant=False).policy, rebuilt):
        inside = policy.inside if isinstance(policy, TwoLevelPolicy) else policy
        assert isinstance(inside, RankedPolicy)
        index = inside.index._index if isinstance(inside.index, Aged) else inside.index
        assert isinstance(index, DominantShare | RemainingVolume)
        assert index.demands.table == builtin_sensitivity().table
