"""The asynchronous client against a real daemon: the same as the synchronous one, awaited."""

from collections.abc import AsyncIterator
from concurrent.futures import CancelledError

import anyio
import pytest
import pytest_asyncio

from shunter.client import AsyncClient, AsyncJobHandle
from shunter.errors import JobFailedError, NotFoundError, RefusedError, UsageError
from tests.live.api.serving import PATIENCE_S, Served

pytestmark = [pytest.mark.live, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def client(shared: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(shared.url) as client:
        yield client


async def test_many_jobs_are_awaited_side_by_side(client: AsyncClient) -> None:
    program = "echo $SHUNTER_ARRAY_INDEX; exit $SHUNTER_ARRAY_INDEX"
    jobs = await client.submit_array(["sh", "-c", program], array=(0, 3, 1, None))
    ends: dict[int, int] = {}

    async def end(index: int, job: AsyncJobHandle[int]) -> None:
        failed = await job.exception(60)
        ends[index] = failed.exit_status or -1 if isinstance(failed, JobFailedError) else 0

    async with anyio.create_task_group() as tasks:
        for index, job in enumerate(jobs):
            tasks.start_soon(end, index, job)
    assert ends == {0: 0, 1: 1, 2: 2, 3: 3}


async def test_output_is_followed_to_the_end(client: AsyncClient) -> None:
    job = await client.submit(["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"])
    pieces = [piece async for piece in job.logs(follow=True)]
    assert b"".join(pieces) == b"1\n2\n3\n"
    assert await job.result(PATIENCE_S) == 0


async def test_stream_ends_where_one_stops_to_listen(client: AsyncClient) -> None:
    job = await client.submit(["true"])
    await job.wait(30)
    kinds = []
    async for followed in client.stream(after=0, job=job.id):
        kinds.append(followed.kind)
        if followed.kind == "JobFinished":
            break
    assert kinds[0] == "JobSubmitted"
    assert "AttemptStarted" in kinds


async def test_cancelled_job_is_cancelled_once(client: AsyncClient) -> None:
    job = await client.submit(["sleep", "60"])
    with pytest.raises(TimeoutError):
        await job.result(0.2)
    assert await job.cancel()
    with pytest.raises(CancelledError):
        await job.result(PATIENCE_S)
    assert (await job.cancel(), await job.done(), await job.state()) == (False, True, "cancelled")


async def test_errors_are_those_of_the_daemon(client: AsyncClient) -> None:
    with pytest.raises(NotFoundError):
        await client.job("j999")
    with pytest.raises(UsageError):
        await client.submit([])
    with pytest.raises(RefusedError):
        await client.submit(["true"], gpus=99)
    failed = await client.submit(["sh", "-c", "exit 9"])
    with pytest.raises(JobFailedError) as caught:
        await failed.result(PATIENCE_S)
    assert caught.value.exit_status == 9


async def test_cluster_is_looked_at_and_steered(client: AsyncClient) -> None:
    assert (await client.daemon())["policy"] == "fifo"
    job = await client.submit(["sleep", "60"], suspend_mode="restart")
    await client.set_priority(job.id, 4)
    await client.suspend(job.id)
    await client.resume(job.id)
    assert job.id in [row["id"] for row in (await client.queue(user="me"))["jobs"]]
    assert (await client.why(job.id))["job"]["id"] == job.id
    await client.cancel(job.id)
    await job.wait(30)
    assert (await client.history(limit=1))["jobs"][0]["id"] == job.id
    await client.drain("n0")
    assert (await client.nodes())["nodes"][0]["state"] == "drained"
    await client.restore("n0")
    seq = (await client.events(job=job.id, kind="JobSubmitted"))["events"][0]["seq"]
    assert (await client.state(at=f"e{seq}"))["seq"] == seq
    assert (await client.decision((await client.state())["seq"]))["policy"] == "fifo"
