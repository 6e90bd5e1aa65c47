"""Gangs over several hosts that take turns: all hosts at the same instants, also without a link."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from typer.testing import CliRunner

import shunter
from shunter.backends.live import TurnSettings
from shunter.cli import app
from shunter.config import LoadedConfig
from shunter.core import Input, Launch
from shunter.daemon import Site, Submission
from shunter.events import (
    Allocation,
    Event,
    JobCancelled,
    JobId,
    JobSpec,
    MessagesDropped,
    NodeName,
    NodeReachable,
    NodeUnreachable,
    Share,
    Sharing,
    TurnEnded,
    TurnStarted,
)
from shunter.events.log import read_log
from tests.factories import job_id
from tests.live.site.sites import NOBODY, at_work, events_until, of, verified
from tests.live.ssh.bench import Bench, order, rest, seen_until
from tests.live.ssh.namespaces import Namespaces
from tests.live.ssh.site import cluster

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

GANGS = [job_id(number) for number in range(2)]
BESIDE = job_id(2)
QUANTUM_US = 1_500_000
BATCH_S = 0.05
CLOCK_US = 100_000  # of a host's clock, read anew with each connection
CUT_S = 6.0
TRAINS = """
import os, sys, time
sys.path.insert(0, {package!r})
from shunter import train
train.device()
run = train.start()
while True:
    begun = time.monotonic_ns()
    time.sleep({batch_s})
    print(begun, time.monotonic_ns(), flush=True)
    run.step()
"""
Span = tuple[int, int]


def turned(seen: list[Event], job: JobId) -> int:
    """Return how often servers gave a job its turn."""
    return sum(each.job_id == job for each in of(seen, TurnStarted))


def training() -> tuple[str, ...]:
    package = str(Path(shunter.__file__).parents[1])
    return (sys.executable, "-c", TRAINS.format(package=package, batch_s=BATCH_S))


def spans(seen: Sequence[Input | Event], job: JobId, node: str) -> list[Span]:
    """Return the whole turns of a job on a host; hold them to come one after the other."""
    began: list[int] = []
    ended: list[int] = []
    for each in seen:
        if not isinstance(each, TurnStarted | TurnEnded) or each.job_id != job:
            continue
        if isinstance(each, TurnStarted) and node in [share.node for share in each.shares]:
            assert len(began) == len(ended)
            began.append(each.began_us or 0)
        elif isinstance(each, TurnEnded) and (node in each.nodes or not each.nodes):
            assert len(began) == len(ended) + 1
            ended.append(each.ended_us or 0)
    return list(zip(began, ended, strict=False))


def together(one: list[Span], other: list[Span]) -> list[tuple[Span, Span]]:
    """Return the turns of both hosts that are the same turn of a gang."""
    return [
        (here, there)
        for here in one
        for there in other
        if here[0] < there[1] and there[0] < here[1]
    ]


def on_both(pairs: list[tuple[Span, Span]]) -> int:
    """Return for how long both hosts had their turn at once."""
    return sum(min(a[1], b[1]) - max(a[0], b[0]) for a, b in pairs)


def launches() -> list[Launch]:
    shares = tuple(Share(NodeName(node), 1) for node in ("n0", "n1"))
    both, single = Allocation(shares, Sharing.sliced), Allocation(shares[:1], Sharing.sliced)
    gangs = [Launch(job, 1, both, JobSpec(2, command=training())) for job in GANGS]
    return [*gangs, Launch(BESIDE, 1, single, JobSpec(1, command=training()))]


@pytest.mark.long
async def test_gangs_have_their_turns_on_all_hosts_at_once(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    shared = str(bench.folder / "shared")
    async with bench.opened(
        slicing=TurnSettings(quantum_us=QUANTUM_US), checkpoints=shared
    ) as backend:
        await order(backend, *launches())
        seen = await rest(backend, 12.0)
        since_us = backend.now_us()
        seen += await rest(backend, 14.0)
        until_us = backend.now_us()
        farm.cut("n1")
        seen += await seen_until(backend, NodeUnreachable)
        await anyio.sleep(CUT_S)
        farm.heal("n1")
        seen += await seen_until(backend, NodeReachable)
        seen += await rest(backend, 3.0)
    turns = {(job, node): spans(seen, job, node) for job in GANGS for node in ("n0", "n1")}
    for node in ("n0", "n1"):
        everybody = [*GANGS, BESIDE] if node == "n0" else GANGS
        both = sorted(span for job in everybody for span in spans(seen, job, node))
        assert all(end <= began + CLOCK_US for (_, end), (began, _) in pairwise(both)), node
    pairs = {job: together(turns[job, "n0"], turns[job, "n1"]) for job in GANGS}
    skews = [abs(a[0] - b[0]) / 1e3 for each in pairs.values() for a, b in each]
    print(f"skew of {len(skews)} turns: {sum(skews) / len(skews):.1f} ms, at most {max(skews):.1f}")
    for job in GANGS:
        whole = [
            (a, b)
            for a, b in pairs[job]
            if since_us < min(a[0], b[0]) and max(a[1], b[1]) < until_us
        ]
        part = on_both(whole) / (until_us - since_us)
        print(job, len(pairs[job]), "turns,", len(whole), "in the stretch, on both for", part)
        alone = sum(end - began for node in ("n0", "n1") for began, end in turns[job, node])
        assert on_both(pairs[job]) >= 0.8 * alone / 2, "hosts give it its turn apart"
        assert part >= 0.2, "a third is its part"
    assert spans(seen, BESIDE, "n0"), "who is on one server has the rest"
    bench.assert_nothing_twice()


def two_hosts(bench: Bench) -> LoadedConfig:
    """Return a cluster of two hosts that gives turns."""
    policy = {"name": "gandiva", "slicing": {"quantum": QUANTUM_US / 1e6}}
    return cluster(
        bench.farm, bench.folder, nodes=("n0", "n1"), policy=policy, checkpoints=str(bench.folder)
    )


async def two_gangs(site: Site) -> list[JobId]:
    """Submit two gangs wider than a host, and wait until both have had some turns."""
    submission = Submission(JobSpec(command=training(), gpus=2))
    gangs = [await site.submit(submission, NOBODY) for _ in range(2)]
    await events_until(site, lambda seen: all(turned(seen, job) >= 4 for job in gangs))
    return gangs


async def test_scheduler_that_comes_back_finds_gangs_in_their_turns(bench: Bench) -> None:
    """By the policy: two gangs wider than a host, whose scheduler is away for some turns."""
    config = two_hosts(bench)
    async with at_work(config) as site:
        gangs = await two_gangs(site)
        before = site.state.seq
    await anyio.sleep(4 * QUANTUM_US / 1e6)
    async with at_work(config) as site:
        seen = await events_until(
            site, lambda seen: all(turned(seen, job) >= 4 for job in gangs), before
        )
        words = ["why", gangs[0], "--log", str(bench.folder / "log.db")]
        for job in gangs:
            await site.tell(site.commands.cancel(job, NOBODY))
        await events_until(site, lambda seen: len(of(seen, JobCancelled)) == 2, before)
    away = [each for each in of(seen, TurnStarted) if each.at_us - (each.began_us or 0) > 1_000_000]
    print(len(away), "turns of servers were told later")
    assert away
    told = await to_thread.run_sync(CliRunner().invoke, app, words)
    assert "its servers began them" in told.stdout, told.stdout
    verdict = await verified(bench.folder)
    assert verdict.divergence is None
    bench.assert_nothing_twice()


async def test_each_turn_is_told_once_though_a_host_was_cut_off_when_the_scheduler_left(
    network: tuple[Bench, Namespaces],
) -> None:
    """The log has other turns of one host than of the other when the next term reads both."""
    bench, farm = network
    config = two_hosts(bench)
    async with at_work(config) as site:
        gangs = await two_gangs(site)
        farm.cut("n1")
        await events_until(site, lambda seen: bool(of(seen, NodeUnreachable)))
        await anyio.sleep(2 * QUANTUM_US / 1e6)
    async with at_work(config) as site:
        before = site.state.seq
        await anyio.sleep(3 * QUANTUM_US / 1e6)
        farm.heal("n1")
        await events_until(site, lambda seen: all(turned(seen, job) >= 8 for job in gangs), before)
        for job in gangs:
            await site.tell(site.commands.cancel(job, NOBODY))
        await events_until(site, lambda seen: len(of(seen, JobCancelled)) == 2, before)
    async with read_log(str(bench.folder / "log.db")) as reader:
        events = [event async for event in reader.events()]
    assert not of(events, MessagesDropped)
    turns = {(job, node): spans(events, job, node) for job in gangs for node in ("n0", "n1")}
    for node in ("n0", "n1"):
        whose = sorted((span, job) for job in gangs for span in turns[job, node])
        print(node, len(whose), "turns")
        between = [(one, other) for (_, one), (_, other) in pairwise(whose)]
        assert all(one != other for one, other in between), "a turn between is missing"
    for job in gangs:
        here, there = turns[job, "n0"], turns[job, "n1"]
        assert len(together(here, there)) >= max(len(here), len(there)) - 1
    verdict = await verified(bench.folder)
    assert verdict.divergence is None
    bench.assert_nothing_twice()
