"""Logs of runs in which curves of tolerance are learnt: decided again, asked why, placed by."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import Verifier, fact_in_words, rejection_in_words
from shunter.ask.why import document
from shunter.core import Reactor, State, state_digest
from shunter.core.fold import apply, replay
from shunter.core.planning import RoundRules
from shunter.errors import IllegalEventError
from shunter.events import (
    AllocationChanged,
    GpuType,
    JobRejected,
    Level,
    NodeName,
    NodeRemoved,
    ToleranceLearnt,
    encode_record,
    row_decoder,
)
from tests.factories import (
    Outcome,
    attempt_started,
    granted,
    job_id,
    job_submitted,
    node_added,
    revoked,
    scheduler_started,
)
from tests.replay.placement.learnt_run import MINUTE, job, learnt_world, played
from tests.replay.recording import Recorded, asked

OUTCOME, LOG = played(learnt_world())


def told(log: Recorded, name: str, at: int) -> dict[str, Any]:
    """Return what `why` says of a job's contract at a minute."""
    found: dict[str, Any] = document(asyncio.run(asked(log, name, at * MINUTE)))["contract"]
    return found


def starts(outcome: Outcome) -> dict[str, tuple[float, dict[str, int]]]:
    """Return at which minute each job started first, and with which masks."""
    found: dict[str, tuple[float, dict[str, int]]] = {}
    for change in outcome.of(AllocationChanged):
        masks = {str(share.node): share.gpu_mask for share in change.allocation.shares}
        found.setdefault(change.job_id, (change.at_us / MINUTE, masks))
    return found


def test_gangs_tell_once_what_they_measure_where_they_are() -> None:
    first, second = OUTCOME.of(ToleranceLearnt)[:2]
    assert (first.job_id, first.level, first.split, first.samples) == ("j0", "server", (4,), 4)
    assert (second.job_id, second.level, second.split) == ("j6", "rack", (2, 2))
    assert (first.batch_us, second.batch_us) == (100_000, 200_000)
    assert fact_in_words(second) == (
        "learn of resnet: 2+2 of v100 within one rack take 200 ms for a mini-batch"
    )


def test_floor_waits_for_what_was_learnt_while_it_waited() -> None:
    """At minute 68 j6 leaves 2+2, where j7 could have started before anything was learnt of it."""
    assert starts(OUTCOME)["j7"] == (90, {"n0": 0b1111})
    assert starts(OUTCOME)["j8"] == (70, {"n0": 0b1100, "n1": 0b1100})
    unlearnt, _ = played(learnt_world(learns_tolerance=False))
    assert starts(unlearnt)["j7"] == (68, {"n0": 0b1100, "n1": 0b1100})


def test_why_tells_the_contract_what_it_refuses_and_why_it_waits() -> None:
    waits = told(LOG, "j7", 69)
    assert waits["words"] == (
        "learnt of resnet from 8 samples: speed 1 on 4 within one server, "
        "0.5 on 2+2 within one rack; "
        "floor 0.8; accepts server at most and refuses rack, domain, cluster; refuses 2+2; "
        "it waits, for no place that it accepts is left to it"
    )
    assert (waits["source"], waits["samples"], waits["has"]) == ("learnt", 8, None)
    runs = told(LOG, "j8", 72)
    assert runs["has"] == {"level": Level.rack, "split": [2, 2], "speed": 0.5}
    assert runs["refused_levels"] == []
    assert told(LOG, "j6", 62)["words"] == (
        "learnt of resnet from 4 samples: speed 1 on 4 within one server; no floor; "
        "it has 2+2 within one rack, a speed that nobody knows"
    )


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_run_is_decided_again(noise: float) -> None:
    outcome, log = played(learnt_world(noise=noise))
    verifier = Verifier(log.rebuild)

    divergence = verifier.take(log.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


def learnt(at: int, level: Level, split: tuple[int, ...], batch_us: int) -> ToleranceLearnt:
    return ToleranceLearnt(at, job_id(0), "resnet", GpuType("v100"), level, split, batch_us, 4)


KNOWN = (
    scheduler_started(),
    node_added(0, 4, rack="r"),
    node_added(1, 2, rack="r"),
    node_added(2, 2, rack="r"),
    job_submitted(0, 4, model="resnet"),
    granted(0, n0=0b1111),
    attempt_started(0),
    job_submitted(1, 4, model="resnet", min_speed=0.8),
    learnt(1, Level.server, (4,), 100),
    learnt(1, Level.rack, (2, 2), 200),
)


def test_a_floor_that_servers_can_no_more_meet_says_that_it_waits_in_vain() -> None:
    """The one server with four GPUs is removed after the job was taken in."""
    jobs = (
        job(0, 4, 0, 10, "resnet"),
        job(1, 4, 20, 10, "resnet", shapes=((2, 2),)),
        job(2, 4, 70, 10, "resnet", min_speed=0.8),
    )
    there = (node_added(0, 4, rack="r"), node_added(1, 2, rack="r"), node_added(2, 2, rack="r"))
    _, log = played(learnt_world(*jobs, servers=there))
    at = next(seq for seq, event in enumerate(log.events, 1) if event.at_us >= 70 * MINUTE)
    events = [
        *log.events[:at],  # with the submission of j2
        NodeRemoved(log.events[at - 1].at_us, NodeName("n0")),
    ]
    found = document(asyncio.run(asked(Recorded(events, log.rebuild), "j2")))["contract"]
    assert found["impossible"].startswith("not even the empty cluster has such a place now")
    assert found["impossible"] in found["words"]


def test_a_floor_that_what_is_known_makes_impossible_is_refused_at_submission() -> None:
    state = replay([*KNOWN, revoked(0, 2, instant=True), NodeRemoved(3, NodeName("n0"))])
    late = job_submitted(2, 4, 4, model="resnet", min_speed=0.8)
    result = apply(state, late)

    (answer,) = Reactor(state, RoundRules(0)).react(late, result, None)

    assert isinstance(answer, JobRejected)
    assert rejection_in_words(answer, late.spec, state.cluster) == (
        "it needs 4 GPUs where gangs of resnet reach its floor of 0.8, by what they measured, and "
        "none are so, even when empty"
    )
    lower = job_submitted(3, 4, 4, model="resnet", min_speed=0.5)
    assert Reactor(state, RoundRules(0)).react(lower, apply(state, lower), None) == ()


def test_what_is_learnt_and_bound_by_it_is_in_a_snapshot() -> None:
    state = replay(KNOWN)
    again: State = row_decoder(State)(json.loads(encode_record(state)))
    assert again.learnt == state.learnt
    assert again.jobs[job_id(1)].demand == state.jobs[job_id(1)].demand


def test_checkpoints_that_bind_a_job_to_a_split_come_before_its_floor() -> None:
    """j1 ran on 2+2 before anybody knew how slow that is, and can be loaded so only."""
    ran = granted(1, n1=0b11, n2=0b11)
    bound = replay([*KNOWN[:-2], ran, replace(attempt_started(1), keeps_split=True), *KNOWN[-2:]])
    demand = bound.jobs[job_id(1)].demand
    assert (demand.max_level, demand.shapes, demand.keeps_split) == (None, ((2, 2),), True)
    free = replay([*KNOWN[:-2], ran, attempt_started(1), *KNOWN[-2:]])
    assert free.jobs[job_id(1)].demand.max_level is Level.server


@pytest.mark.parametrize(
    "wrong",
    [{"model": ""}, {"batch_us": 0}, {"samples": 0}, {"split": (1,)}, {"job_id": job_id(9)}],
    ids=str,
)
def test_a_fact_that_no_gang_could_tell_is_illegal(wrong: dict[str, Any]) -> None:
    fact = learnt(2, Level.rack, (2, 2), 5)
    with pytest.raises(IllegalEventError):
        apply(replay(KNOWN), replace(fact, **wrong))
