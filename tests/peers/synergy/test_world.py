"""Rounds of the policy and of the cluster must be the same; other settings are told so."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shunter.ask import Verifier
from shunter.config import make_config
from shunter.core import state_digest
from shunter.errors import ShunterError
from shunter.events import AllocationChanged, SchedulerStarted, encode_record
from shunter.run import RunResult, simulate
from tests.factories import run
from tests.peers.synergy.literal import PeerJob, peer_run
from tests.peers.synergy.played import RoundsWorld, ends_s, peer, peer_servers, play, trace_jobs
from tests.replay.recording import Recorded, rebuilt

ROWS = [PeerJob(f"j{n}", "res18", 8.0 + 40 * n, 3000, 1 + n % 4) for n in range(12)]
SERVERS: list[Mapping[str, object]] = [{"name": "n[1-2]", "gpus": 8, "cpus": 24, "memory_gb": 500}]


def simulated(folder: Path, **changes: Any) -> RunResult:
    """Run a few jobs in the peer setting, with other sections of the config."""
    trace = folder / "jobs.csv"
    trace.write_text(
        "".join(
            f"{job.job_id},{job.model},{job.arrival},{job.iterations},{job.gpus}\n" for job in ROWS
        ),
        encoding="utf-8",
    )
    sections: dict[str, Any] = {
        "schema": 1,
        "cluster": {"nodes": SERVERS},
        "workload": {"trace": str(trace), "format": "synergy"},
        "policy": {"name": "synergy_peer", "trigger": "event"},
        "simulation": {"world": "synergy_rounds"},
        "log": {"url": "none:"},
    }
    return simulate(make_config({**sections, **changes}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"simulation": {}},
            "job j8 has done all its iterations .*: set simulation.world = 'synergy_rounds'",
        ),
        (
            {"policy": {"name": "synergy_peer", "trigger": "round", "round": "5m"}},
            "simulation.world: synergy_rounds: expected policy.trigger = 'event'",
        ),
        (
            {"policy": {"name": "fifo", "trigger": "event"}},
            "simulation.world: synergy_rounds plays policy synergy_peer, not fifo",
        ),
        (
            {"simulation": {"world": "synergy_rounds", "costs": {"resume": "5s"}}},
            "simulation.world: synergy_rounds: expected .* no costs",
        ),
        (
            {"cluster": {"nodes": [*SERVERS, {"name": "m1", "gpus": 4, "cpus": 12}]}},
            "expected all servers with GPUs to have equal GPUs, CPUs and memory",
        ),
        (
            {"cluster": {"nodes": [{"name": "n1", "gpus": 8, "cpus": 20, "memory_gb": 500}]}},
            "the servers have 2.5 CPUs for each GPU: expected one of 3, 4, 5, 6",
        ),
        (
            {
                "cluster": {"nodes": [{"name": "n1", "gpus": 8, "cpus": 32, "memory_gb": 500}]},
                "policy": {
                    "name": "synergy_peer",
                    "trigger": "event",
                    "params": {"synergy_peer": {"mechanism": "opt"}},
                },
            },
            "'opt' has tables for servers with 3 CPUs and 62.5 GB for each GPU, not 4 and 62.5",
        ),
    ],
    ids=["no world", "rounds", "policy", "costs", "servers", "ratio", "opt"],
)
def test_setting_in_which_it_is_not_the_simulator_is_refused(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ShunterError, match=told):
        simulated(tmp_path, **changes)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("j0,8,9,1,vgg16,100", "job j0: synergy_peer knows nothing of model 'vgg16': expected one"),
        ("j0,8,9,1,,100", "job j0: synergy_peer knows nothing of model ''"),
        ("j0,8,9,1,gnmt,", "job j0: synergy_peer counts iterations on GPUs: expected both"),
    ],
)
def test_job_that_the_simulator_does_not_know_is_told(tmp_path: Path, row: str, told: str) -> None:
    trace = tmp_path / "canonical.csv"
    trace.write_text(f"job_id,submit_s,duration_s,gpus,model,total_steps\n{row}\n", "utf-8")

    with pytest.raises(ShunterError, match=told):
        simulated(tmp_path, workload={"trace": str(trace)})


def test_servers_that_say_nothing_of_cpus_are_those_of_the_simulator(tmp_path: Path) -> None:
    told, silent = (
        simulated(tmp_path, cluster={"nodes": nodes})
        for nodes in (SERVERS, [{"name": "n[1-2]", "gpus": 8}])
    )
    assert [each.end_us for each in told.stories()] == [each.end_us for each in silent.stories()]


def test_allocations_name_the_cpus_and_memory_that_a_job_has() -> None:
    """Method: two best demands of nine cores fit on a server; the third job gets the fair three."""
    jobs = [PeerJob(f"j{n}", "res18", 8.0, 3000) for n in range(3)]

    changes = play(jobs, 1).of(AllocationChanged)[:3]

    shares = [change.allocation.shares[0] for change in changes]
    assert [(share.cpus_milli, share.memory_mb) for share in shares] == [
        (9000, 62_500),
        (9000, 62_500),
        (3000, 62_500),
    ]
    assert [change.because.scores for change in changes] == [
        (2.4, 9.0, 62.5),
        (2.4, 9.0, 62.5),
        (1.0, 3.0, 62.5),
    ]


@pytest.mark.parametrize("mechanism", ["proportional", "tune", "greedy"])
def test_run_is_decided_again_to_the_same_state_and_memory(mechanism: str) -> None:
    """Method: what the world made happen is in the log, so the verifier needs no world."""
    world = RoundsWorld(servers=peer_servers(2), jobs=trace_jobs(ROWS))
    policy = peer(order="las", mechanism=mechanism)
    outcome = run(world, policy, wrapped=lambda _: world.played(policy))
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    assert ends_s(outcome) == peer_run(ROWS, "las", mechanism, servers=2).ends
    rules = world.rules(instant=True)
    recorded = Recorded(
        [replace(start, simulated=True, policy_version=policy.version), *outcome.events[1:]],
        rebuilt(policy, rules),
    )

    verifier = Verifier(recorded.rebuild)
    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)
