"""What `make dist` builds: the same bytes anywhere, and in them what belongs there and no more."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from shunter import __version__
from tests.tidy.source import ROOT

FOLDERS = {
    "shunter": ".",
    "shunter_train": "train",
    "shunter_peers": "peers",
    "shunter_papers": "papers",
}
"""The folder of each distribution."""
PACKAGES = {
    "shunter": "shunter",
    "shunter_train": "shunter/train",
    "shunter_peers": "shunter_peers",
    "shunter_papers": "shunter_papers",
}
"""The folder that its wheel installs."""
READMES = [f"{folder}/README.md" for folder in FOLDERS.values()]


def build(root: Path, out: Path, umask: int = -1, **environment: str) -> None:
    """Build all distributions of a checkout as `make dist` does."""
    for folder in FOLDERS.values():
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(out)],
            cwd=root / folder,
            env={**os.environ, **environment},
            umask=umask,
            check=True,
            capture_output=True,
        )


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def members(sdist: Path) -> dict[str, bytes]:
    """Return what an sdist holds, by its path in the folder that it unpacks to."""
    with tarfile.open(sdist) as file:
        read = {info.name: file.extractfile(info) for info in file if info.isfile()}
        return {name.partition("/")[2]: found.read() for name, found in read.items() if found}


def files_of_the_checkout() -> Iterator[str]:
    """Yield the files that git knows, or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            yield name


def copy_of_the_checkout(folder: Path) -> Path:
    """Copy the files that git knows, or would take; return the folder."""
    for name in files_of_the_checkout():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def project(folder: str) -> dict[str, Any]:
    read = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = read["project"]
    return found


def test_all_distributions_and_the_changelog_say_one_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S*) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)

    assert released[0] == __version__
    assert project("train")["version"] == __version__
    for plugin in ("papers", "peers"):
        assert project(plugin)["version"] == __version__
        assert f"shunter=={__version__}" in project(plugin)["dependencies"]
    assert f"shunter-peers=={__version__}" in project("papers")["dependencies"]


def test_each_has_the_licence_of_the_repository() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert [(ROOT / folder / "LICENSE").read_bytes() for folder in FOLDERS.values()] == [
        licence
    ] * len(FOLDERS)


def test_another_folder_umask_time_and_hash_seed_give_the_same_bytes(
    dist: Path, tmp_path: Path
) -> None:
    elsewhere = copy_of_the_checkout(tmp_path / "a checkout" / "elsewhere")
    for copy in (elsewhere / name for name in files_of_the_checkout()):
        copy.chmod(0o700 if os.access(copy, os.X_OK) else 0o600)
        os.utime(copy, (1e9, 1e9))
    for package in PACKAGES.values():
        for folder in sorted(elsewhere.rglob(package)):
            (folder / "__pycache__").mkdir()
            (folder / "__pycache__" / "left.cpython-311.pyc").touch()

    build(elsewhere, tmp_path / "out", umask=0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="7")

    assert contents(tmp_path / "out") == contents(dist)


def test_sdists_build_the_same_wheels_away_from_the_repository(dist: Path, tmp_path: Path) -> None:
    for sdist in sorted(dist.glob("*.tar.gz")):
        with tarfile.open(sdist) as file:
            file.extractall(tmp_path / "unpacked", filter="data")
    for folder in sorted((tmp_path / "unpacked").iterdir()):
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-d",
            str(tmp_path / "out"),
        ]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    wheels = {name: held for name, held in contents(dist).items() if name.endswith(".whl")}
    assert contents(tmp_path / "out") == wheels


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_wheel_installs_the_files_of_its_package_alone(dist: Path, name: str, package: str) -> None:
    folder = {"shunter_peers": "peers/", "shunter_papers": "papers/"}.get(name, "")
    tracked = {path.removeprefix(folder) for path in files_of_the_checkout()}
    others = "shunter/train/" if name == "shunter" else "/"

    with ZipFile(dist / f"{name}-{__version__}-py3-none-any.whl") as wheel:
        held = {path: wheel.read(path) for path in wheel.namelist()}

    installed = {path for path in held if not path.startswith(f"{name}-{__version__}.dist-info/")}
    expected = {path for path in tracked if path.startswith(f"{package}/")}
    assert installed == {path for path in expected if not path.startswith(others)}
    assert f"{name}-{__version__}.dist-info/licenses/LICENSE" in held
    assert [path for path, read in held.items() if str(ROOT).encode() in read] == []


def test_sdists_hold_what_they_are_built_from_and_no_path_of_this_machine(dist: Path) -> None:
    for name, folder in FOLDERS.items():
        held = members(dist / f"{name}-{__version__}.tar.gz")

        assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= held.keys()
        assert held["README.md"] == (ROOT / folder / "README.md").read_bytes()
        assert [path for path in held if "__pycache__" in path or path.endswith(".pyc")] == []
        assert [path for path, read in held.items() if str(ROOT).encode() in read] == []


def test_sdist_of_shunter_holds_what_its_readme_speaks_of(dist: Path) -> None:
    held = members(dist / f"shunter-{__version__}.tar.gz")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    named = set(re.findall(r"\b(?:docs|examples|findings|papers|peers)/[\w./-]*\w", readme))
    assert named
    assert [
        path for path in sorted(named) if not any(held_.startswith(path) for held_ in held)
    ] == []
    assert {"Makefile", "requirements/run.txt", "CHANGELOG.md"} <= held.keys()


def test_source_date_epoch_dates_the_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1795824000"}
    subprocess.run(command, cwd=ROOT / "train", env=environment, check=True, capture_output=True)

    (wheel,) = sorted(tmp_path.iterdir())
    with ZipFile(wheel) as file:
        assert {info.date_time[:3] for info in file.infolist()} == {(2026, 11, 28)}


@pytest.mark.parametrize("readme", READMES)
def test_readme_has_no_link_that_a_page_of_an_index_could_not_follow(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", text) == []


def test_index_would_take_each_and_show_its_readme(dist: Path) -> None:
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict"]
    ran = subprocess.run(
        [*command, *sorted(dist.iterdir())], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout.count("PASSED")) == (0, 2 * len(FOLDERS)), (
        ran.stdout + ran.stderr
    )
