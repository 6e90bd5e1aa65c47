"""Tables by their source: files of both forms, the built-in one, base type and digest."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.core.speeds import JobKind
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import (
    BUILTIN_THROUGHPUTS,
    GPU_TYPES,
    ThroughputFile,
    builtin_throughputs,
    gavel_table,
    load_throughputs,
    main,
)

V100 = GpuType("v100")
GAVEL = '{"v100": {"(\'A3C\', 1)": {"null": 7.5}}, "t4": {"(\'A3C\', 1)": {"null": 4}}}'
COMPACT = '{"kinds": [["A3C", 1]], "alone": {"v100": [7.5], "t4": [4]}, "pairs": {}}'

Write = Callable[[str, str], Path]


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def load(path: Path, base_type: str = "v100") -> ThroughputFile:
    return load_throughputs(str(path), read, base_type)


def fault_of(path: Path, base_type: str = "v100") -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, base_type)
    return str(caught.value)


@pytest.mark.parametrize("text", [GAVEL, COMPACT])
def test_form_is_told_by_its_content(write: Write, text: str) -> None:
    table = load(write("t.json", text), "t4").table
    assert table.speed(V100, JobKind("A3C", 1)) == 7.5 / 4
    assert table.base_type == "t4"


def test_digest_is_by_content_and_base_type_not_by_path(write: Write) -> None:
    digests = {
        load(write("a.json", GAVEL)).digest,
        load(write("b.json", GAVEL)).digest,
        load(write("a.json", GAVEL), "t4").digest,
        load(write("a.json", GAVEL + "\n")).digest,
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "t.json, line 1, column 2: not valid JSON"),
        ("[]", "t.json: expected a JSON object, with GPU types as keys"),
        ("[" * 100_000, "t.json: not usable JSON"),
        ('{"v100": {}, "v100": {}}', "t.json: not usable JSON (key 'v100' stands twice"),
        ('{"v100": {"(\'A3C\', 1)": {"null": NaN}}}', "0 or 1e-09 to 1e+12, not nan"),
    ],
)
def test_file_that_is_no_table_is_refused(write: Write, text: str, said: str) -> None:
    assert said in fault_of(write("t.json", text))


def test_base_type_the_table_lacks_is_named_with_those_it_has(write: Write) -> None:
    said = fault_of(write("t.json", GAVEL), "a100")
    assert "no throughputs on 'a100'" in said
    assert said.endswith("name one of v100, t4 as workload.base_type")


def test_unknown_builtin_table_is_named() -> None:
    with pytest.raises(ConfigError, match="no table 'builtin:nobody'; expected builtin:gavel"):
        load_throughputs("builtin:nobody", read)


def test_builtin_table_has_every_kind_of_the_three_types() -> None:
    table = builtin_throughputs().table
    assert (tuple(table.alone), table.base_type) == (GPU_TYPES, "v100")
    assert {len(rates) for rates in table.alone.values()} == {83}
    assert {len(pairs) for pairs in table.paired.values()} == {1759}
    assert table.rate(V100, JobKind("ResNet-18 (batch size 64)", 1)) == 24.1
    assert table.name == BUILTIN_THROUGHPUTS


@pytest.fixture
def published(shared_traces: Path) -> Callable[[str], Path]:
    def find(name: str) -> Path:
        return shared_traces / "gavel" / name

    return find


@pytest.mark.parametrize(
    "name", ["simulation_throughputs.json", "physical_cluster_throughputs.json"]
)
def test_published_file_is_read_whole(published: Callable[[str], Path], name: str) -> None:
    path = published(name)
    table = load(path).table
    rows = json.loads(path.read_text())
    assert {gpu_type: len(rates) for gpu_type, rates in table.alone.items()} == {
        gpu_type: len(of_type) for gpu_type, of_type in rows.items()
    }
    row = rows["p100"]["('CycleGAN', 1)"]
    assert table.rate(GpuType("p100"), JobKind("CycleGAN", 1)) == row["null"]
    assert table.pair_rates(GpuType("p100"), JobKind("CycleGAN", 1), JobKind("A3C", 1)) == tuple(
        row["('A3C', 1)"]
    )


def test_builtin_table_is_the_published_one_rounded(
    published: Callable[[str], Path], tmp_path: Path
) -> None:
    path = published("simulation_throughputs.json")
    main(["gavel", str(path), str(tmp_path / "derived.json")])
    derived = load(tmp_path / "derived.json").table
    whole, builtin = load(path).table, builtin_throughputs().table
    assert derived == builtin
    for gpu_type, rates in builtin.alone.items():
        assert rates == pytest.approx(whole.alone[gpu_type], rel=0.005)
    assert gavel_table(whole)["licence"] == "MIT"
