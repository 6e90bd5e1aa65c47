"""What strangers and mistakes send: each is refused with its reason, and the daemon goes on."""

import json
from typing import Any

import httpx
import pytest

from shunter.api import ProblemDocument
from tests.live.api.serving import PATIENCE_S, Served

pytestmark = pytest.mark.live

TRUE = {"command": ["true"]}


@pytest.fixture(autouse=True)
def goes_on(shared: Served) -> Any:
    """After each test the daemon must be what it was: ready, and with nothing in its queue."""
    yield
    with shared.http() as http:
        assert http.get("/readyz").status_code == 200
        assert http.get("/api/v1/jobs").json()["total"] == 0


def refused(response: httpx.Response, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    found = ProblemDocument.model_validate_json(response.content)
    assert found.code == code
    return "\n".join((found.detail, *found.faults))


def post(served: Served, body: Any, **headers: str) -> httpx.Response:
    with served.http() as http:
        return http.post("/api/v1/jobs", json=body, headers=headers)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic cm9vdDpyb290", "wrong"]
)
def test_wrong_token_is_refused_and_never_repeated(shared: Served, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = httpx.get(shared.tcp + "/api/v1/jobs", headers=headers, trust_env=False)
    said = refused(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"
    assert shared.token not in said + shared.said()


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({"Host": "evil.example"}, "server.hosts"),
        ({"Host": "evil.example:80"}, "server.hosts"),
        ({"Host": "evil.example@localhost"}, "server.hosts"),
        ({"Host": "localhost@evil.example"}, "server.hosts"),
        ({"Host": "localhost/evil.example"}, "server.hosts"),
        ({"Host": "[::1"}, "server.hosts"),
        ({"Origin": "http://evil.example"}, "evil.example"),
        ({"Origin": "null"}, "null"),
    ],
)
def test_pages_of_other_sites_are_refused(
    shared: Served, headers: dict[str, str], what: str
) -> None:
    token = {"Authorization": f"Bearer {shared.token}"}
    over_tcp = httpx.get(shared.tcp + "/api/v1/jobs", headers={**token, **headers}, trust_env=False)
    with shared.http() as http:
        over_socket = http.post("/api/v1/nodes/n0/drain", headers=headers)
    assert what in refused(over_tcp, 403, "refused")
    assert what in refused(over_socket, 403, "refused")


def test_oversized_body_is_refused_by_its_head(shared: Served) -> None:
    said = refused(post(shared, {"command": ["x" * 2_000_000]}), 413, "too_large")
    assert "1,048,576" in said


PIECES = 1_024
"""64 MiB, sixty-four times what is taken."""


def test_oversized_body_without_a_length_is_refused_while_it_comes(shared: Served) -> None:
    sent = 0

    def pieces() -> Any:
        nonlocal sent
        while sent < PIECES:
            sent += 1
            yield b" " * 65_536

    with shared.http() as http:
        headers = {"Content-Type": "application/json"}
        try:
            response = http.post("/api/v1/jobs", content=pieces(), headers=headers)
        except httpx.WriteError:  # the daemon closed the connection while we sent
            assert sent < PIECES
            return
    refused(response, 413, "too_large")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({**TRUE, "gpu": 2}, "gpu"),
        ({**TRUE, "user": "root"}, "user"),
        ({**TRUE, "uid": 0}, "uid"),
        ({**TRUE, "gpus": "2"}, "gpus"),
        ({**TRUE, "gpus": -1}, "gpus"),
        ({**TRUE, "gpus": 0, "cpus": 0}, "cpus > 0"),
        ({**TRUE, "cpus": 1e300}, "cpus"),
        ({**TRUE, "time_limit_s": 0}, "time_limit_s"),
        ({**TRUE, "suspend_mode": "often"}, "suspend_mode"),
        ({**TRUE, "depends_on": [{"job_id": "../j1"}]}, "depends_on.0.job_id"),
        ({**TRUE, "array": {"first": 0, "last": 20_000}}, "10,000 tasks"),
        ({**TRUE, "environment": {"A=B": "1"}}, "environment"),
        ({**TRUE, "environment": {"A": "a\0b"}}, "zero byte"),
        ({**TRUE, "secrets": ["TOKEN"]}, "TOKEN"),
        ({**TRUE, "directory": "relative"}, "absolute"),
        ({"command": []}, "command"),
        ({"command": "true"}, "command"),
        ({"command": ["a\0b"]}, "zero byte"),
        ([], "body"),
        ({}, "command"),
    ],
)
def test_wrong_fields_are_named(shared: Served, body: Any, named: str) -> None:
    assert named in refused(post(shared, body), 400, "usage")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_refused(shared: Served, raw: bytes) -> None:
    with shared.http() as http:
        headers = {"Content-Type": "application/json"}
        refused(http.post("/api/v1/jobs", content=raw, headers=headers), 400, "usage")


def test_body_of_another_type_is_refused(shared: Served) -> None:
    with shared.http() as http:
        found = http.post("/api/v1/jobs", content=json.dumps(TRUE).encode())
    assert "application/json" in refused(found, 400, "usage")


@pytest.mark.parametrize(
    "name", ["two\nlines", "\x1b[31mred", "a\x00b", "\u202egnp.exe", "\x9b31m", "x" * 201]
)
def test_name_that_moves_the_cursor_is_refused(shared: Served, name: str) -> None:
    assert "name" in refused(post(shared, {**TRUE, "name": name}), 400, "usage")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "[bold red]x[/]", "a&b", "ünïcode"])
def test_markup_in_a_name_is_text(shared: Served, name: str) -> None:
    with shared.client() as client:
        job = client.submit(["true"], name=name)
        job.result(PATIENCE_S)
        assert job.describe()["spec"]["name"] == name
    shown = shared.run("show", job.id)
    assert name in shown.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/..%2F..%2F..%2Fetc/logs",
        "/api/v1/jobs/%2e%2e/logs",
        "/api/v1/jobs/j1%00/logs",
        "/api/v1/jobs/j1/logs?rank=../../../../etc/passwd",
        "/api/v1/jobs/j1/logs?rank=-1",
        "/api/v1/jobs/j1/logs?attempt=..%2F1",
        "/api/v1/jobs/j1/logs?stream=..%2Fenvironment.json",
        "/api/v1/jobs/j1/logs?stream=stdout.0/../../environment",
        "/api/v1/jobs/j1/logs?path=/etc/passwd",
        "/api/v1/jobs/j1/../../../../etc/passwd",
    ],
)
def test_no_path_leads_out_of_a_jobs_output(shared: Served, path: str) -> None:
    with shared.client() as client:
        client.submit(["true"]).result(PATIENCE_S)
    with shared.http() as http:
        response = http.get(path)
    assert response.status_code in (400, 404)
    ProblemDocument.model_validate_json(response.content)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs?users=me",
        "/api/v1/jobs?limit=-1",
        "/api/v1/jobs?limit=1&limit=2",
        "/api/v1/events?limit=1000000",
        "/api/v1/events?kind=JobEnded",
        "/api/v1/state?at=yesterday",
        "/api/v1/state?at=e99999",
        "/api/v1/decisions/none",
        "/api/v1/stream?after=99999",
        "/api/v1/jobs/j1?wait_s=3600",
    ],
)
def test_wrong_query_is_an_error_and_filters_nothing(shared: Served, path: str) -> None:
    with shared.http() as http:
        refused(http.get(path), 400, "usage")


def test_wrong_method_is_refused(shared: Served) -> None:
    with shared.http() as http:
        refused(http.delete("/api/v1/jobs/j1"), 405, "not_allowed")


def test_queue_of_others_and_impossible_jobs_are_refused(shared: Served) -> None:
    assert "closed" in refused(post(shared, {**TRUE, "queue": "closed"}), 403, "refused")
    assert "5" in refused(post(shared, {**TRUE, "gpus": 5}), 403, "refused")
    assert "j999" in refused(
        post(shared, {**TRUE, "depends_on": [{"job_id": "j999"}]}), 404, "not_found"
    )


def test_key_is_bounded(shared: Served) -> None:
    said = refused(post(shared, TRUE, **{"Idempotency-Key": "k" * 300}), 400, "usage")
    assert "Idempotency-Key" in said
