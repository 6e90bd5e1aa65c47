"""What people may do to a running cluster, on real processes."""

import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from shunter.daemon import Caller, Site, Submission
from shunter.errors import BackendError, NotFoundError, RefusedError, UsageError
from shunter.events import (
    AttemptStarted,
    Dependency,
    DependsWhen,
    Event,
    GpusReleased,
    GpuType,
    JobContinued,
    JobFailed,
    JobId,
    JobSpec,
    JobStopped,
    JobSubmitted,
    JobSuspended,
    NodeName,
    SuspendEscalated,
    SuspendMode,
    TimeLimitReached,
)
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.live.site.sites import (
    NOBODY,
    at_work,
    config,
    events_until,
    machine,
    of,
    outcome,
    program,
    verified,
    wait_for,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

SLEEPS = "import time; time.sleep(60)"
# Works in steps of 10 ms up to a number, saves when it is asked to leave, goes on from there.
STEPS = """
import os, sys, time
path, most = os.environ["SHUNTER_CHECKPOINT_DIR"] + "/step", int(sys.argv[1])
done = int(open(path).read()) if os.path.exists(path) else 0
while done < most:
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        open(path, "w").write(str(done))
        sys.exit(75)
    time.sleep(0.01)
    done += 1
    print(done, flush=True)
"""
ADMIN = Caller("root", None, is_admin=True)
STRANGER = Caller("somebody", None)
N0 = NodeName("n0")


STEPS_TO_DO = 300
"""Some seconds: a busy machine must find the job at work."""


def steps(count: int) -> Submission:
    return program(STEPS, str(count))


def begins(job_id: JobId, attempt: int = 1) -> Callable[[list[Event]], bool]:
    def has_begun(seen: list[Event]) -> bool:
        found = [(one.job_id, one.attempt) for one in of(seen, AttemptStarted)]
        return (job_id, attempt) in found

    return has_begun


async def runs(site: Site, request: Submission) -> JobId:
    """Submit a job and wait until it runs."""
    job_id = await site.submit(request, NOBODY)
    await events_until(site, begins(job_id))
    return job_id


async def test_suspended_job_leaves_its_gpus_and_stays_away_until_it_is_resumed(
    tmp_path: Path,
) -> None:
    async with machine(tmp_path) as site:
        job_id = await runs(site, steps(STEPS_TO_DO))
        await site.tell(site.commands.suspend(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, GpusReleased)))
        assert len(of(seen, JobSuspended)) == 1
        assert site.state.jobs[job_id].is_on_hold
        assert not site.state.cluster.servers[N0].held
        await site.tell(site.commands.resume(job_id, NOBODY))
        assert await outcome(site, job_id) == "finished"
    printed = [(tmp_path / f"attempts/jobs/j1/{n}/stdout.0").read_text() for n in (1, 2)]
    assert "".join(printed).split() == [str(number) for number in range(1, STEPS_TO_DO + 1)]
    assert (await verified(tmp_path)).divergence is None


async def test_job_that_waits_for_gpus_and_is_suspended_does_not_get_them(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        first = await runs(site, program(SLEEPS, gpus=4))
        waiting = await site.submit(program("pass"), NOBODY)
        await site.tell(site.commands.suspend(waiting, NOBODY))
        await site.tell(site.commands.cancel(first, NOBODY))
        assert await outcome(site, first) == "cancelled"
        last = await site.submit(program("pass"), NOBODY)
        assert await outcome(site, last) == "finished"
        assert site.state.jobs[waiting].attempt == 0


async def test_job_of_mode_never_is_not_suspended_while_it_runs(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await runs(site, program(SLEEPS, suspend_mode=SuspendMode.never))
        with pytest.raises(RefusedError, match="suspend mode 'never'"):
            await site.tell(site.commands.suspend(job_id, NOBODY))


COUNTS = """
import itertools, time
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.01)
"""


async def test_job_of_mode_stop_stands_still_on_its_gpus_until_it_is_resumed(
    tmp_path: Path,
) -> None:
    """Goal: it keeps its GPUs and loses nothing, also where a scheduler starts in between."""
    loaded = config(tmp_path)
    try:
        async with at_work(loaded) as site:
            job_id = await runs(site, program(COUNTS, gpus=4, suspend_mode=SuspendMode.stop))
            await site.tell(site.commands.suspend(job_id, NOBODY))
            await events_until(site, lambda seen: bool(of(seen, JobStopped)))
            stopped_at = await size_of(site, job_id)
            other = await site.submit(program("pass"), NOBODY)
            work_us = site.state.jobs[job_id].done_us(site.now_us())
        async with at_work(loaded) as site:
            assert site.state.jobs[other].attempt == 0
            assert site.state.jobs[job_id].done_us(site.now_us()) == work_us
            assert await size_of(site, job_id) == stopped_at
            await site.tell(site.commands.resume(job_id, NOBODY))
            await events_until(site, lambda seen: bool(of(seen, JobContinued)))
            await to_thread.run_sync(
                wait_for, lambda: output_of(tmp_path).stat().st_size > stopped_at
            )
            await site.tell(site.commands.cancel(job_id, NOBODY))
            assert await outcome(site, job_id) == "cancelled"
            assert await outcome(site, other) == "finished"
    finally:
        empty(str(tmp_path / "attempts"))
    numbers = [int(line) for line in output_of(tmp_path).read_text().splitlines()]
    assert numbers == list(range(len(numbers)))
    assert (await verified(tmp_path)).divergence is None


async def test_job_of_mode_stop_that_must_make_room_leaves_by_the_next_stronger_mode(
    tmp_path: Path,
) -> None:
    guards = {"policy": {"name": "las", "trigger": "event"}}
    async with machine(tmp_path, **guards) as site:
        job_id = await runs(site, program(COUNTS, gpus=4, suspend_mode=SuspendMode.stop))
        other = await site.submit(program("pass", priority=9, gpus=4), NOBODY)
        assert await outcome(site, other) == "finished"
        seen = await events_until(site, begins(job_id, attempt=2))
        assert [one.mode for one in of(seen, SuspendEscalated)] == [SuspendMode.restart]
        await site.tell(site.commands.cancel(job_id, NOBODY))
        assert await outcome(site, job_id) == "cancelled"


def output_of(root: Path) -> Path:
    return root / "attempts/jobs/j1/1/stdout.0"


async def size_of(site: Site, job_id: JobId) -> int:
    """Return how much a job has printed, once and for all if it stands still."""
    _, size = await site.read_output(job_id, 1, "stdout.0", 0, 1)
    await anyio.sleep(0.1)
    _, later = await site.read_output(job_id, 1, "stdout.0", 0, 1)
    assert size == later
    return later or 0


async def test_strangers_may_change_nothing_and_admins_may(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await runs(site, program(SLEEPS))
        for order in (site.commands.cancel, site.commands.suspend, site.commands.resume):
            with pytest.raises(RefusedError, match="somebody is no admin"):
                order(job_id, STRANGER)
        with pytest.raises(RefusedError, match="only admins may drain"):
            await site.tell(site.commands.drain(N0, STRANGER))
        await site.tell(site.commands.set_priority(job_id, 7, ADMIN))
        assert site.state.jobs[job_id].priority == 7
        await site.tell(site.commands.cancel(job_id, ADMIN))
        assert await outcome(site, job_id) == "cancelled"


async def test_job_that_is_gone_is_refused_and_one_that_never_was_not_found(
    tmp_path: Path,
) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(program("pass"), NOBODY)
        await outcome(site, job_id)
        with pytest.raises(RefusedError, match="has ended already: finished"):
            await site.tell(site.commands.cancel(job_id, NOBODY))
        with pytest.raises(NotFoundError, match="there is no job j9"):
            await site.tell(site.commands.cancel(JobId("j9"), NOBODY))
        with pytest.raises(NotFoundError, match="no job j9 to wait for"):
            await site.submit(program("pass", depends_on=(Dependency(JobId("j9")),)), NOBODY)
        with pytest.raises(NotFoundError, match="there is no node n9"):
            await site.tell(site.commands.drain(NodeName("n9"), ADMIN))


async def test_drained_server_takes_no_job_until_it_is_restored(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        running = await runs(site, steps(20))
        await site.tell(site.commands.drain(N0, ADMIN))
        waiting = await site.submit(program("pass"), NOBODY)
        assert await outcome(site, running) == "finished"
        assert site.state.jobs[waiting].attempt == 0
        await site.tell(site.commands.restore(N0, ADMIN))
        assert await outcome(site, waiting) == "finished"
        with pytest.raises(RefusedError, match="not drained"):
            await site.tell(site.commands.restore(N0, ADMIN))


async def test_dependants_follow_the_end_they_wait_for(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        failing = await site.submit(
            program("import time; time.sleep(0.3); raise SystemExit(3)"), NOBODY
        )
        after_ok = await site.submit(program("pass", depends_on=(Dependency(failing),)), NOBODY)
        after_any = await site.submit(
            program("pass", depends_on=(Dependency(failing, DependsWhen.any),)), NOBODY
        )
        assert await outcome(site, after_any) == "finished"
        assert await outcome(site, after_ok) == "cancelled"
        assert await outcome(site, failing) == "failed"


async def test_memory_that_can_never_fit_is_not_told_as_too_few_gpus(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        with pytest.raises(RefusedError) as refused:
            await site.submit(program("pass", memory_mb=2_000_000_000), NOBODY)
        told = str(refused.value)
        assert "infeasible: it needs 1 GPU with 2000000000 MB of memory, and no server" in told
        assert "at most 4" not in told


async def test_quota_and_users_of_a_queue_hold(tmp_path: Path) -> None:
    queues = {"small": {"quota_gpus": 1}, "closed": {"users": ["ann"]}}
    queues["default"] = {"quota_gpus": 0}  # it is there unless it is turned off
    async with machine(tmp_path, queues=queues) as site:
        first = await runs(site, program(SLEEPS, queue="small"))
        second = await site.submit(program("pass", queue="small"), NOBODY)
        with pytest.raises(RefusedError, match="there is no queue 'default': use small, closed"):
            await site.submit(program("pass"), NOBODY)
        with pytest.raises(RefusedError, match="may not use queue closed"):
            await site.submit(program("pass", queue="closed"), NOBODY)
        with pytest.raises(
            RefusedError, match=r"needs 2 GPUs, and there are 1 \(the quota of queue small"
        ):
            await site.submit(program("pass", queue="small", gpus=2), NOBODY)
        assert site.state.jobs[second].attempt == 0
        await site.tell(site.commands.cancel(first, NOBODY))
        assert await outcome(site, second) == "finished"


async def test_gang_that_could_have_instances_of_mig_alone_is_refused_with_what_to_ask_for(
    tmp_path: Path,
) -> None:
    node = {"name": "n0", "gpus": 4, "type": "a100_1g.10gb"}
    async with machine(tmp_path, cluster={"nodes": [node]}) as site:
        for types in ((), (GpuType("a100_1g.10gb"),)):
            with pytest.raises(RefusedError) as refused:
                await site.submit(program("pass", gpus=2, gpu_types=types), NOBODY)
            assert str(refused.value) == (
                "a100_1g.10gb are MIG instances, of which a program can use one: ask for one GPU, "
                "or name a type of whole GPUs"
            )
        job_id = await site.submit(program("pass", gpus=1), NOBODY)
        assert (job_id, await outcome(site, job_id)) == ("j1", "finished")
    await verified(tmp_path)


async def test_job_that_names_no_queue_runs_beside_queues_that_the_config_names(
    tmp_path: Path,
) -> None:
    async with machine(tmp_path, queues={"research": {"quota_gpus": 2}}) as site:
        assert await outcome(site, await site.submit(program("pass"), NOBODY)) == "finished"
        with pytest.raises(RefusedError, match="no queue 'fast': use research, default"):
            await site.submit(program("pass", queue="fast"), NOBODY)


async def test_job_that_outlasts_its_limit_is_ended_even_if_it_ignores_it(tmp_path: Path) -> None:
    ignores = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    async with machine(tmp_path) as site:
        job_id = await site.submit(program(ignores, time_limit_us=500_000), NOBODY)
        assert await outcome(site, job_id) == "timeout"
        seen = await events_until(site, lambda seen: bool(of(seen, JobFailed)))
    assert len(of(seen, TimeLimitReached)) == 1
    assert of(seen, JobFailed)[0].cause == "timeout"


async def test_key_makes_one_job_of_many_submissions_in_all_terms(tmp_path: Path) -> None:
    marks = program("print('ran', flush=True)", key="nightly 7")
    loaded = config(tmp_path)
    async with at_work(loaded) as site:
        found: list[JobId] = []

        async def submit() -> None:
            found.append(await site.submit(marks, NOBODY))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(submit)
        assert len(set(found)) == 1
        assert await outcome(site, found[0]) == "finished"
    async with at_work(loaded) as site:
        assert await site.submit(marks, NOBODY) == found[0]
        assert await site.submit(marks, STRANGER) != found[0]
        assert site.state.submitted == 2
    empty(str(tmp_path / "attempts"))


async def test_ids_are_never_used_again(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    ids: list[JobId] = []
    for _ in range(3):
        async with at_work(loaded) as site:
            ids += [await site.submit(program("pass", key=key), NOBODY) for key in ("a", "a", "")]
    numbers = [int(job_id[1:]) for job_id in dict.fromkeys(ids)]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 4
    empty(str(tmp_path / "attempts"))


async def test_environment_reaches_the_job_and_no_log(tmp_path: Path) -> None:
    secret = "correct horse battery"
    look = program(
        "import os, time; print(os.environ['TOKEN'], flush=True); time.sleep(0.3)",
        environment={"TOKEN": secret},
    )
    kept = tmp_path / "attempts/jobs/j1/environment.json"
    async with machine(tmp_path) as site:
        job_id = await site.submit(look, NOBODY)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "log.db").stat().st_mode) == 0o600
        assert await outcome(site, job_id) == "finished"
        await to_thread.run_sync(wait_for, lambda: not kept.exists())
        output, size = await site.read_output(job_id, 1, "stdout.0", 8, 5)
        assert (output, size) == (b"horse", len(secret) + 1)
    assert secret.encode() not in bytes_of_log(tmp_path)


async def test_log_holds_names_and_keyed_digests_of_what_a_job_was_given(tmp_path: Path) -> None:
    """Method: the same values again in a later term, another one, and another cluster's key."""
    given = [{"TOKEN": "horse", "B": ""}, {"B": "", "TOKEN": "horse"}, {"TOKEN": "cow"}]
    for environment in given:
        async with machine(tmp_path) as site:
            await site.submit(program("pass", environment=environment), NOBODY)
    other = tmp_path / "other"
    other.mkdir()
    async with machine(other) as site:
        await site.submit(program("pass", environment=given[0]), NOBODY)
    first, second, third = [dict(one.environment) for one in await submissions(tmp_path)]
    [elsewhere] = [dict(one.environment) for one in await submissions(other)]
    assert list(first) == ["B", "TOKEN"]
    assert first == second
    assert first["TOKEN"] != third["TOKEN"]
    assert not set(first.values()) & set(elsewhere.values())
    key = tmp_path / "attempts/environment.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_bytes() not in bytes_of_log(tmp_path)


async def submissions(root: Path) -> list[JobSubmitted]:
    async with read_log(str(root / "log.db")) as reader:
        return of([event async for event in reader.events()], JobSubmitted)


async def test_damaged_key_of_digests_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts/environment.key").write_text("no key")
    with pytest.raises(BackendError, match=r"environment\.key is damaged: expected 64 hex"):
        async with at_work(config(tmp_path)):
            pass


async def test_secret_in_a_command_stands_in_no_file_that_others_can_read(tmp_path: Path) -> None:
    secret = "correct horse battery"
    spec = JobSpec(command=("sh", "-c", "exec sleep 60", "{secret:TOKEN}"))
    job = Submission(spec, environment={"TOKEN": secret})
    async with machine(tmp_path) as site:
        await runs(site, job)
        assert files_holding(tmp_path, secret.encode()) == ["environment.json"]


def files_holding(root: Path, text: bytes) -> list[str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path.name for path in files if text in path.read_bytes()]


async def test_log_that_others_could_read_is_closed_unless_the_operator_opens_it(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.db"
    async with machine(tmp_path, log={"mode": "0640"}):
        assert modes_of(log) == {0o640}
    async with machine(tmp_path):
        assert modes_of(log) == {0o600}


def modes_of(log: Path) -> set[int]:
    """Return the modes of a log and of the files that SQLite keeps beside it."""
    files = [log, *(log.with_name(log.name + side) for side in ("-wal", "-shm"))]
    return {stat.S_IMODE(path.stat().st_mode) for path in files}


def bytes_of_log(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.glob("log.db*")))


async def test_output_is_named_by_numbers_only(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(program("pass"), NOBODY)
        await outcome(site, job_id)
        for name in ("../started", "stdout.0/../../x", "status", "stdout.", "stdout.-1"):
            with pytest.raises(NotFoundError, match="is no output"):
                await site.read_output(job_id, 1, name, 0, 10)
        assert await site.read_output(job_id, 5, "stdout.0", 0, 10) == (b"", None)


async def test_job_that_cannot_be_is_refused_before_it_is_one(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        wrong = [
            program("pass", gpus=-1),
            program("pass", priority=1 << 40),
            program("pass", name="two\nlines"),
            Submission(JobSpec()),
            Submission(JobSpec(command=("a\0b",))),
        ]
        for request in wrong:
            with pytest.raises(UsageError):
                await site.submit(request, NOBODY)
        assert site.state.submitted == 0
