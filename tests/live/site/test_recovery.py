"""Schedulers that die: what runs is found again, what ended is told, and nothing is lost."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from shunter.ask import JobHistory, read_histories
from shunter.clock import wall_now
from shunter.config import policy_runtime
from shunter.core import State
from shunter.daemon import (
    History,
    Identity,
    Site,
    Submission,
    open_site,
    startup,
    superseded,
    term_begin,
)
from shunter.errors import ConfigError, LogError
from shunter.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    ClockStepped,
    Event,
    JobFailed,
    JobFinished,
    JobId,
    LaunchFailed,
    NodeAdded,
    NodeRemoved,
    SchedulerStarted,
    SegmentSealed,
)
from shunter.events.log import read_log
from shunter.ops import Looked, kept_log
from tests.contracts.local_backends import empty
from tests.live.site.daemons import Daemon
from tests.live.site.sites import (
    NOBODY,
    at_work,
    config,
    events_until,
    machine,
    of,
    outcome,
    program,
    remove_ended,
    verified,
    wait_for,
)

pytestmark = pytest.mark.live

# Marks its start and its end in one file; works for so long.
MARKS = """
import os, sys, time
def mark(what):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.environ['SHUNTER_JOB']}.{os.environ['SHUNTER_ATTEMPT']} {what}\\n")
mark("began")
time.sleep(float(sys.argv[2]))
mark("ended")
"""
J1 = JobId("j1")
OUTAGE_S = 2.0


def marking(root: Path, seconds: float) -> Submission:
    return program(MARKS, str(root / "marks"), str(seconds))


def marks(root: Path) -> list[str]:
    path = root / "marks"
    return path.read_text().splitlines() if path.exists() else []


def daemon_with(root: Path, request: Submission, **changes: Any) -> Daemon:
    """Start a scheduler process that submits a job and goes on for ever."""

    async def submit(site: Site) -> None:
        await site.submit(request, NOBODY)
        await anyio.sleep_forever()

    return Daemon(config(root, **changes), submit)


async def all_events(root: Path) -> list[Event]:
    async with read_log(str(root / "log.db")) as reader:
        return [event async for event in reader.events()]


async def history(root: Path) -> JobHistory:
    async with read_log(str(root / "log.db")) as reader:
        return (await read_histories(reader, [J1]))[J1]


async def ended(root: Path, job_id: JobId = J1) -> str:
    """Open the cluster of a folder, wait until a job has ended, and say how."""
    async with machine(root) as site:
        return await outcome(site, job_id)


def test_job_runs_on_under_the_next_scheduler(tmp_path: Path) -> None:
    daemon = daemon_with(tmp_path, marking(tmp_path, 1.0))
    wait_for(lambda: len(marks(tmp_path)) == 1)
    daemon.kill()
    assert anyio.run(ended, tmp_path) == "finished"
    assert marks(tmp_path) == ["j1.1 began", "j1.1 ended"]
    events = anyio.run(all_events, tmp_path)
    assert len(of(events, AttemptStarted)) == 1
    assert len(of(events, SchedulerStarted)) == 2
    assert anyio.run(verified, tmp_path).divergence is None


def test_end_that_no_scheduler_saw_is_told_by_the_next(tmp_path: Path) -> None:
    daemon = daemon_with(tmp_path, marking(tmp_path, 0.3))
    wait_for(lambda: len(marks(tmp_path)) == 1)
    daemon.kill()
    wait_for((tmp_path / "attempts/jobs/j1/1/status").exists)
    assert anyio.run(ended, tmp_path) == "finished"
    finished = of(anyio.run(all_events, tmp_path), JobFinished)
    assert len(finished) == 1
    assert finished[0].ended_us is not None
    assert finished[0].ended_us < finished[0].at_us
    assert len(marks(tmp_path)) == 2


def test_failure_that_no_scheduler_saw_has_its_own_instant(tmp_path: Path) -> None:
    """What a table, `why` and an exported trace say of it is how long it ran, not the outage."""
    request = program("import sys, time; time.sleep(0.5); sys.exit(4)")
    daemon = daemon_with(tmp_path, request)
    wait_for((tmp_path / "attempts/jobs/j1/1/started").exists)
    daemon.kill()  # whether it has seen the start or not
    wait_for((tmp_path / "attempts/jobs/j1/1/status").exists)
    time.sleep(OUTAGE_S)
    assert anyio.run(ended, tmp_path) == "failed"
    events = anyio.run(all_events, tmp_path)
    (failed,) = of(events, JobFailed)
    (over,) = of(events, AttemptEnded)
    assert failed.ended_us == over.ended_us
    assert failed.ended_us is not None
    assert failed.at_us - failed.ended_us >= OUTAGE_S * 1e6 * 0.9
    life = anyio.run(history, tmp_path)
    assert 0 < life.run_us < OUTAGE_S * 1e6
    assert life.ended_us == failed.ended_us


def test_scheduler_that_is_killed_ten_times_loses_nothing(tmp_path: Path) -> None:
    daemon_with(tmp_path, marking(tmp_path, 2.0)).kill()
    for _ in range(9):
        daemon = Daemon(config(tmp_path), lambda _: anyio.sleep_forever())
        time.sleep(0.1)
        daemon.kill()
    state = anyio.run(state_after_all, tmp_path)
    assert len(marks(tmp_path)) == 2 * state.submitted
    assert anyio.run(verified, tmp_path).divergence is None


async def state_after_all(root: Path) -> State:
    async with machine(root) as site:
        await events_until(site, lambda _: not site.state.jobs)
        return site.state


@pytest.mark.asyncio
async def test_second_scheduler_on_a_log_is_refused(tmp_path: Path) -> None:
    async with machine(tmp_path):
        with pytest.raises(LogError, match="is being written by another process"):
            async with open_site(config(tmp_path)):
                pass


@pytest.mark.asyncio
async def test_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        await outcome(site, await site.submit(program("pass"), NOBODY))
    other = config(tmp_path, log={"url": str(tmp_path / "other.db")})
    with pytest.raises(ConfigError, match=r"holds attempts of cluster .* backend.local.root"):
        async with open_site(other):
            pass


@pytest.mark.asyncio
async def test_folder_whose_log_is_gone_is_refused_and_no_log_is_made(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    async with machine(tmp_path) as site:
        await outcome(site, await site.submit(program("pass"), NOBODY))
    for name in ("log.db", "log.db.anchor"):
        (tmp_path / name).rename(tmp_path / f"old-{name}")
    (told,) = await anyio.to_thread.run_sync(lambda: list(kept_log(Looked(loaded))))
    assert (told.state, "move the folder away too to begin again" in told.what) == ("bad", True)
    for _ in range(2):
        with pytest.raises(ConfigError, match="move the folder away too to begin again"):
            async with open_site(loaded):
                pass
    assert not (tmp_path / "log.db").exists()


@pytest.mark.asyncio
async def test_attempt_whose_supervisor_died_with_the_scheduler_runs_anew(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    async with at_work(loaded) as site:
        await site.submit(marking(tmp_path, 5.0), NOBODY)  # longer than it takes to stop a site
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
    empty(str(tmp_path / "attempts"))
    async with machine(tmp_path) as site:
        assert await outcome(site, J1) == "finished"
    assert [mark for mark in marks(tmp_path) if mark.endswith("ended")] == ["j1.2 ended"]
    assert len(of(await all_events(tmp_path), AttemptLost)) == 1


@pytest.mark.asyncio
async def test_attempt_whose_records_are_gone_was_lost_and_not_a_launch_that_failed(
    tmp_path: Path,
) -> None:
    """Goal: what has started is never told to have never started, whoever tidied its folder."""
    async with at_work(config(tmp_path)) as site:
        await site.submit(marking(tmp_path, 0.2), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
    folder = tmp_path / "attempts/jobs/j1/1"
    await to_thread.run_sync(remove_ended, folder)
    async with machine(tmp_path) as site:
        assert await outcome(site, J1) == "finished"
    events = await all_events(tmp_path)
    assert of(events, LaunchFailed) == []
    assert [lost.cause for lost in of(events, AttemptLost)] == ["its records are gone"]
    assert (await verified(tmp_path)).divergence is None


@pytest.mark.asyncio
async def test_servers_follow_the_config_while_nothing_runs_on_them(tmp_path: Path) -> None:
    two = {"nodes": [{"name": "n0", "gpus": 2}, {"name": "n1", "gpus": 2}]}
    async with machine(tmp_path, cluster=two) as site:
        await outcome(site, await site.submit(program("pass", gpus=2), NOBODY))
    one = {"nodes": [{"name": "n1", "gpus": 2}, {"name": "n2", "gpus": 4}]}
    async with machine(tmp_path, cluster=one) as site:
        assert await outcome(site, await site.submit(program("pass", gpus=4), NOBODY)) == "finished"
    events = await all_events(tmp_path)
    assert [event.node for event in of(events, NodeRemoved)] == ["n0"]
    assert [event.node for event in of(events, NodeAdded)] == ["n0", "n1", "n2"]
    assert (await verified(tmp_path)).divergence is None


@pytest.mark.asyncio
async def test_server_with_jobs_is_not_taken_out(tmp_path: Path) -> None:
    async with at_work(config(tmp_path)) as site:
        await site.submit(program("import time; time.sleep(60)"), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
    other = {"nodes": [{"name": "n1", "gpus": 4}]}
    with pytest.raises(ConfigError, match="jobs run on n0"):
        async with open_site(config(tmp_path, cluster=other)):
            pass
    async with machine(tmp_path) as site:
        await site.tell(site.commands.cancel(J1, NOBODY))
        assert await outcome(site, J1) == "cancelled"


@pytest.mark.asyncio
async def test_policy_may_be_another_one_after_each_start(tmp_path: Path) -> None:
    """Goal: a policy takes over in mid-log, oracles too, and all is decided again alike."""
    names = ("fifo", "las", "srtf", "tiresias", "sjf", "ftf", "fifo_easy", "gittins")
    for name in names:
        section = {"name": name, "trigger": "event"}
        async with at_work(config(tmp_path, policy=section)) as site:
            for _ in range(6):
                await site.submit(program("import time; time.sleep(0.1)", gpus=2), NOBODY)
            await outcome(site, JobId(f"j{site.state.submitted - 4}"))
    async with machine(tmp_path) as site:
        await events_until(site, lambda _: not site.state.jobs)
        assert [str(outcome) for outcome in site.state.outcomes] == ["finished"]
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
    assert verdict.terms == len(names) + 1


@pytest.mark.asyncio
async def test_rounds_lie_on_their_grid(tmp_path: Path) -> None:
    section = {"trigger": "round", "round": "200ms", "name": "las"}
    for _ in range(2):
        async with at_work(config(tmp_path, policy=section)) as site:
            for _ in range(4):
                await site.submit(program("import time; time.sleep(0.1)", gpus=2), NOBODY)
            await events_until(site, lambda _: not site.state.jobs)
    assert (await verified(tmp_path)).divergence is None
    empty(str(tmp_path / "attempts"))


@pytest.mark.asyncio
async def test_long_log_is_sealed_and_still_tells_everything(tmp_path: Path) -> None:
    short = {"snapshot_every": 25, "seal_after": 60}
    loaded = config(tmp_path, log=short)
    for _ in range(2):
        async with at_work(loaded) as site:
            for _ in range(12):
                await outcome(site, await site.submit(program("pass"), NOBODY))
    async with at_work(loaded) as site:
        seqs: list[int] = []
        async for seq, _ in site.follow(0):
            seqs.append(seq)
            if seq == site.committed:
                break
        assert seqs == list(range(1, site.committed + 1))
        assert site.state.submitted == 24
    async with read_log(str(tmp_path / "log.db")) as reader:
        assert len(await reader.segments()) >= 2
        assert of([event async for event in reader.events()], SegmentSealed)
        await reader.verify(schema=True)
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
    assert verdict.snapshots >= 3
    empty(str(tmp_path / "attempts"))


@pytest.mark.asyncio
async def test_clock_that_went_back_between_two_terms_is_recorded_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine(tmp_path) as site:
        await outcome(site, await site.submit(program("pass"), NOBODY))
    monkeypatch.setattr(startup, "wall_now", lambda: wall_now() - timedelta(hours=1))
    async with machine(tmp_path) as site:
        assert await outcome(site, await site.submit(program("pass"), NOBODY)) == "finished"
    events = await all_events(tmp_path)
    (stepped,) = of(events, ClockStepped)
    assert -3_660_000_000 < stepped.by_us < -3_540_000_000
    instants = [event.at_us for event in events]
    assert instants == sorted(instants)
    assert (await verified(tmp_path)).divergence is None


@pytest.mark.asyncio
async def test_clocks_of_terms_go_by_the_wall_clock_however_long_a_start_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*words: Any, **settings: Any) -> Any:
        time.sleep(1.0)
        return policy_runtime(*words, **settings)

    monkeypatch.setattr(startup, "policy_runtime", slow)
    for _ in range(2):
        async with machine(tmp_path) as site:
            off = wall_now() - site.wall(site.now_us())
            assert abs(off) < timedelta(seconds=0.5)


def test_term_begins_after_the_log_even_if_the_clock_went_back() -> None:
    born_tomorrow = Identity("c", datetime.now(UTC) + timedelta(days=1))
    assert term_begin(History(born_tomorrow, State(seq=9, now_us=500)))[0] == 501
    born_yesterday = Identity("c", datetime.now(UTC) - timedelta(days=1))
    assert term_begin(History(born_yesterday, State(seq=9, now_us=500)))[0] >= 86_400_000_000


def test_of_old_snapshots_one_in_a_while_stays() -> None:
    seqs = [5_000 * number for number in range(1, 200)]
    gone = superseded(seqs)
    left = [seq for seq in seqs if seq not in gone]
    assert left == [5_000, 250_000, 500_000, 750_000, 990_000, 995_000]
    assert superseded(left) == []
