"""Where Slurm has put an attempt, as its environment and scontrol tell."""

import copy
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node.batch.placing import indices_in, placed

SHOWN = (
    "JobId=7 JobName=shunter:lab:j0.a1 NodeList=n[2-3] BatchHost=n2 NumNodes=2 NumCPUs=4 "
    "JOB_GRES=gpu:v100:4   Nodes=n2 CPU_IDs=0-1 Mem=200 GRES=gpu:v100:2(IDX:1,3)   "
    "Nodes=n3 CPU_IDs=0-1 Mem=200 GRES=gpu:v100:2(IDX:0-1) MinCPUsNode=2"
)
SCONTROL = """#!/bin/sh
case "$2" in
  hostnames) echo "$3" | tr ',' '\\n' ;;
  job) echo '{shown}' ;;
esac
"""


def planned(*nodes: str) -> Any:
    """Return an order on GPUs 0 and 1 of some nodes."""
    rank = {
        "argv": ["train", "--fast"],
        "env": {"CUDA_VISIBLE_DEVICES": "0,1", "SHUNTER_NODE": "x", "MASTER_ADDR": "x"},
        "cpus": [9],
        "pinned": True,
        "directory": "/shared/ana",
        "gpus": ["0", "1"],
    }
    return {
        "job": "j0",
        "placement": [(node, 0b11) for node in nodes],
        "ranks": [copy.deepcopy(rank) for _ in nodes],
    }


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that says what scontrol does."""
    path = tmp_path / "scontrol"
    path.write_text(SCONTROL.format(shown=SHOWN))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [("", []), ("0", [0]), ("1,3-5", [1, 3, 4, 5]), ("GPU-8f2a", []), ("2-", [2]), ("x,7", [7])],
)
def test_numbers_of_gpus(text: str, found: list[int]) -> None:
    assert indices_in(text) == found


def test_gpus_are_those_that_slurm_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where devices are hidden from jobs, those that are shown count from 0."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    order = placed(planned("n1"), {"SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "2,3"})
    assert order["placement"] == [("n1", 0b1100)]
    (rank,) = order["ranks"]
    assert rank["env"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert rank["gpus"] == order["gpus"] == ["2", "3"]
    assert rank["argv"] == ["train", "--fast"]
    assert not rank["pinned"]


def test_job_may_run_on_another_node_than_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    order = placed(planned("n1"), {"SLURMD_NODENAME": "n4", "SLURM_JOB_GPUS": "7"})
    assert order["placement"] == [("n4", 1 << 7)]
    assert order["ranks"][0]["env"]["SHUNTER_NODE"] == "n4"
    assert order["ranks"][0]["env"]["CUDA_VISIBLE_DEVICES"] == "7"


def test_ranks_of_a_gang_keep_the_nodes_they_were_planned_on(scontrol: Path) -> None:
    given = {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "HOME": "/"}
    order = placed(planned("n3", "n2"), given)
    assert order["placement"] == [("n3", 0b0011), ("n2", 0b1010)]
    away, here = order["ranks"]
    assert here["argv"] == ["train", "--fast"]
    assert here["env"]["CUDA_VISIBLE_DEVICES"] == "1,3"
    words = away["argv"]
    assert (words[0], words[-2:]) == ("srun", ["train", "--fast"])
    assert {"--nodelist=n3", "--gpus-per-node=2", "--cpus-per-task=2"} < set(words)
    assert "--chdir=/shared/ana" in words
    assert "CUDA_VISIBLE_DEVICES" not in away["env"]  # Slurm sets that of its node
    assert away["env"]["SLURM_JOB_ID"] == "7"
    assert "HOME" not in away["env"]
    assert away["env"]["SHUNTER_NODE"] == "n3"


def test_gang_on_other_nodes_has_its_first_rank_beside_the_script(scontrol: Path) -> None:
    order = placed(planned("n7", "n8"), {"SLURMD_NODENAME": "n3", "SLURM_JOB_ID": "7"})
    assert [node for node, _ in order["placement"]] == ["n3", "n2"]


def test_fewer_nodes_than_planned_are_no_place_for_it(scontrol: Path) -> None:
    with pytest.raises(ValueError, match="Slurm gave 2 nodes, expected 3"):
        placed(planned("n1", "n2", "n3"), {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7"})


def test_scontrol_that_fails_says_why(scontrol: Path) -> None:
    scontrol.write_text("#!/bin/sh\necho slurm_load_jobs error: Unable to contact >&2\nexit 1\n")
    with pytest.raises(OSError, match="scontrol failed: slurm_load_jobs error"):
        placed(planned("n1", "n2"), {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7"})
