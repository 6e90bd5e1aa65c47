"""What sbatch is told of an attempt."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from shunter.backends.node import Order
from shunter.backends.slurm import (
    QueueView,
    SlurmServer,
    SlurmSettings,
    attempt_job_name,
    job_options,
    job_script,
    key_in,
)
from shunter.events import NodeName
from tests.unit.backends.node.orders import order_of, rank_of
from tests.unit.backends.slurm.jobs.queue import queued

GPUS = tuple(str(number) for number in range(4))
SETTINGS = SlurmSettings(
    root="/shared/it's",
    nodes=(
        SlurmServer(NodeName("n1"), GPUS, tuple(range(16)), "v100", "gpu:v100:4", 64_000),
        SlurmServer(NodeName("n2"), GPUS, tuple(range(16)), "v100", "gpu:v100:4", 64_000),
        SlurmServer(NodeName("n3"), GPUS, tuple(range(8)), "gpu", "gpu:4", 64_000),
        SlurmServer(NodeName("n4"), (), tuple(range(8)), "", "", 64_000),
    ),
    cluster_id="lab",
    term=1,
    holder="daemon",
    partition="main",
    addresses=(),
    options=("--constraint=nvlink",),
)


def order(
    placement: Sequence[tuple[str, int]], *, cpus: int = 0, memory_mb: int = 0, **fields: object
) -> Order:
    """Return an order of an attempt on some GPUs of some nodes."""
    has = {"cpus": list(range(cpus or 16)), "pinned": bool(cpus), "env": {"KEY": "secret"}}
    named = {"job": "j7", "attempt": 2, "checkpoints": "/c/lab/j7", "memory_mb": memory_mb}
    ranks = [rank_of(**has) for _ in placement]
    return order_of(**named, placement=placement, ranks=ranks, **fields)


def options(told: Order) -> dict[str, str]:
    """Return the options of sbatch by name."""
    words = job_options(SETTINGS, told, "/shared/f")
    return dict(word.removeprefix("--").partition("=")[::2] for word in words)


def test_plan_is_what_slurm_is_asked_for() -> None:
    found = options(order([("n1", 0b0110)], cpus=6, memory_mb=8_001))
    assert found["job-name"] == "shunter:lab:j7.a2"
    assert (found["nodelist"], found["nodes"], found["gres"]) == ("n1", "1", "gpu:v100:2")
    assert (found["cpus-per-task"], found["mem"]) == ("6", "8001M")
    assert (found["no-requeue"], found["export"], found["constraint"]) == ("", "NIL", "nvlink")
    assert found["output"] == "/shared/f/slurm.out"
    assert (found["time"], found["signal"]) == ("1440", "B:USR2@120")


def test_gang_is_one_job_with_its_share_on_each_node() -> None:
    found = options(order([("n1", 0b11), ("n2", 0b1100)], memory_mb=2_000))
    assert (found["nodelist"], found["nodes"], found["gres"]) == ("n1,n2", "2", "gpu:v100:2")
    assert found["ntasks-per-node"] == "1"
    assert found["mem"] == "1000M"
    assert found["cpus-per-task"] == "8"  # who asked for none gets its GPUs' part


def components(told: Order) -> list[dict[str, str]]:
    """Return the options of each component of a heterogeneous job."""
    words = job_options(SETTINGS, told, "/shared/f")
    split = [list(group) for is_colon, group in groupby(words, ":".__eq__) if not is_colon]
    return [dict(word.removeprefix("--").partition("=")[::2] for word in part) for part in split]


def test_unequal_parts_are_the_components_of_one_job() -> None:
    """Slurm may turn the split of a total round, and gives all nodes as much as the largest."""
    told = order([("n1", 0b111), ("n2", 0b1)], memory_mb=4_000)
    one, other = components(told)
    assert (one["nodelist"], one["nodes"], one["gres"]) == ("n1", "1", "gpu:v100:3")
    assert (one["cpus-per-task"], one["mem"]) == ("12", "3000M")
    assert (other["nodelist"], other["nodes"], other["gres"]) == ("n2", "1", "gpu:v100:1")
    assert (other["cpus-per-task"], other["mem"]) == ("4", "1000M")
    for name in ("job-name", "partition", "time", "signal", "no-requeue", "export", "constraint"):
        assert one[name] == other[name]


def test_equal_parts_beside_each_other_are_one_component() -> None:
    found = components(order([("n1", 0b11), ("n2", 0b1100), ("n3", 0b1)]))
    assert [(part["nodelist"], part["nodes"]) for part in found] == [("n1,n2", "2"), ("n3", "1")]


def test_memory_that_nobody_asked_for_is_the_gpus_part_of_the_node() -> None:
    """Else Slurm may give a job all of it, and its GPUs would stay idle beside that."""
    assert options(order([("n1", 0b11)]))["mem"] == "32000M"
    found = components(order([("n1", 0b1), ("n2", 0b111)]))
    assert [part["mem"] for part in found] == ["16000M", "48000M"]
    assert options(order([("n4", 0)], cpus=2))["mem"] == "16000M"
    unknown = replace(SETTINGS, nodes=(replace(SETTINGS.nodes[0], memory_mb=0),))
    assert not [
        word for word in job_options(unknown, order([("n1", 1)]), "/f") if word.startswith("--mem")
    ]


def test_gpus_without_a_type_and_none_at_all() -> None:
    assert options(order([("n3", 0b1)]))["gres"] == "gpu:1"
    assert not {"gres", "gpus"} & set(options(order([("n4", 0)])))


def test_each_component_has_gpus_of_its_own_type() -> None:
    found = components(order([("n1", 0b1), ("n3", 0b1)]))
    assert [part["gres"] for part in found] == ["gpu:v100:1", "gpu:1"]


def test_time_limit_of_a_job_is_slurms_somewhat_later() -> None:
    found = options(order([("n1", 1)], time_limit_s=600.0))
    assert (found["time"], found["signal"]) == ("12", "B:USR2@120")


def test_reservation_shortens_what_slurm_is_asked_for() -> None:
    words = job_options(SETTINGS, order([("n1", 1)]), "/f", longest_s=1800.0)
    assert {"--time=30", "--signal=B:USR2@120"} < set(words)
    words = job_options(SETTINGS, order([("n1", 1)], time_limit_s=60.0), "/f", longest_s=1800.0)
    assert "--time=3" in words


def test_script_holds_no_secret_and_survives_odd_paths() -> None:
    script = job_script("python3", "/shared/a.pyz", SETTINGS.root, "j7", 2)
    assert script.splitlines()[:2] == ["#!/bin/sh", "trap '' USR1 USR2"]
    words = ["exec", "python3", "-I", "-S", "/shared/a.pyz", "batch", SETTINGS.root, "j7", "2"]
    assert shlex.split(script.splitlines()[-1]) == words
    assert "secret" not in script


def test_names_of_others_are_nobody() -> None:
    name = attempt_job_name("lab", "j.a7", 12)
    assert key_in("lab", "me", queued(name)) == ("j.a7", 12)
    assert key_in("lab", "me", queued(name, user="you")) is None
    assert key_in("lab2", "me", queued(name)) is None
    for other in (
        "shunter:lab:n1.5fa9",
        "shunter:lab:j7.ax",
        "bash",
        "xshunter:lab:j7.a1",
        "shunter:lab:j7.a²",
        "shunter:lab:j7.a" + "9" * 5000,
        "shunter:lab:j7.a0",
    ):
        assert key_in("lab", "me", queued(other)) is None


def test_wait_is_told_only_of_what_waits() -> None:
    name = attempt_job_name("lab", "j7", 1)
    view = QueueView.of("lab", "me", 0.0, [queued(name, reason="Resources", submit_s=100)])
    assert view.wait_of(("j7", 1), 820.0) == (
        "waiting for Slurm to start job 1, asked 12 min ago (Resources)"
    )
    running = QueueView.of("lab", "me", 0.0, [queued(name), queued(name, state="RUNNING")])
    assert running.wait_of(("j7", 1), 820.0) == ""
    assert running.wait_of(("j8", 1), 820.0) == ""
