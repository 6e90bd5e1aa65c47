"""What a pilot is in Slurm's queue, and what its script and options say."""

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

from shunter.backends.slurm import (
    QueuedJob,
    SlurmServer,
    SlurmSettings,
    name_in,
    pilot_options,
    pilot_script,
    slurm_job_name,
)
from shunter.events import NodeName

N1 = SlurmServer(NodeName("n1"), ("0", "1"), (0, 1, 2), "v100", "gpu:v100:2", 1000)


def settings(root: Path, **changes: object) -> SlurmSettings:
    found = SlurmSettings(str(root), (N1,), "lab", 1, "h", "main", ("login",))
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]  # any field may be given


def job(name: str, user: str) -> QueuedJob:
    """Return a job in the queue; what else is known of it does not count."""
    fields: dict[str, Any] = {field.name: None for field in dataclasses.fields(QueuedJob)}
    return QueuedJob(**{**fields, "name": name, "user": user})


def test_only_jobs_of_ours_with_the_name_of_the_cluster_are_its_pilots() -> None:
    ours = job(slurm_job_name("lab", "n1.ab"), "ana")
    assert name_in("lab", "ana", ours) == "n1.ab"
    assert name_in("lab", "bo", ours) is None
    assert name_in("la", "ana", ours) is None
    assert name_in("lab", "ana", job("n1.ab", "ana")) is None


def test_script_hands_odd_paths_over_as_they_are(tmp_path: Path) -> None:
    odd = tmp_path / "it's $HOME; `x`"
    odd.mkdir()
    agent = odd / "agent"
    agent.write_text("import sys; print(sys.argv[1:])")
    script = pilot_script("python3", str(agent), str(odd / "file"), str(odd))
    ran = subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(["pilot", str(odd / "file"), str(odd)])


def test_pilot_asks_for_the_whole_node_and_is_never_requeued(tmp_path: Path) -> None:
    options = pilot_options(settings(tmp_path, account="lab"), N1, "n1.ab", 3600.0)
    for option in (
        "--nodelist=n1",
        "--gres=gpu:v100:2",
        "--cpus-per-task=3",
        "--mem=1000M",
        "--time=60",
        "--no-requeue",
        "--account=lab",
        "--signal=B:USR1@120",
        "--export=NIL",
    ):
        assert option in options
    assert not any(option.startswith("--qos") for option in options)


def test_short_pilot_is_told_of_its_end_in_its_last_quarter(tmp_path: Path) -> None:
    options = pilot_options(settings(tmp_path), N1, "n1.ab", 60.0)
    assert "--signal=B:USR1@15" in options
    assert "--time=1" in options
