"""Benches of three hosts: on loopback, and in namespaces where this machine lets us."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.ssh.bench import PROMPT, Bench
from tests.live.ssh.farm import LACKING, farm_at
from tests.live.ssh.namespaces import Namespaces, lacking, namespaces_at

HOSTS = ("n0", "n1", "n2")
REMOVAL_S = 10.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: those of pytest are too long for some shells.

    A helper whose connection has ended may still make a folder of its own for some moments.
    """
    name = Path(tempfile.mkdtemp(prefix="ssh"))
    yield name
    until_s = time.monotonic() + REMOVAL_S
    while name.exists():
        shutil.rmtree(name, ignore_errors=time.monotonic() < until_s)


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    """Three hosts on loopback."""
    if LACKING:
        pytest.skip(LACKING)
    with farm_at(folder / "farm", *HOSTS) as farm:
        found = Bench(farm, folder)
        yield found
        found.clean()


@pytest.fixture
def network(folder: Path) -> Iterator[tuple[Bench, Namespaces]]:
    """Three hosts that can be cut off and powered off."""
    if lacking():
        pytest.skip(lacking())
    with namespaces_at(folder / "farm", *HOSTS) as farm:
        yield Bench(farm, folder, PROMPT), farm


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Path]:
    """A disk of two megabytes as the folder of the first host."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    root = bench.farm["n0"].root
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0711", "small", str(root)]
    if subprocess.run(mount, check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("needs a machine that lets us mount a small disk")
    yield root
    (root / "filler").unlink(missing_ok=True)
    bench.clean()
    subprocess.run(["umount", "-l", str(root)], check=True, timeout=60)
