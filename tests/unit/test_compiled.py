"""A compiled twin stands in for the very source it was made from, and for no other."""

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from shunter.compiled import PURE, CompiledTwins, stamp_of, twins_folder, use_twins

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "shunter"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one module and a file where its twin would lie."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "hot.py").write_text("VALUE = 1\n")
    folder = twins_folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / f"shunter.core.hot{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    stamp = stamp_of(tmp_path / "core" / "hot.py")
    (folder / "manifest.json").write_text(json.dumps({"shunter.core.hot": stamp}))
    return tmp_path


def finder(package: Path) -> CompiledTwins:
    return CompiledTwins(
        package, json.loads((twins_folder(package) / "manifest.json").read_bytes())
    )


def test_twin_of_an_unchanged_source_is_found(package: Path) -> None:
    spec = finder(package).find_spec("shunter.core.hot")
    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith(EXTENSION_SUFFIXES[0])


def test_changed_source_has_no_twin(package: Path) -> None:
    (package / "core" / "hot.py").write_text("VALUE = 22\n")
    assert finder(package).find_spec("shunter.core.hot") is None


def test_source_of_another_time_has_no_twin(package: Path) -> None:
    os.utime(package / "core" / "hot.py", ns=(1, 1))
    assert finder(package).find_spec("shunter.core.hot") is None


def test_lost_twin_and_lost_source_are_not_found(package: Path) -> None:
    found = finder(package)
    (twins_folder(package) / f"shunter.core.hot{EXTENSION_SUFFIXES[0]}").unlink()
    assert found.find_spec("shunter.core.hot") is None
    (package / "core" / "hot.py").unlink()
    assert found.find_spec("shunter.core.hot") is None


def test_module_without_a_twin_is_left_to_others(package: Path) -> None:
    assert finder(package).find_spec("shunter.core.cold") is None


@pytest.mark.parametrize("manifest", [None, "{"], ids=["none", "torn"])
def test_without_a_manifest_imports_are_left_alone(
    package: Path, manifest: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = twins_folder(package) / "manifest.json"
    path.unlink()
    if manifest is not None:
        path.write_text(manifest)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = list(sys.meta_path)
    use_twins(package)
    assert sys.meta_path == before


@pytest.mark.parametrize(("asked", "is_used"), [("1", False), ("0", True), ("", True)])
def test_sources_can_be_asked_for(
    package: Path, asked: str, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PURE, asked)
    others = [finder for finder in sys.meta_path if not isinstance(finder, CompiledTwins)]
    monkeypatch.setattr(sys, "meta_path", list(others))
    use_twins(package)
    assert len(sys.meta_path) == len(others) + is_used


def test_sources_and_twins_write_the_same_log() -> None:
    """A simulation with preemption and costs, run from the sources and from what was compiled."""
    if not (twins_folder(PACKAGE) / "manifest.json").exists():
        pytest.skip("nothing was compiled here: no C compiler when `make setup` ran")
    answers = {pure: simulated(pure) for pure in ("0", "1")}
    assert answers["1"]["twins"] == 0
    assert answers["0"]["twins"] > 0
    assert answers["0"]["digest"] == answers["1"]["digest"]


SIMULATE = """
import json, sys
from pathlib import Path
from shunter.app.config import load_config
from shunter.app.runs.simulation import simulate
document = simulate(load_config(Path("examples/costs.toml"))).document
loaded = [m for m in list(sys.modules.values()) if m.__name__.startswith("shunter.")]
twins = [m for m in loaded if "__compiled__" in str(m.__file__)]
print(json.dumps({"digest": document["log"]["digest"], "twins": len(twins)}))
"""


def simulated(pure: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", SIMULATE],
        cwd=ROOT,
        env={**os.environ, PURE: pure},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_every_line_of_the_list_names_modules() -> None:
    lines = (ROOT / "native" / "modules.txt").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns
    assert [line for line in patterns if not sorted(PACKAGE.glob(line))] == []
