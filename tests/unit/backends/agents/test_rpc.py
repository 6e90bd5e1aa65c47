"""A host that lies: whatever it says, the channel closes, and nothing else does."""

import asyncio
import json
from typing import Any

import anyio
import pytest

from shunter.backends.live import RpcChannel, UnreachedError, ran_on
from shunter.backends.node import PROTOCOL, Command, Send, SendAnswer
from shunter.errors import BackendError

pytestmark = pytest.mark.asyncio

CLOCKS = {"now_ns": 1, "up_ns": 1}
GREETING = {**CLOCKS, "base": "/b", "boot": "b", "wall_s": 1.0, "python": [3, 8, 0], "uid": 0}
GREETING = {**GREETING, "protocol": PROTOCOL}
SUSPEND = Send(job="j1", attempt=1, order=Command(do="suspend"))


class Liar:
    """A process that reads questions, and answers what it likes."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()

    def say(self, line: Any) -> None:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.put(data)

    def put(self, data: bytes) -> None:
        self._said.put_nowait(data + b"\n")

    async def write(self, data: bytes) -> None:
        self.asked = json.loads(data)
        await anyio.lowlevel.checkpoint()

    async def read(self, most: int) -> bytes:
        return await self._said.get()


@pytest.fixture
def liar() -> Liar:
    return Liar()


def rpc_with(liar: Liar) -> RpcChannel:
    return RpcChannel("n0", liar)  # type: ignore[arg-type]  # it acts as a process


async def talking(liar: Liar) -> RpcChannel:
    found = rpc_with(liar)
    liar.put(b"\nnonce " + json.dumps(GREETING).encode())
    await found.read_greeting("nonce")
    return found


async def answer(rpc: RpcChannel, liar: Liar, said: Any) -> Any:
    """Ask, let the host say something, and return what comes of it."""
    found: list[Any] = []

    async def ask() -> None:
        try:
            found.append(await rpc.ask(SUSPEND, 5.0))
        except BackendError as error:
            found.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rpc.receive_all, lambda _: None)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        liar.say(said)
    return found[0]


@pytest.mark.parametrize(
    "said",
    [
        b"[" * 100_000,
        {"id": "1", **CLOCKS, "taken": True},
        {"id": 1, **CLOCKS, "taken": "yes"},
        {"changed": [{"job": "../x"}]},
    ],
    ids=["no JSON", "no number", "no answer", "no news"],
)
async def test_answer_of_a_wrong_shape_closes_the_channel(liar: Liar, said: Any) -> None:
    rpc = await talking(liar)
    found = await answer(rpc, liar, said)
    assert isinstance(found, UnreachedError)
    assert "said what is no answer" in str(found)
    assert rpc.is_over


async def test_answer_and_error_of_a_host_are_those_of_the_question(liar: Liar) -> None:
    rpc = await talking(liar)
    said = {"id": 1, **CLOCKS, "taken": True}
    assert await answer(rpc, liar, said) == SendAnswer(**CLOCKS, taken=True)
    found = await answer(rpc, liar, {"id": 2, **CLOCKS, "error": "\ud800" * 10**6})
    assert isinstance(found, BackendError)
    assert len(str(found).encode()) < 2000


async def test_host_that_greets_as_nobody_is_not_reached(liar: Liar) -> None:
    rpc = rpc_with(liar)
    liar.put(b"\nnonce {}")
    with pytest.raises(UnreachedError, match="greets as nobody"):
        await rpc.read_greeting("nonce")


class Gone:
    """A connection on which whatever is run has ended before it reads anything."""

    def __init__(self) -> None:
        self.stdin, self.exit_status = self, 127
        self.stdout, self.stderr = asyncio.StreamReader(), asyncio.StreamReader()
        self.stderr.feed_data(b"sh: 1: python-of-nowhere: not found")
        self.stdout.feed_eof()
        self.stderr.feed_eof()

    async def create_process(self, command: str, encoding: None) -> "Gone":
        return self

    def write(self, data: bytes) -> None:
        raise BrokenPipeError("Channel not open for sending")

    async def wait_closed(self) -> None:
        pass

    def close(self) -> None:
        pass


async def test_command_that_ends_unread_says_itself_why() -> None:
    gone: Any = Gone()
    status, out, err = await ran_on(gone, "python-of-nowhere", b"a program", most=100)
    assert (status, out) == (127, b"")
    assert b"not found" in err
