"""What passes between a daemon and the process of its policy, also when one of them dies."""

import socket
import struct

from shunter.app.live.policy.messages import HEADER, plan_of, receive, wire_plan
from shunter.core.planning.plan import Plan, Suspend
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Because


def test_plan_from_the_process_of_a_policy_is_to_be_approved_whatever_it_says() -> None:
    plan = Plan((Suspend(JobId("j1"), Because("outranked")),), is_drafted=True)
    assert plan_of(wire_plan(plan)) == Plan(plan.changes)


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
