"""`policy.sizing` and `workload.sensitivity`: by what jobs are sized, and what corrects it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.config import load_config, policy_runtime, record_of, recorded_runtime
from shunter.core.ranking import Aged, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import TableCheck
from shunter.errors import ConfigError
from shunter.policies import DominantShare, HighsSolver, RemainingVolume, sizing
from shunter.policies.gavel import TwoLevelPolicy
from shunter.workloads import builtin_sensitivity, table_document
from tests.factories import needs_highs
from tests.unit.app.config.texts import SIZED, loaded, written

TABLE = builtin_sensitivity().table
LIVE = "backend={kind='local', local={root='r'}}; log.url=log.db"
SAMPLES, SAID = "simulation.samples.every=1m", "policy.correct_beyond=0.2"


@needs_highs
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", Sizing(Mechanism.tune, TABLE)),
        (LIVE, Sizing(Mechanism.tune, TABLE)),
        ("policy.sizing=opt", Sizing(Mechanism.opt, TABLE, HighsSolver(seconds_most=None))),
        (
            "policy.sizing=opt; policy.solve_limit=2s",
            Sizing(Mechanism.opt, TABLE, HighsSolver(seconds_most=2.0)),
        ),
    ],
)
def test_index_policy_sizes_jobs_by_the_table(
    tmp_path: Path, settings: str, expected: Sizing
) -> None:
    """Also on a live cluster, where agents hold jobs to their sizes."""
    policy = policy_runtime(loaded(tmp_path, SIZED, settings), instant=False).policy
    assert isinstance(policy, RankedPolicy)
    assert policy.sizing == expected


def test_opt_without_its_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "find_spec", lambda name: None)
    loaded(tmp_path, SIZED)
    with pytest.raises(ConfigError, match=r"policy.sizing.*highspy.*\[solvers\]"):
        loaded(tmp_path, SIZED, "policy.sizing=opt")


@pytest.mark.parametrize("half", ["", "raise ImportError('libhighs.so: cannot open')"])
def test_opt_with_a_broken_package_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """An installation that was cut off imports, and has nothing in it."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/highspy.py").write_text(half)
    monkeypatch.syspath_prepend(tmp_path / "there")
    monkeypatch.delitem(sys.modules, "highspy", raising=False)
    with pytest.raises(ConfigError, match=r"policy.sizing.*installed and cannot be used \("):
        loaded(tmp_path, SIZED, "policy.sizing=opt")
    sys.modules.pop("highspy", None)


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        (f"{SAMPLES}; {SAID}", 0.2),
        (SAMPLES, 0.1),
        (f"{SAMPLES}; policy.correct_beyond=0", None),
        (SAID, None),
        (f"{SAMPLES}; policy={{}}", None),
    ],
    ids=["said", "left out", "never", "no samples", "no sizing"],
)
def test_tables_are_corrected_where_jobs_are_sized_by_one_and_measured(
    tmp_path: Path, settings: str, tolerance: float | None
) -> None:
    config = loaded(tmp_path, SIZED, settings)
    check = policy_runtime(config, instant=False).rules.table_check
    record = record_of(config, instant=False, workload=config.table_records())
    assert json.loads(record)["policy"].get("correct_beyond") == tolerance
    assert check == recorded_runtime(record).rules.table_check
    assert check == (None if tolerance is None else TableCheck(TABLE, tolerance))


def test_how_fast_jobs_really_are_is_read_beside_the_config_and_recorded_by_digest(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, f'{SIZED}[simulation.speeds]\nsensitivity = "truth.json"\n')
    (tmp_path / "truth.json").write_text(json.dumps(table_document(TABLE, [])))
    config = load_config(path)
    assert config.truth_file is not None
    assert config.truth_file.table.models.keys() == TABLE.models.keys()
    assert dict(config.table_digests())["simulated sensitivity"] == config.truth_file.digest
    record = record_of(config, instant=False, workload=config.table_records())
    assert "sensitivity" not in json.loads(record)["simulation"]["speeds"]

    (tmp_path / "truth.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"simulation.speeds.sensitivity: .*truth.json"):
        load_config(path)


@pytest.mark.parametrize("name", ["drf", "tetris"])
@pytest.mark.parametrize(
    "policy",
    [
        {"sizing": "tune"},
        {},
        {"aging": {"every": "1h"}},
        {"name": "two_level", "params": {"two_level": {"inside": "NAME"}}},
    ],
    ids=str,
)
def test_order_by_demands_knows_the_table(
    tmp_path: Path, name: str, policy: dict[str, Any]
) -> None:
    """`[policy] sizing` need not be there, nor need the index stand alone."""
    told = str({"name": name, **policy}).replace("NAME", name).replace(": ", " = ")
    found = policy_runtime(loaded(tmp_path, SIZED, f"policy={told}"), instant=False).policy
    inside = found.inside if isinstance(found, TwoLevelPolicy) else found
    assert isinstance(inside, RankedPolicy)
    index = inside.index._index if isinstance(inside.index, Aged) else inside.index
    assert isinstance(index, DominantShare | RemainingVolume)
    assert index.demands.table == TABLE
