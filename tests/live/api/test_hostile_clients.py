"""Clients that send nonsense, leave in the middle, never read, or say nothing at all.

None of them makes the daemon fail, fill its output, or keep others waiting.
"""

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live

READERS = 1000
MEDIA = "application/problem+json"


@contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    """Connect to the daemon's socket, and to nothing cleverer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(f"{served.root}/s")
        yield connection


def head(path: str, *lines: str, method: str = "GET", host: str = "localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def raw_status(served: Served, request: bytes) -> int:
    """Send bytes and return the status of the answer; 0: the connection was cut."""
    with connected(served) as connection:
        connection.sendall(request)
        answer = connection.recv(65536)
    return int(answer.split()[1]) if answer else 0


def open_files(served: Served) -> int:
    assert served.process is not None
    return len(sorted(Path(f"/proc/{served.process.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/v1/jobs", {"Origin": "http://[x"}, 403),
        ("/api/v1/jobs", {"Host": "evil.com@localhost"}, 403),
        ("/api/v1/jobs", {"Host": "localhost/x"}, 403),
        ("/api/v1/jobs", {"Host": "[::1"}, 403),
        ("/api/v1/decisions/" + "9" * 5000, {}, 400),
        ("/api/v1/decisions/" + "٣" * 20, {}, 400),
        ("/api/v1/stream", {"Last-Event-ID": "9" * 5000}, 400),
        ("/api/v1/stream", {"Last-Event-ID": "-1"}, 400),
        ("/api/v1/state?at=T%2B" + "9" * 5000 + ":00:00", {}, 400),
        ("/api/v1/state?at=" + "9" * 5000, {}, 400),
        ("/api/v1/state?at=" + "9" * 5000 + "s", {}, 400),
        ("/api/v1/events?after=" + "9" * 5000, {}, 400),
    ],
)
def test_nonsense_is_refused_with_a_problem(
    shared: Served, path: str, headers: dict[str, str], status: int
) -> None:
    with shared.http() as http:
        response = http.get(path, headers=headers)
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"] == MEDIA
    found = response.json()
    assert (found["type"], found["status"]) == ("about:blank", status)
    assert found["detail"]
    assert len(response.content) < 2000


def test_length_of_thousands_of_digits_is_too_long(shared: Served) -> None:
    request = head("/api/v1/jobs", "Content-Length: " + "9" * 5000, method="POST")
    assert raw_status(shared, request) in (400, 413)


def test_wrong_method_is_told_the_right_ones(shared: Served) -> None:
    with shared.http() as http:
        found = {path: http.delete(path) for path in ("/api/v1/jobs", "/healthz")}
    assert [each.status_code for each in found.values()] == [405, 405]
    allowed = {path: set(each.headers["allow"].split(", ")) for path, each in found.items()}
    assert allowed == {"/api/v1/jobs": {"GET", "HEAD", "POST"}, "/healthz": {"GET", "HEAD"}}
    assert all(each.json()["code"] == "not_allowed" for each in found.values())


def test_key_used_again_for_another_job_is_a_conflict(served: Served) -> None:
    def post(key: str, **more: Any) -> httpx.Response:
        with served.http() as http:
            body = {"command": ["true"], "gpus": 1, **more}
            return http.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": key})

    first = post("k")
    assert first.status_code == 201
    job_id = first.json()["id"]
    assert post("k").json()["id"] == job_id
    for more in ({"gpus": 2}, {"command": ["false"]}, {"environment": {"A": "1"}}):
        again = post("k", **more)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        assert job_id in again.json()["detail"]
    served.handle(job_id).wait(60)
    assert post("k", gpus=2).status_code == 409, "also of a job that has ended"
    assert post("k").json()["id"] == job_id


def test_clients_that_leave_or_speak_no_http_leave_no_trace_in_the_output(
    served: Served,
) -> None:
    before = len(served.said().splitlines())
    for _ in range(50):
        with connected(served) as connection:
            lines = ("Content-Type: application/json", "Content-Length: 1000")
            connection.sendall(head("/api/v1/jobs", *lines, method="POST") + b'{"command"')
    for request in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        head("/healthz", "Content-Length: 5", "Content-Length: 6"),
        head("/healthz", "Transfer-Encoding: chunked", method="POST") + b"zz\r\n",
    ):
        for _ in range(20):
            assert raw_status(served, request) in (0, 400, 403, 405, 505)
    with served.http() as http:
        assert http.get("/healthz").status_code == 200
    said = served.said()
    assert "Traceback" not in said
    assert len(said.splitlines()) - before <= 3, said


def test_thousand_readers_that_never_read_keep_nobody_waiting(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with served.client() as client:
        client.submit_array(["true"], array=(0, 299, 1, None))
    before = open_files(served)
    slowest_s = 0.0
    with ExitStack() as held:
        for _ in range(READERS):
            connection = held.enter_context(connected(served))
            connection.sendall(head("/api/v1/stream?after=0"))
        for _ in range(20):
            began_s = time.monotonic()
            with served.http(timeout=60) as http:
                assert http.get("/api/v1/daemon").status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            time.sleep(0.1)
    assert slowest_s < 30.0, "a machine that others use as well"
    awaited(lambda: open_files(served) <= before + 5)
    assert "Traceback" not in served.said()
    assert "was destroyed" not in served.said()


@pytest.mark.long
def test_body_or_head_that_never_comes_is_not_waited_for(served: Served) -> None:
    """Also where a byte of the body comes now and then; one connection says nothing meanwhile."""
    told = head("/api/v1/jobs", "Content-Type: application/json", "Content-Length: 1000")
    with connected(served) as silent, connected(served) as connection:
        silent.settimeout(60)
        connection.settimeout(5)
        connection.sendall(told.replace(b"GET", b"POST") + b"{")
        began_s = time.monotonic()
        while time.monotonic() - began_s < 90:
            try:
                connection.sendall(b" ")
                if connection.recv(65536) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 15 < time.monotonic() - began_s < 60
        assert silent.recv(1) == b""


def test_problem_document_is_what_the_command_line_tells(served: Served) -> None:
    done = served.run("show", "j99", "--json")
    assert done.returncode == 3
    assert "there is no job j99" in done.stderr
    with served.http() as http:
        told = json.loads(http.get("/api/v1/jobs/j99").content)
    assert told["detail"] in done.stderr
