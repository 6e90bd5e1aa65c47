"""Installed from wheels in a folder, far from the repository, Shunter runs and names what it lacks.

What the wheels depend on is collected from the machine's package index, or the tests are skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from shunter import __version__
from tests.docs.pages import page_of
from tests.tidy.source import ROOT
from tests.unit.backends.agents.test_zip_application import old_python
from tests.unit.test_distributions import build, copy_of_the_checkout

pytestmark = pytest.mark.live

PYTHONS = {"this": sys.executable, "3.13": old_python("3.13")}
"""The Python that runs the tests, and a newer one."""
THIS, OTHER = (
    pytest.param(
        name,
        marks=[
            pytest.mark.xdist_group(f"wheels-{name}"),
            *([] if name == "this" else [pytest.mark.thorough]),
        ],
    )
    for name in PYTHONS
)
SSH = """\
[[cluster.nodes]]
name = "h1"
gpus = 1
[backend]
kind = "ssh"
[backend.ssh]
root = "daemon"
known_hosts = "known_hosts"
keys = ["key"]
[backend.ssh.hosts.h1]
address = "127.0.0.1"
[log]
url = "log.db"
"""
SLURM = """\
[[cluster.nodes]]
name = "n1"
gpus = 1
[backend]
kind = "slurm"
[backend.slurm]
root = "slurm"
partition = "gpu"
[log]
url = "log.db"
"""
MEASURED = """\
model = "cnn"
samples = 100
batch_size = 10
dataset_gb = 1.0
disk_mb_s = 100
memory_gb_s = { 1 = 1.0 }
[server]
gpus = 1
cpus = 1
memory_gb = 1
"""
CALL = """\
from shunter.client import Client
from shunter.errors import UsageError

with Client("unix:/nowhere") as client:
    try:
        client.submit(lambda: 1)
    except UsageError as error:
        raise SystemExit(str(error))
"""
FILES = {"ssh.toml": SSH, "slurm.toml": SLURM, "measured.toml": MEASURED, "call.py": CALL}
LACKING = {
    "ssh": [
        "shunter init --ssh ana@gpu1 --key key",
        "shunter serve ssh.toml",
        "shunter up ssh.toml",
        "shunter doctor ssh.toml",
        "shunter profile measured.toml --on ssh.toml",
    ],
    "slurm": ["shunter serve slurm.toml", "shunter up slurm.toml", "shunter doctor slurm.toml"],
    "functions": ["python call.py"],
    "parquet": ["shunter log export run.db --parquet tables"],
    "perfetto": ["shunter log export run.db --perfetto run.pftrace"],
    "solvers": [
        "shunter simulate guards.toml --set policy.sizing=opt",
        "shunter compare guards.toml --policies fifo,las --set policy.sizing=opt",
        "shunter reproduce synergy --solver highs",
    ],
}
"""Commands that end with an error which names the extra."""

MADE = ("setup", ".venv/.run", ".venv/.package")
"""The environment that is there: make must not install another checkout into it."""


class Installed(NamedTuple):
    """An environment with all three distributions, a folder far from it, and all wheels."""

    bin: Path
    folder: Path
    wheels: Path

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user with an empty home, and without our environment."""
        program, *words = command.split()
        return subprocess.run(
            [self.bin / program, *words],
            cwd=self.folder,
            env={
                "HOME": str(self.folder / "home"),
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "SHUNTER_HOME": str(self.folder / "up"),  # root's is one of the machine
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def pip(python: Path | str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=[THIS, OTHER])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    python = PYTHONS[request.param]
    if python is None:
        pytest.skip(f"install a Python {request.param}, such as by pyenv")
    folder = tmp_path_factory.mktemp("wheels")
    build(ROOT, folder / "dist")
    # `ssh` is collected for the page that installs it, and not installed.
    shunter, *others = (str(wheel) for wheel in sorted((folder / "dist").glob("*.whl")))
    wheels = ("-w", str(folder / "all"), f"{shunter}[ssh]", *others)
    collected = pip(python, "wheel", "--retries", "1", *wheels)
    if "(from versions: none)" in collected.stderr:
        pytest.skip(f"needs a package index: {collected.stderr.splitlines()[-1]}")
    assert collected.returncode == 0, collected.stderr
    subprocess.run([python, "-m", "venv", folder / "environment"], check=True)
    binaries = folder / "environment" / "bin"
    names = ("shunter", "shunter-train", "shunter-papers")
    offline = ("install", "--no-compile", "--no-index", "--find-links", folder / "all")
    done = pip(binaries / "python", *offline, *names)
    assert done.returncode == 0, done.stderr

    away = tmp_path_factory.mktemp("away")
    (away / "home").mkdir()
    (away / "known_hosts").touch()
    (away / "key").touch(0o600)
    for name, text in FILES.items():
        (away / name).write_text(text, encoding="utf-8")
    (away / "guards.toml").write_bytes((ROOT / "examples/guards.toml").read_bytes())
    return Installed(binaries, away, folder / "all")


def test_demo_runs_far_from_the_repository(installed: Installed) -> None:
    demo = installed.run("shunter demo")

    assert demo.returncode == 0, demo.stderr
    assert "1. Who goes first matters" in demo.stdout
    document = json.loads(installed.run("shunter demo --json").stdout)
    assert [each["policy"] for each in document["policies"]] == ["fifo", "las", "srtf"]
    assert installed.run("shunter --version").stdout == f"shunter {__version__}\n"


def test_two_commands_lead_from_the_wheels_to_the_output_of_a_job(installed: Installed) -> None:
    up = installed.run("shunter up --gpus 2")
    try:
        assert up.returncode == 0, up.stderr
        waited = installed.run("shunter submit --wait -- hostname")
        printed = installed.run("shunter logs j1")
    finally:
        down = installed.run("shunter down --end-jobs")

    hostname = f"{os.uname().nodename}\n"
    assert (waited.returncode, waited.stdout) == (0, f"submitted j1\n{hostname}"), waited.stderr
    assert printed.stdout == hostname
    assert down.returncode == 0, down.stderr


def test_sdk_and_plug_ins_are_there_once_installed(installed: Installed) -> None:
    (installed.folder / "sdk.py").write_text("from shunter import train; print(train.start)\n")

    assert installed.run("python sdk.py").returncode == 0
    assert "gavel_peer" in installed.run("shunter policy list").stdout
    assert "tiresias" in installed.run("shunter reproduce --help").stdout


@pytest.mark.rotating("installed", among="an installation at length")
@pytest.mark.parametrize("installed", [THIS], indirect=True)
def test_every_missing_extra_is_named_without_a_traceback(installed: Installed) -> None:
    simulated = installed.run("shunter simulate guards.toml --log run.db --overwrite")
    assert simulated.returncode == 0, simulated.stderr
    wrong = []
    for extra, commands in LACKING.items():
        for command in commands:
            done = installed.run(command)
            said = done.stdout + done.stderr
            names = f"pip install 'shunter[{extra}]'" in said
            if done.returncode == 0 or not names or "Traceback" in said:
                wrong.append((command, done.returncode, said))
    assert wrong == []


def test_pictures_of_papers_name_their_extra(installed: Installed) -> None:
    drawn = installed.run("shunter reproduce tiresias --plots curves")

    assert drawn.returncode == 2
    assert "pip install 'shunter-papers[plots]'" in drawn.stderr


@pytest.mark.rotating("installed", among="an installation at length")
@pytest.mark.parametrize("installed", [THIS], indirect=True)
def test_page_on_installing_runs_as_it_stands(installed: Installed, tmp_path: Path) -> None:
    """Method: in a copy of the checkout; for the index stands the folder of all wheels."""
    page = ROOT / "docs/how-to/install.md"
    blocks = page_of(page, page.read_text(encoding="utf-8")).blocks
    commands = [command for block in blocks for command in block.commands]
    checkout = copy_of_the_checkout(tmp_path / "checkout")
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    environment = {
        "HOME": str(installed.folder / "home"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "MAKEFLAGS": " ".join(f"--old-file={name}" for name in MADE),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(installed.wheels),
        "PIP_NO_COMPILE": "1",
    }
    assert [command for command in commands if command.startswith("pip")]

    done = subprocess.run(
        ["bash", "-ec", "\n".join([*commands, "pip list", "command -v pip"])],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert {"shunter", "shunter-train", "shunter-peers", "shunter-papers", "asyncssh"} <= set(
        done.stdout.split()
    )
    assert done.stdout.endswith(f"{checkout}/shunter-venv/bin/pip\n")
