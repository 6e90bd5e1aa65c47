"""The distribution `shunter-peers`: what it brings, and that Shunter itself brings none of it."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from shunter import __version__
from shunter.app.plugins import PEERS

ROOT = Path(__file__).resolve().parents[2]


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def test_it_has_the_version_of_shunter_and_needs_that_one() -> None:
    peers = project("peers")

    assert peers["version"] == __version__
    assert f"shunter=={__version__}" in peers["dependencies"]


def test_entry_points_are_those_that_shunter_knows_to_be_there() -> None:
    brought = project("peers")["entry-points"]
    assert {group: brought[group].keys() for group in PEERS} == PEERS


def test_shunter_names_neither_the_policies_nor_their_solver() -> None:
    shunter = project(".")

    assert all(
        names.isdisjoint(shunter["entry-points"].get(group, {})) for group, names in PEERS.items()
    )
    assert "ecos" not in shunter["optional-dependencies"]


@pytest.mark.parametrize(("folder", "package"), [(".", "shunter"), ("peers", "shunter_peers")])
def test_wheel_holds_one_package(folder: str, package: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / folder, check=True, capture_output=True)

    (wheel,) = sorted(tmp_path.glob("*.whl"))
    with ZipFile(wheel) as file:
        names = {name.partition("/")[0] for name in file.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {package}
