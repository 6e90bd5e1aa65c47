"""The mechanism, fed with recorded fractions: the same GPUs in every round, the same ends.

The recorded results and traces are not part of Shunter; they are looked for in ../shared.
"""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import FastestFirst, Fractions, Gang, Isolated, Targets
from shunter_peers.gavel import PeerJob, PeerRounds
from shunter_peers.gavel.mersenne_twister import MersenneTwister
from shunter_peers.gavel.objectives import Allox, StaleFifo
from shunter_peers.gavel.objectives.pairing import PackedFifo, RandomPairs
from tests.fidelity.test_gavel_literal import (
    ALONE_CASES,
    INPUTS,
    NONE,
    REPLAY_CASES,
    RUNS,
    gang_of,
    times_s,
    trace_of,
)
from tests.peers.gavel_inputs import GavelJob, GavelTable, read_table, read_trace, servers_of

pytestmark = pytest.mark.fidelity

SHUFFLED = ("fifo", "isolated", "max_min_fairness")
ALONE: dict[str, Callable[[], Targets]] = {
    "allox": Allox,
    "fifo": StaleFifo,
    "fifo_packed": PackedFifo,
    "fifo_perf": FastestFirst,
    "gandiva": RandomPairs,
    "isolated": Isolated,
}


def kind_of(text: str) -> JobKind:
    model, gpus = text[2:-1].rsplit("', ", 1)
    return JobKind(model, int(gpus))


def table_of(table: GavelTable, names: list[str]) -> ThroughputTable:
    """Return a throughput file as the core knows tables."""
    alone: dict[GpuType, dict[JobKind, float]] = {}
    paired: dict[GpuType, Any] = {}
    for name in names:
        there, pairs = alone.setdefault(GpuType(name), {}), paired.setdefault(GpuType(name), {})
        for one, row in table.rows[name].items():
            there[kind_of(one)] = row["null"]
            for other, rates in row.items():
                if other != "null":
                    pairs[kind_of(one), kind_of(other)] = tuple(rates)
    return ThroughputTable(alone, paired)


def named(gang: tuple[int, ...]) -> Gang:
    return tuple(JobId(str(number)) for number in gang)


def fractions_of(recorded: Any) -> Fractions:
    return {
        named(gang_of(gang)): {GpuType(name): part for name, part in row.items()}
        for gang, row in recorded.items()
    }


def as_peer_job(job: GavelJob) -> PeerJob:
    job_id = JobId(str(job.number))
    return PeerJob(job_id, job.number, job.model, job.gpus, job.steps, job.arrival_s)


class Played:
    """A trace played with recorded fractions: every round, and when each job ended."""

    def __init__(self, config: Any, answer: Callable[[PeerRounds, ThroughputTable], Fractions]):
        self.jobs = read_trace(trace_of(config))
        self.answer = answer
        servers = servers_of(config["cluster"], config["gpus_per_server"])
        self.table = table_of(read_table(INPUTS / config["throughputs"]), list(servers))
        name = config["policy"]
        self.rounds = PeerRounds.of(
            {GpuType(at): [*chain(*where)] for at, where in servers.items()},
            pairs_too=name == "gandiva" or name.endswith("packed"),
            needs_claim=name.startswith("fifo"),
        )
        self.rounds.shuffler = MersenneTwister.seeded(5) if name in SHUFFLED else None
        self.seen: list[tuple[float, dict[Gang, tuple[int, ...]]]] = []
        self.jct_s: dict[int, float | None] = {}

    def run(self) -> "Played":
        """Play to the end."""
        rounds, queued, idle = self.rounds, list(self.jobs), False
        while queued or rounds.jobs.known:
            if not queued and idle:
                rounds.ledger.forget_reset()
            if not rounds.runs and queued:
                rounds.now_s = queued[0].arrival_s
            rounds.finish()
            for job_id, end_s in rounds.ended_s.items():
                arrival_s = self.jobs[int(job_id)].arrival_s
                self.jct_s[int(job_id)] = None if end_s is None else end_s - arrival_s
            while queued and queued[0].arrival_s <= rounds.now_s:
                rounds.arrive(as_peer_job(queued.pop(0)), self.table)
            if rounds.ledger.is_due(rounds.now_s):
                rounds.ledger.reset(self.answer(rounds, self.table), rounds.now_s)
            seats = rounds.plan()
            self.seen.append((rounds.now_s, {gang: at.gpus for gang, at in seats.items()}))
            idle = not seats
        return self


@pytest.mark.parametrize("path", REPLAY_CASES or NONE)
def test_mechanism_seats_every_gang_of_every_round_where_the_peer_did(path: Path) -> None:
    replay = json.loads(path.read_text(encoding="utf-8"))

    recorded = iter(replay["allocations"])

    def repeat(rounds: PeerRounds, _: ThroughputTable) -> Fractions:
        at_s, fractions = next(recorded)
        assert at_s == rounds.now_s
        return fractions_of(fractions)

    played = Played(replay["config"], repeat).run()

    assert played.seen == [
        (at_s, {named(gang_of(gang)): tuple(gpus) for gang, gpus in there.items()})
        for at_s, there in replay["rounds"]
    ]
    assert played.jct_s == pytest.approx(times_s(path.name.split(".")[0]), rel=1e-6)


@pytest.mark.parametrize("name", ALONE_CASES or NONE)
def test_objective_without_a_solver_ends_every_job_when_the_peer_did(name: str) -> None:
    config = RUNS[name]["config"]
    objective = ALONE[config["policy"]]()

    played = Played(config, lambda rounds, table: objective.fractions(rounds.demands(table))).run()

    assert played.jct_s == pytest.approx(times_s(name), rel=1e-6)
