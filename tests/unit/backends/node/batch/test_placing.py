"""Where Slurm has put an attempt, as its environment and scontrol tell."""

import subprocess
from pathlib import Path

import pytest

from shunter.backends.node import Order, indices_in, placed
from tests.unit.backends.node.orders import order_of, rank_of

SHOWN = (
    "JobId=7 JobName=shunter:lab:j0.a1 NodeList=n[2-3] BatchHost=n2 NumNodes=2 NumCPUs=4 "
    "JOB_GRES=gpu:v100:4   Nodes=n2 CPU_IDs=0-1 Mem=200 GRES=gpu:v100:2(IDX:1,3)   "
    "Nodes=n3 CPU_IDs=0-1 Mem=200 GRES=gpu:v100:2(IDX:0-1) MinCPUsNode=2"
)
UNEVEN = (
    "JobId=7 HetJobId=7 HetJobOffset=0 NodeList=n3 NumNodes=1 JOB_GRES=gpu:v100:1 "
    "Nodes=n3 CPU_IDs=0-1 Mem=200 GRES=gpu:v100:1(IDX:3) MinCPUsNode=2\n"
    "JobId=8 HetJobId=7 HetJobOffset=1 NodeList=n2 NumNodes=1 JOB_GRES=gpu:v100:3 "
    "Nodes=n2 CPU_IDs=0-5 Mem=600 GRES=gpu:v100:3(IDX:0-2) MinCPUsNode=6"
)
HETEROGENEOUS = {
    "SLURMD_NODENAME": "n3",
    "SLURM_JOB_ID": "7",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "n3",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "n2",
    "SLURM_CPUS_PER_TASK_HET_GROUP_1": "6",
}
SCONTROL = """#!/bin/sh
case "$2" in
  hostnames) echo "$3" | tr ',' '\\n' ;;
  job) echo '{shown}' ;;
esac
"""


def planned(*nodes: str) -> Order:
    """Return an order on GPUs 0 and 1 of some nodes."""
    env = {"CUDA_VISIBLE_DEVICES": "0,1", "SHUNTER_NODE": "x", "MASTER_ADDR": "x"}
    has = {"cpus": [9], "pinned": True, "directory": "/shared/ana", "gpus": ["0", "1"]}
    rank = rank_of("train", "--fast", env=env, **has)
    placement, ranks = [[node, 0b11] for node in nodes], [rank for _ in nodes]
    return order_of(placement=placement, ranks=ranks)


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
    assert order.placement == (("n1", 0b1100),)
    (rank,) = order.ranks
    assert rank.env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert rank.gpus == order.gpus == ("2", "3")
    assert rank.argv == ("train", "--fast")
    assert not rank.pinned


def test_job_may_run_on_another_node_than_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    order = placed(planned("n1"), {"SLURMD_NODENAME": "n4", "SLURM_JOB_GPUS": "7"})
    assert order.placement == (("n4", 1 << 7),)
    assert order.ranks[0].env["SHUNTER_NODE"] == "n4"
    assert order.ranks[0].env["CUDA_VISIBLE_DEVICES"] == "7"


def test_ranks_of_a_gang_keep_the_nodes_they_were_planned_on(scontrol: Path) -> None:
    given = {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "HOME": "/"}
    order = placed(planned("n3", "n2"), given)
    assert order.placement == (("n3", 0b0011), ("n2", 0b1010))
    away, here = order.ranks
    assert here.argv == ("train", "--fast")
    assert here.env["CUDA_VISIBLE_DEVICES"] == "1,3"
    words = away.argv
    assert (words[0], words[-2:]) == ("srun", ("train", "--fast"))
    assert {"--nodelist=n3", "--gpus-per-node=2", "--cpus-per-task=2"} < set(words)
    assert "--chdir=/shared/ana" in words
    assert "CUDA_VISIBLE_DEVICES" not in away.env  # Slurm sets that of its node
    assert away.env["SLURM_JOB_ID"] == "7"
    assert "HOME" not in away.env
    assert away.env["SHUNTER_NODE"] == "n3"


def test_rank_of_an_uneven_gang_is_a_step_of_its_component(scontrol: Path) -> None:
    scontrol.write_text(SCONTROL.format(shown=UNEVEN))
    plan = planned("n3", "n2")
    plan.placement = (("n3", 0b1), ("n2", 0b1110))
    order = placed(plan, HETEROGENEOUS)
    assert order.placement == (("n3", 0b1000), ("n2", 0b0111))
    here, away = order.ranks
    assert (here.gpus, here.argv) == (("3",), ("train", "--fast"))
    words = {"--nodelist=n2", "--het-group=1", "--gpus-per-node=3", "--cpus-per-task=6"}
    assert words < set(away.argv)


def test_split_that_was_not_planned_is_no_place_for_it(scontrol: Path) -> None:
    """Its first rank would have as many GPUs as another one should."""
    scontrol.write_text(SCONTROL.format(shown=UNEVEN))
    plan = planned("n3", "n2")
    plan.placement = (("n3", 0b111), ("n2", 0b1))
    with pytest.raises(ValueError, match=r"Slurm gave 1\+3 GPUs, expected 3\+1"):
        placed(plan, HETEROGENEOUS)


def test_rank_that_srun_starts_sees_nothing_of_slurm(scontrol: Path, tmp_path: Path) -> None:
    """As the first one does, which no srun starts; what else it is given it keeps."""
    plan = planned("n3", "n2")
    plan.ranks = tuple([rank.replaced(argv=("env",)) for rank in plan.ranks])
    away, _ = placed(plan, {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7"}).ranks
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)
    env = {**away.env, "PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_STEP_ID": "0", "TEXT": "a\nb"}
    ran = subprocess.run(away.argv, env=env, capture_output=True, text=True, check=True)
    assert "SLURM" not in ran.stdout
    assert {"SHUNTER_NODE=n3", "TEXT=a", "b"} < set(ran.stdout.splitlines())


def test_gang_on_other_nodes_has_its_first_rank_beside_the_script(scontrol: Path) -> None:
    order = placed(planned("n7", "n8"), {"SLURMD_NODENAME": "n3", "SLURM_JOB_ID": "7"})
    assert [node for node, _ in order.placement] == ["n3", "n2"]


def test_fewer_nodes_than_planned_are_no_place_for_it(scontrol: Path) -> None:
    with pytest.raises(ValueError, match="Slurm gave 2 nodes, expected 3"):
        placed(planned("n1", "n2", "n3"), {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7"})


def test_scontrol_that_fails_says_why(scontrol: Path) -> None:
    scontrol.write_text("#!/bin/sh\necho slurm_load_jobs error: Unable to contact >&2\nexit 1\n")
    with pytest.raises(OSError, match="scontrol failed: slurm_load_jobs error"):
        placed(planned("n1", "n2"), {"SLURMD_NODENAME": "n2", "SLURM_JOB_ID": "7"})
