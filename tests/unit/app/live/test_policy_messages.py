"""What passes between a daemon and the process of its policy, also when one of them dies."""

import socket
import struct
from typing import get_args

from shunter.core import (
    Change,
    Judge,
    Move,
    Pack,
    Plan,
    Rehome,
    Reshape,
    Resize,
    Start,
    Suspend,
    Try,
)
from shunter.events import (
    Batch,
    Because,
    ChangeKey,
    GpuType,
    JobId,
    Size,
    SizesSet,
    TrialKind,
    TrialReason,
)
from shunter.policy_process import HEADER, plan_of, receive, targets_bytes, targets_of, wire_plan
from tests.factories import allocation


def test_plan_from_the_process_of_a_policy_is_to_be_approved_whatever_it_says() -> None:
    plan = Plan((Suspend(JobId("j1"), Because("outranked")),), is_drafted=True)
    assert plan_of(wire_plan(plan)) == Plan(plan.changes)


def test_answer_from_the_process_of_a_policy_comes_as_it_was() -> None:
    solved = SizesSet(7, (Size(JobId("j1"), 3000, 5),), 1.5, 2.0)
    assert targets_of(targets_bytes(solved)) == solved
    assert targets_of(targets_bytes(None)) is None


def test_changes_of_every_kind_come_back_as_they_were_sent() -> None:
    because, there = Because("fifo", (1.5,), (JobId("j2"),)), allocation(n0=0b11)
    changes: dict[type, Change] = {
        Start: Start(JobId("j1"), there, because),
        Suspend: Suspend(JobId("j1"), because),
        Move: Move(JobId("j1"), there, because),
        Pack: Pack(JobId("j1"), there, because),
        Reshape: Reshape(JobId("j1"), there, because),
        Rehome: Rehome(JobId("j1"), there, because),
        Resize: Resize(JobId("j1"), there, because),
    }
    assert set(changes) == set(get_args(Change))
    key = ChangeKey("pack", ("x", "y"), GpuType("v100"))
    batches = (Batch(JobId("j1"), 5), Batch(JobId("j2"), 6))
    tried = Try(JobId("j1"), TrialKind.pack, (JobId("j2"),), key, 1_000_000, batches)
    judged = Judge(JobId("j3"), TrialReason.room, 0, ())
    plan = Plan(tuple(changes.values()), trials=(tried, judged))
    assert plan_of(wire_plan(plan)) == plan


def test_daemon_that_goes_in_mid_message_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(HEADER.pack(100) + b"half of it")
        theirs.close()
        assert receive(ours) is None


def test_daemon_that_was_killed_before_it_had_read_all_is_gone() -> None:
    """Its end of the connection is reset then, which is no less of an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert receive(ours) is None
