"""What sbatch is told of an attempt."""

import shlex
from dataclasses import replace
from itertools import groupby

import pytest

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


def asked(told: str) -> list[str]:
    """Return what sbatch is asked for an attempt: `n1:0110 n2:1, cpus=6, time_limit_s=60`, say."""
    places, *pairs = told.split(", ")
    named = {name: int(number) for name, _, number in (pair.partition("=") for pair in pairs)}
    placement = [
        (node, int(mask, 2)) for node, mask in (each.split(":") for each in places.split())
    ]
    cpus, longest_s = named.pop("cpus", 0), named.pop("longest_s", None)
    has = {"cpus": list(range(cpus or 16)), "pinned": bool(cpus), "env": {"KEY": "secret"}}
    named |= {"attempt": 2, "memory_mb": named.get("memory_mb", 0)}
    ranks = [rank_of(**has) for _ in placement]
    order = order_of(job="j7", placement=placement, ranks=ranks, **named)
    return list(job_options(SETTINGS, order, "/shared/f", longest_s=longest_s))


def components(told: str) -> list[dict[str, str]]:
    """Return the options of each component of a heterogeneous job."""
    split = [list(group) for is_colon, group in groupby(asked(told), ":".__eq__) if not is_colon]
    return [dict(word.removeprefix("--").partition("=")[::2] for word in part) for part in split]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            "n1:0110, cpus=6, memory_mb=8001",
            "nodelist=n1 nodes=1 gres=gpu:v100:2 cpus-per-task=6 mem=8001M time=1440",
        ),
        (  # who asked for no CPUs gets its GPUs' part of them
            "n1:11 n2:1100, memory_mb=2000",
            "nodelist=n1,n2 nodes=2 gres=gpu:v100:2 ntasks-per-node=1 cpus-per-task=8 mem=1000M",
        ),
        (  # Slurm may turn the split of a total round, and gives all nodes as much as the largest
            "n1:111 n2:1, memory_mb=4000",
            (
                "nodelist=n1 nodes=1 gres=gpu:v100:3 cpus-per-task=12 mem=3000M | "
                "nodelist=n2 nodes=1 gres=gpu:v100:1 cpus-per-task=4 mem=1000M"
            ),
        ),
        ("n1:11 n2:1100 n3:1", "nodelist=n1,n2 nodes=2 | nodelist=n3 nodes=1"),
        ("n1:11", "mem=32000M"),  # else it may get all, and other GPUs stay idle beside that
        ("n1:1 n2:111", "mem=16000M | mem=48000M"),
        ("n4:0, cpus=2", "mem=16000M"),
        ("n3:1", "gres=gpu:1"),
        ("n1:1 n3:1", "gres=gpu:v100:1 | gres=gpu:1"),
        ("n1:1, time_limit_s=600", "time=12 signal=B:USR2@120"),  # somewhat later
        ("n1:1, longest_s=1800", "time=30 signal=B:USR2@120"),
        ("n1:1, time_limit_s=60, longest_s=1800", "time=3"),
    ],
)
def test_plan_is_what_slurm_is_asked_for(told: str, expected: str) -> None:
    found = components(told)
    wanted = [dict(pair.split("=") for pair in each.split()) for each in expected.split(" | ")]
    assert [
        {name: one[name] for name in of} for one, of in zip(found, wanted, strict=True)
    ] == wanted


def test_every_component_has_what_is_the_jobs() -> None:
    for found in components("n1:111 n2:1"):
        assert (found["job-name"], found["partition"]) == ("shunter:lab:j7.a2", "main")
        assert (found["no-requeue"], found["export"], found["constraint"]) == ("", "NIL", "nvlink")
        assert (found["time"], found["signal"]) == ("1440", "B:USR2@120")
    assert "--output=/shared/f/slurm.out" in asked("n1:1")


def test_what_there_is_none_of_is_not_asked_for() -> None:
    assert not {"gres", "gpus"} & components("n4:0")[0].keys()
    unknown = replace(SETTINGS, nodes=(replace(SETTINGS.nodes[0], memory_mb=0),))
    order = order_of(placement=[("n1", 1)], ranks=[rank_of()])
    assert not [word for word in job_options(unknown, order, "/f") if word.startswith("--mem")]


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
