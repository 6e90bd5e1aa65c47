"""Following a daemon: the stream goes on where one left it, whoever else listens."""

import resource
import socket
from contextlib import ExitStack
from itertools import islice

import httpx
import pytest

from tests.live.api.serving import PATIENCE_S, Served, awaited

pytestmark = pytest.mark.live

IDLE = 1_000


def test_stream_repeats_the_log_from_a_number_on(served: Served) -> None:
    with served.client() as client:
        client.submit(["true"]).result(PATIENCE_S)
        told = client.events(after=2)["events"]
        followed = list(islice(client.stream(after=2), len(told)))
    assert [one.fields for one in followed] == told
    assert [one.seq for one in followed] == [event["seq"] for event in told]


def test_last_event_id_goes_before_the_query(served: Served) -> None:
    with served.http() as http:
        headers = {"Last-Event-ID": "1"}
        with http.stream("GET", "/api/v1/stream?after=0", headers=headers) as response:
            lines = response.iter_lines()
            assert next(line for line in lines if line.startswith("id:")) == "id: 2"


def test_stream_of_one_job_tells_its_events_only(served: Served) -> None:
    with served.client() as client:
        stream = client.stream(after=0, job="j2", kind="JobSubmitted,JobFinished")
        client.submit(["true"]).result(PATIENCE_S)
        client.submit(["true"]).result(PATIENCE_S)
        found = [(one.kind, one.fields["job_id"]) for one in islice(stream, 2)]
    assert found == [("JobSubmitted", "j2"), ("JobFinished", "j2")]


def test_follower_hears_what_comes_after_it_began(served: Served) -> None:
    with (
        served.client() as client,
        served.http(timeout=30) as http,
        http.stream("GET", "/api/v1/stream") as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        job = client.submit(["true"])
        seen = next(line for line in lines if line.startswith("data:"))
    assert f'"job_id":"{job.id}"' in seen


def test_thousand_idle_followers_keep_nobody_waiting(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * IDLE:
        pytest.skip(f"open files are limited to {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * IDLE), hard))
    request = b"GET /api/v1/stream HTTP/1.1\r\nHost: shunter\r\n\r\n"
    with ExitStack() as held, served.client() as client:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        idle = held.enter_context(socket.socket(socket.AF_UNIX))
        idle.connect(f"{served.root}/s")
        idle.sendall(request)
        for _ in range(IDLE - 1):
            other = held.enter_context(socket.socket(socket.AF_UNIX))
            other.connect(f"{served.root}/s")
            other.sendall(request)
        awaited(lambda: followers(served) == IDLE)
        job = client.submit(["echo", "hello"])
        assert job.result(PATIENCE_S) == 0
        assert b"".join(job.logs()) == b"hello\n"
        assert f"id: {client.events()['head']}\n".encode() in heard(idle)
    awaited(lambda: followers(served) == 0)


def test_daemon_that_stops_ends_its_streams(served: Served) -> None:
    with served.http(timeout=30) as http, http.stream("GET", "/api/v1/stream") as response:
        lines = response.iter_lines()
        next(lines)
        assert served.end() == 0
        kinds = [line for line in lines if line.startswith("event:")]
    assert kinds == ["event: SchedulerStopped"]


def followers(served: Served) -> int:
    with served.http() as http:
        page: httpx.Response = http.get("/metrics")
    line = next(
        line for line in page.text.splitlines() if line.startswith("shunter_stream_followers ")
    )
    return int(float(line.split()[1]))


def heard(idle: socket.socket) -> bytes:
    """Return all that an idle follower was sent, as soon as its job's end is in it."""
    idle.settimeout(30)
    found = b""
    while b"JobFinished" not in found:
        found += idle.recv(65_536)
    return found
