"""`init --slurm`, `doctor` and `profile` against a real cluster."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from tests.live.slurm.bench import SEARCHED, SlurmBench

TRAINS = """
import os, time
with open("seen", "a") as seen:
    print(os.environ["CUDA_VISIBLE_DEVICES"], file=seen)
began_s = time.monotonic()
for step in range(1, 100000):
    time.sleep(0.01)
    print("%d/100000 [%.3fit/s]" % (step, step / (time.monotonic() - began_s)), flush=True)
"""
JOB = """
model = "sleeper"
command = {command}
samples = 1000
batch_size = 10
dataset_gb = 0.1
disk_mb_s = 100
memory_gb_s = {{1 = 10.0}}
[server]
gpus = 1
cpus = 1
memory_gb = 1
[measuring]
warm_up = 0
time = 0.2
give_up = 60
"""
pytestmark = [pytest.mark.live, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


@pytest.fixture
def config(slurm: SlurmBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A config of the cluster, as `init` writes it."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("PATH", SEARCHED)
    path = tmp_path / "shunter.toml"
    result = CliRunner().invoke(app, ["init", "--slurm", "main", "--out", str(path)])
    assert result.exit_code == 0, result.output
    return path


def doctor(config: Path, *settings: str) -> Result:
    words = [word for setting in settings for word in ("--set", setting)]
    return CliRunner().invoke(app, ["doctor", str(config), *words])


def test_config_of_the_cluster_has_all_that_slurm_knows(config: Path) -> None:
    tree = tomllib.loads(config.read_text())
    v100, p100, k80 = tree["cluster"]["nodes"]
    assert v100 == {
        "name": "n[1-2]",
        "gpus": 4,
        "type": "v100",
        "cpus": 16,
        "memory_gb": 64,
        "rack": "rack1",
        "sockets": 2,
    }
    assert (p100["name"], p100["gpus"], p100["rack"]) == ("n3", 4, "rack2")
    assert (k80["name"], k80["gpus"], k80["type"]) == ("n4", 8, "k80")


def test_doctor_finds_nothing_that_keeps_jobs_from_running(config: Path) -> None:
    result = doctor(config)
    assert result.exit_code == 0, result.output
    for said in (
        "cluster bench, Slurm",
        "the site keeps no accounting",
        "scancel sends SIGTERM to programs of jobs, too (ProctrackType is linuxproc)",
        "20 GPUs in 4 nodes, by GRES",
        "a test submission would be taken",
        "cannot be seen from here" if "network file" in result.output else "do the nodes see it?",
    ):
        assert said in result.output


def test_doctor_tells_why_a_node_takes_no_jobs(slurm: SlurmBench, config: Path) -> None:
    slurm.drain("n4", "prolog instance=i-0123 job=42: a fan is broken")
    result = doctor(config)
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "n4: idle+drain, prolog instance=i-0123 job=42: a fan is broken" in said


def test_doctor_tells_which_nodes_are_reserved_now_and_which_later(
    slurm: SlurmBench, config: Path
) -> None:
    for name, start, node in (("busy", "now", "n4"), ("soon", "now+2hours", "n[1-2]")):
        create = ("scontrol", "create", "reservation", f"ReservationName={name}", "Users=root")
        slurm.command(*create, f"StartTime={start}", "Duration=60", f"Nodes={node}")
    try:
        said = " ".join(doctor(config).output.split())
        named = doctor(config, 'backend.slurm.options=["--reservation=soon"]')
    finally:
        for name in ("busy", "soon"):
            slurm.command("scontrol", "delete", f"ReservationName={name}")
    now, later = said.index("Slurm keeps node n4 for"), said.index("Slurm keeps node n1, n2 for")
    assert now < later
    assert "for reservation busy from" in said[now:later]
    assert "nothing starts there before it is over" in said[now:later]
    assert "what starts there must end before it begins" in said[later:]
    assert "reservation soon from" not in named.output


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("backend.slurm.partition=gpu", "there is no partition gpu"),
        ("backend.slurm.partition=closed", "partition closed is DOWN"),
        ("backend.slurm.partition=short", "partition short allows 30 minutes"),
        ("backend.slurm.partition=short", "partition short has no node n3"),
        ("cluster.nodes.1.type=h100", "Slurm knows 4 p100, and the config says 4 h100"),
        ("cluster.nodes.2.cpus=64", "Slurm gives out 16 CPUs"),
        ('backend.slurm.options=["--constraint=liquid"]', "Slurm refuses the job"),
    ],
)
def test_doctor_names_what_is_wrong(config: Path, setting: str, said: str) -> None:
    result = doctor(config, setting)
    assert result.exit_code == 1
    assert said in result.output


def test_doctor_tells_racks_that_slurm_has_otherwise(config: Path) -> None:
    result = doctor(config, 'cluster.nodes.2.rack="rack1"')
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "rack rack1 holds n1, n2, n4 by the config, and Slurm has n1, n2 in one" in said
    assert "correct rack in [[cluster.nodes]]" in said


def test_doctor_says_that_the_controller_does_not_answer(slurm: SlurmBench, config: Path) -> None:
    slurm.kill_slurmctld()
    result = doctor(config, "backend.slurm.call=2s")
    assert result.exit_code == 1
    assert "slurmctld does not answer" in result.output


def test_partition_that_is_not_there_writes_nothing(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "other.toml"
    result = CliRunner().invoke(app, ["init", "--slurm", "gpu", "--out", str(out)])
    assert result.exit_code == 2
    assert "expected one of main, short, closed" in result.output
    assert not out.exists()


def test_job_is_measured_on_a_node_with_the_gpu_that_slurm_gave(
    slurm: SlurmBench, tmp_path: Path
) -> None:
    """Of four GPUs the third, since others have the first two."""
    tmp_path.joinpath("trains.py").write_text(TRAINS, encoding="utf-8")
    tmp_path.joinpath("job.toml").write_text(
        JOB.format(command=json.dumps([sys.executable, "-I", "-S", "trains.py"])), encoding="utf-8"
    )
    asked = ("--nodelist=n3", "--gres=gpu:p100:2", "--exact", "--cpus-per-task=1", "--mem=100")
    other = slurm.submit("exec sleep 120", "--nodelist=n3", "--gres=gpu:p100:2", "--mem=100")
    slurm.wait_for(lambda: slurm.state_of(other) == "RUNNING", "a job of somebody else")
    words = (sys.executable, "-m", "shunter", "profile", str(tmp_path / "job.toml"), "--json")
    told = json.loads(slurm.command("srun", "--quiet", *asked, *words))
    assert told["evidence"] == "live"
    assert [cell["cpus"] for cell in told["cells"] if cell["is_input"]] == [1]
    assert {*tmp_path.joinpath("seen").read_text().split()} == {"2"}
