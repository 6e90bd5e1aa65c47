"""The distribution `shunter-train`: the same files, installed alone and beside the scheduler."""

import re
import subprocess
import sys
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from shunter.train import channel
from tests.unit.backends.agents.test_zip_application import PYTHONS
from tests.unit.train.toy import Supervisor

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[3]
TRAINS = """
import sys
from shunter import train
run = train.start()
first = run.steps_done
for epoch in run.epochs(1):
    for batch in run.batches(range(6)):
        print(batch, flush=True)
        run.step()
try:
    import shunter.core
except ImportError:
    sys.exit(0)
sys.exit("the scheduler is here too")
"""


class Built(NamedTuple):
    """What a folder with a pyproject.toml builds."""

    wheel: Path
    sdist: Path

    def files(self) -> set[str]:
        """Return what the wheel installs, without what describes it."""
        with ZipFile(self.wheel) as file:
            return {name for name in file.namelist() if ".dist-info/" not in name}

    def metadata(self) -> Message:
        with ZipFile(self.wheel) as file:
            (path,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
            return message_from_bytes(file.read(path))


def built(folder: Path, out: Path) -> Built:
    """Build wheel and sdist with the pinned backend, without a network."""
    ran([sys.executable, "-m", "hatchling", "build", "-d", out], cwd=folder)
    (wheel,), (sdist,) = sorted(out.glob("*.whl")), sorted(out.glob("*.tar.gz"))
    return Built(wheel, sdist)


def ran(command: list[str | Path], cwd: Path | None = None) -> str:
    """Run a command that must succeed; return what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment_of(python: str, folder: Path) -> Path:
    """Make an empty environment; return its Python."""
    ran([python, "-m", "venv", folder])
    return folder / "bin" / "python"


def pip(python: Path, *words: str | Path) -> None:
    ran([python, "-m", "pip", "--disable-pip-version-check", *words])


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(ROOT / "train", tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(ROOT, tmp_path_factory.mktemp("scheduler"))


def test_the_sdk_needs_nothing_but_an_old_python(train: Built) -> None:
    said = train.metadata()
    assert said["Name"] == "shunter-train"
    assert said["Requires-Python"] == ">=3.8"
    assert said.get_all("Requires-Dist", []) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_installed_alone_a_run_trains_saves_leaves_and_goes_on(
    train: Built, tmp_path: Path, python: str
) -> None:
    """Goal: no server package is needed. Method: an empty environment, a real channel."""
    alone = environment_of(python, tmp_path / "environment")
    pip(alone, "install", "--quiet", "--no-index", train.wheel)
    with Supervisor(tmp_path / "attempt") as supervisor:
        told = supervisor.environment(tmp_path / "checkpoints")
        supervisor.ask()
        first = subprocess.run(
            [alone, "-c", TRAINS], cwd=tmp_path, env=told, capture_output=True, check=False
        )
        (saved,) = supervisor.told("saved")
        supervisor.asks.unlink()
        second = subprocess.run(
            [alone, "-c", TRAINS],
            cwd=tmp_path,
            env={**told, channel.ATTEMPT: "2"},
            capture_output=True,
            check=False,
        )
    assert (first.returncode, first.stdout, saved["step"]) == (75, b"0\n", 1), first.stderr
    assert (second.returncode, second.stdout) == (0, b"1\n2\n3\n4\n5\n"), second.stderr


def test_no_file_belongs_to_two_distributions(train: Built, scheduler: Built) -> None:
    assert "shunter/errors.py" in scheduler.files()
    assert not train.files() & scheduler.files()


SCHEDULER, SDK = "import shunter.errors", "from shunter import train; train.start"


@pytest.mark.parametrize(
    ("removed", "left", "gone"),
    [("shunter", SDK, SCHEDULER), ("shunter-train", SCHEDULER, SDK)],
)
def test_beside_the_scheduler_each_is_removed_without_harm_to_the_other(
    train: Built, scheduler: Built, tmp_path: Path, removed: str, left: str, gone: str
) -> None:
    python = environment_of(sys.executable, tmp_path / "environment")
    pip(python, "install", "--quiet", "--no-index", "--no-deps", scheduler.wheel, train.wheel)
    ran([python, "-I", "-c", f"{SCHEDULER}; {SDK}"])

    pip(python, "uninstall", "--quiet", "--yes", removed)

    ran([python, "-I", "-c", left])
    refused = subprocess.run([python, "-I", "-c", gone], stderr=subprocess.PIPE, check=False)
    assert re.search(rb"ImportError|ModuleNotFoundError", refused.stderr)


def test_in_a_checkout_the_sources_win_over_an_installed_copy(train: Built, tmp_path: Path) -> None:
    """Goal: whoever works on the SDK runs what he edits, as `pip install -e` lays the path."""
    python = environment_of(sys.executable, tmp_path / "environment")
    pip(python, "install", "--quiet", "--no-index", train.wheel)
    site = ran([python, "-I", "-c", "import site; print(site.getsitepackages()[0])"]).strip()
    (Path(site) / "checkout.pth").write_text(f"{ROOT}\n")

    found = ran([python, "-I", "-c", "from shunter import train; print(train.__file__)"])

    assert Path(found.strip()).parents[2] == ROOT
