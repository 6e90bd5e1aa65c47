"""Multi-jobs on a real daemon: their view, priorities and end, and what does not exist."""

from collections.abc import Callable

import pytest

from shunter.client import Client
from shunter.errors import NotFoundError, UsageError
from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live

SLEEP = ["sleep", "60"]
HEADS = ("JOB", "NAME", "STATE", "PRIORITY", "WHERE", "GPU-S", "SHARE", "STEP", "OF")


def states(client: Client, group: str) -> dict[str, str]:
    (found,) = client.groups(group)["groups"]
    return {member["name"]: member["state"] for member in found["members"]}


def test_group_is_seen_given_a_priority_and_ended_as_a_whole(served: Served) -> None:
    """Five members on four GPUs; one ends, all get a priority, a restart, all end, twice."""
    with served.client() as client:
        ids = [client.submit(SLEEP, name=f"m{i}", group="a/b").id for i in range(5)]
        client.submit(SLEEP, name="alone")
        client.cancel(ids[0])
        awaited(lambda: states(client, "a/b")["m0"] == "cancelled")
        told = client.set_group_priority("a/b", 3)
        assert told["jobs"] == ids[1:]
        assert told["ended"] == 1
        (found,) = client.groups("a/b")["groups"]
        assert [member["priority"] for member in found["members"]] == [0, 3, 3, 3, 3]
        assert client.queue(group="a/b")["total"] == 4
        assert [one["group"] for one in client.groups()["groups"]] == ["a/b"]
        why = client.why(ids[1])["priority"]
        assert why["priority"] == 3
        assert "its group 'a/b' was given priority 3 at" in why["words"]
    served.end()
    served.start()
    with served.client() as client:
        assert [client.groups("a/b")["groups"][0]["members"][i]["id"] for i in range(5)] == ids
        assert client.cancel_group("a/b")["jobs"] == ids[1:]
        awaited(lambda: set(states(client, "a/b").values()) == {"cancelled"})
        again = client.cancel_group("a/b")
        assert (again["jobs"], again["ended"]) == ([], 5)
        (found,) = client.groups("a/b")["groups"]
        assert found["states"] == {"cancelled": 5}
        shares = [member["share"] for member in found["members"]]
        assert sum(shares) == pytest.approx(1)
        assert "with all of group 'a/b'" in client.why(ids[1])["headline"]
        events = client.events(kind="JobPriorityChanged,JobCancelRequested")["events"]
        assert [one.get("group", "") for one in events] == ["", *["a/b"] * 8]
        assert client.queue()["total"] == 1, "who is of no group goes on"
    served.end()
    verified = served.run("replay", str(served.root / "log.db"), "--verify")
    assert verified.returncode == 0, verified.stderr


def test_group_that_does_not_exist_is_an_error_that_says_so(shared: Served) -> None:
    with shared.client() as client:
        asks: list[Callable[[], object]] = [
            lambda: client.groups("none"),
            lambda: client.cancel_group("none"),
            lambda: client.set_group_priority("none", 1),
            lambda: client.queue(group="none"),
        ]
        for ask in asks:
            with pytest.raises(NotFoundError, match="there is no group 'none' of"):
                ask()
        client.submit(SLEEP, group="g").cancel()
        with pytest.raises(UsageError, match="priority"):
            client.set_group_priority("g", 10**9)


def test_command_line_shows_and_ends_a_group(shared: Served) -> None:
    assert shared.run("submit", "--group", "cli", "--", *SLEEP).returncode == 0
    assert shared.run("group", "priority", "cli", "-5").stdout == (
        "cli: 1 job has priority -5; 0 have ended before\n"
    )
    shown = shared.run("group", "show", "cli").stdout.splitlines()
    assert shown[0].split() == list(HEADS)
    assert "-5" in shown[1].split()
    assert "cli" in shared.run("group", "list").stdout
    assert "sleep" in shared.run("queue", "--group", "cli").stdout
    assert "1 job asked to end" in shared.run("group", "cancel", "cli").stdout
    missing = shared.run("group", "cancel", "absent")
    assert missing.returncode == 3
    assert "there is no group 'absent' of" in missing.stderr
