"""A host that lies: whatever it says, the channel closes, and nothing else does."""

import asyncio
import json
from typing import Any

import anyio
import pytest

from shunter.backends.live import NEVER, RpcChannel, UnreachedError, ran_on
from shunter.backends.node import (
    PROTOCOL,
    Claim,
    Command,
    Fence,
    Inventory,
    Look,
    Port,
    Question,
    Read,
    Send,
    SendAnswer,
)
from shunter.errors import BackendError

pytestmark = pytest.mark.asyncio

CLOCKS = {"now_ns": 1, "up_ns": 1}
GREETING = {**CLOCKS, "base": "/b", "boot": "b", "wall_s": 1.0, "python": [3, 8, 0], "uid": 0}
GREETING = {**GREETING, "protocol": PROTOCOL}
KNOWN = {**NEVER, "job": "j1", "attempt": 1, "folder": "/b/j1/1"}
STARTED = {"boot": "b", "started_ns": 1, "pid": 2, "placement": [], "ranks": [], "gpus": []}


QUESTIONS: dict[str, Question[Any]] = {
    "send": Send(job="j1", attempt=1, order=Command(do="suspend")),
    "port": Port(ports=(1,)),
    "read": Read(job="j1", attempt=1, name="stdout.0", offset=0, bytes=1),
    "claim": Claim(asked_ns=1, cluster="c", term=1, holder="h", node="n0", cgroup=""),
    "look": Look(asked_ns=1, watched=(), anew=(), is_all=True),
    "inventory": Inventory(),
    "fence": Fence(job="j1", attempt=1),
}


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


async def answer(rpc: RpcChannel, liar: Liar, do: str, said: Any) -> Any:
    """Ask, let the host say something, and return what comes of it."""
    news: list[Any] = []
    found: list[Any] = []

    async def ask() -> None:
        try:
            found.append(await rpc.ask(QUESTIONS[do], 5.0))
        except BackendError as error:
            found.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rpc.receive_all, news.append)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        liar.say(said)
    return found[0]


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("send", [1]),
        ("send", b"no JSON"),
        ("send", b"[" * 100_000),
        ("send", {"id": 1}),
        ("send", {"id": "1", **CLOCKS, "taken": True}),
        ("send", {"id": 1, "now_ns": "x", "up_ns": 1, "taken": True}),
        ("send", {"id": 1, "now_ns": 10**40, "up_ns": 1, "taken": True}),
        ("send", {"id": 1, **CLOCKS, "taken": "yes"}),
        ("port", {"id": 1, **CLOCKS, "port": 10**9}),
        ("read", {"id": 1, **CLOCKS, "data": "\u20ac", "size": 1}),
        ("read", {"id": 1, **CLOCKS, "data": "x", "size": -1}),
        ("claim", {"id": 1, **CLOCKS, "root": 7, "term": 1}),
        ("look", {"id": 1, **CLOCKS, "changed": 7, "samples": [], "gpus": None}),
        ("look", {"id": 1, **CLOCKS, "changed": [], "samples": [{}], "gpus": None}),
        ("look", {"id": 1, **CLOCKS, "changed": [], "samples": [], "gpus": [{"index": "x"}]}),
        ("inventory", {"id": 1, **CLOCKS, "attempts": [{**KNOWN, "job": "../x"}]}),
        ("inventory", {"id": 1, **CLOCKS, "attempts": [{**KNOWN, "state": "well"}]}),
        ("inventory", {"id": 1, **CLOCKS, "attempts": [{**KNOWN, "attempt": 0}]}),
        ("inventory", {"id": 1, **CLOCKS, "attempts": [{**KNOWN, "started": {"pid": 1}}]}),
        (
            "inventory",
            {"id": 1, **CLOCKS, "attempts": [{**KNOWN, "started": {**STARTED, "gpus": "0"}}]},
        ),
        ("fence", {"id": 1, **CLOCKS, "fenced": [{**KNOWN, "notes": [{"n": 1, "what": "saved"}]}]}),
        ("send", {"changed": [{**KNOWN, "status": {"code": "x"}}]}),
        ("send", {"changed": None}),
        ("send", {"other": 1}),
    ],
)
async def test_answer_of_a_wrong_shape_closes_the_channel(liar: Liar, do: str, said: Any) -> None:
    rpc = await talking(liar)
    found = await answer(rpc, liar, do, said)
    assert isinstance(found, UnreachedError)
    assert "said what is no answer" in str(found)
    str(found).encode()
    assert rpc.is_over


async def test_error_of_a_host_is_told_in_words_that_can_be_kept(
    liar: Liar,
) -> None:
    rpc = await talking(liar)
    found = await answer(rpc, liar, "send", {"id": 1, **CLOCKS, "error": "\ud800" * 10**6})
    assert isinstance(found, BackendError)
    assert len(str(found).encode()) < 2000


async def test_answer_of_its_shape_is_returned_without_what_nobody_asked_for(
    liar: Liar,
) -> None:
    rpc = await talking(liar)
    found = await answer(rpc, liar, "send", {"id": 1, **CLOCKS, "taken": True, "more": [1]})
    assert found == SendAnswer(**CLOCKS, taken=True)


@pytest.mark.parametrize(
    "greeting", [{}, {**GREETING, "up_ns": None}, [1], {**GREETING, "uid": -1}]
)
async def test_host_that_greets_as_nobody_is_not_reached(liar: Liar, greeting: Any) -> None:
    rpc = rpc_with(liar)
    liar.put(b"\nnonce " + json.dumps(greeting).encode())
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
