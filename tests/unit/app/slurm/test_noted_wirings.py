"""What pilots have noted of the wiring of their nodes, as the next daemon reads it."""

import json
from pathlib import Path

import pytest

from shunter.backends.node import Wiring
from shunter.backends.node.host import GpuReadings, note_wiring, wiring
from shunter.config import SlurmSection
from shunter.daemon import read_noted_wirings
from shunter.events import NodeName
from tests.factories import configuration
from tests.unit.backends.node.wiring.test_sources import TOPO, readings, says

N1, N2, N3 = map(NodeName, ("n1", "n2", "n3"))


def section(root: Path, mode: str = "pilot") -> SlurmSection:
    given = {"root": str(root), "partition": "main", "mode": mode, "addresses": ("login",)}
    return SlurmSection.model_validate(given)


def noted(root: Path, gpus: int = 4, mode: str = "pilot") -> Wiring | None:
    """Return what is known of n1."""
    servers = ((N1, configuration(gpus)), (N2, configuration(4)), (N3, configuration(1)))
    found = read_noted_wirings(section(root, mode), servers)
    assert not {N2, N3} & found.keys()
    return found.get(N1)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root where a pilot on n1 has noted what an nvidia-smi of ours tells."""
    seen = GpuReadings(gpus=tuple(readings(None, None, None, None)), by="", code=0)
    monkeypatch.setattr(wiring, "read_gpus", lambda: seen)
    monkeypatch.setattr("signal.alarm", lambda _: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    says(monkeypatch, TOPO)
    note_wiring(str(tmp_path / "nodes" / "n1"))
    return tmp_path


def test_what_a_pilot_has_noted_is_read_whole(root: Path) -> None:
    found = noted(root)
    assert found is not None
    assert (found.by, found.cause) == ("nvidia-smi", "")
    assert [gpu.socket for gpu in found.gpus] == [0, 0, 1, 1]
    assert found.links[0] == ("", "NV4", "", "")


def test_nodes_whose_gpus_are_others_than_the_config_says_have_a_word_why(root: Path) -> None:
    found = noted(root, gpus=2)
    assert found == Wiring(cause="a pilot saw 4 GPUs there, and the config says otherwise")


@pytest.mark.parametrize(
    "text", ['{"gpus": 7}', '{"pci": [["X", "PIX"]]}', '{"by": "%s"}' % ("x" * 99)]
)
def test_record_of_another_shape_is_no_wiring(root: Path, text: str) -> None:
    (root / "nodes/n1/wiring").write_text(text)
    found = noted(root)
    assert found is not None
    assert not found.gpus
    assert found.cause.startswith("what a pilot has noted cannot be read: ")


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"x": "y" * (1 << 20)})])
def test_what_is_no_record_tells_nothing(root: Path, text: str) -> None:
    (root / "nodes/n1/wiring").write_text(text)
    assert noted(root) is None


def test_folder_in_its_place_tells_nothing(root: Path) -> None:
    (root / "nodes/n1/wiring").unlink()
    (root / "nodes/n1/wiring").mkdir()
    assert noted(root) is None


def test_attempts_that_are_jobs_of_their_own_note_nothing(root: Path) -> None:
    """Slurm gives each some of the GPUs, and they see no others."""
    assert noted(root, mode="per-job") is None


def test_host_without_gpus_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = GpuReadings(gpus=(), by="", code=12)
    monkeypatch.setattr(wiring, "read_gpus", lambda: seen)
    monkeypatch.setattr("signal.alarm", lambda _: 0)
    assert note_wiring(str(tmp_path / "n1")) == {}
    assert not sorted(tmp_path.iterdir())
