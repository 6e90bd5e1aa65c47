"""Every route of a real daemon answers as its model says."""

import re
from typing import Any

import httpx
import orjson
import pytest

from shunter.api import JSON, ROUTES, SSE, ProblemDocument, Route
from shunter.errors import RefusedError
from tests.live.api.serving import PATIENCE_S, Served, awaited

pytestmark = pytest.mark.live

READS = [route for route in ROUTES if route.method == "GET" and route.media != SSE]
JOB_ACTIONS = ("cancel", "suspend", "resume", "discard-checkpoint", "priority")
SLEEP = {"command": ["sleep", "60"]}


@pytest.fixture(scope="module")
def job(shared: Served) -> str:
    """A job that has ended well, with a line of output."""
    with shared.client() as client:
        handle = client.submit(["echo", "hello"], name="<b>bold</b> [red]")
        assert handle.result(PATIENCE_S) == 0
        return handle.id


def told(served: Served, route: Route, **places: str) -> httpx.Response:
    with served.http(timeout=PATIENCE_S) as http:
        return http.request(route.method, route.path.format(**places))


@pytest.mark.parametrize("route", READS, ids=lambda route: route.name)
def test_answer_has_the_form_its_model_says(route: Route, shared: Served, job: str) -> None:
    response = told(shared, route, job_id=job, seq="9", node="n0")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(route.media.partition(";")[0])
    assert response.headers["x-content-type-options"] == "nosniff"
    if route.answer is not None:
        assert orjson.loads(response.content)["schema_version"] == 1
        route.answer.model_validate_json(response.content)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_stranger_over_tcp_is_let_in_only_where_the_table_says(
    route: Route, shared: Served
) -> None:
    path = route.path.format(job_id="j1", seq="1", node="n0", gpu="0")
    response = httpx.request(route.method, shared.tcp + path, trust_env=False)
    if route.is_open:
        assert response.status_code == 200
        return
    assert response.status_code == 401
    assert ProblemDocument.model_validate_json(response.content).code == "unauthenticated"


def test_token_lets_its_user_in(shared: Served) -> None:
    headers = {"Authorization": f"Bearer {shared.token}"}
    found = httpx.get(shared.tcp + "/api/v1/daemon", headers=headers, trust_env=False).json()
    with shared.client() as client:
        assert found["user"] == client.daemon()["user"]


def test_state_of_a_past_event_is_what_it_was(shared: Served, job: str) -> None:
    with shared.client() as client:
        seq = next(
            event["seq"]
            for event in client.events(job=job)["events"]
            if event["kind"] == "AttemptStarted"
        )
        then = client.state(at=f"e{seq}")
        assert then["seq"] == seq
        assert [one["state"] for one in then["jobs"] if one["id"] == job] == ["running"]
        assert job not in [one["id"] for one in client.state()["jobs"]]


def test_state_that_has_not_changed_is_not_sent_again(shared: Served) -> None:
    with shared.http() as http:
        first = http.get("/api/v1/state?at=3")
        again = http.get("/api/v1/state?at=3", headers={"If-None-Match": first.headers["etag"]})
        other = http.get("/api/v1/state?at=2", headers={"If-None-Match": first.headers["etag"]})
    assert re.fullmatch(r'"e3-[0-9a-f]{16}"', first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert other.status_code == 200


def test_events_come_page_by_page_and_line_by_line(shared: Served, job: str) -> None:
    with shared.http() as http, shared.client() as client:
        first = client.events(limit=2)
        rest = client.events(after=first["next"], limit=10_000)
        whole = client.events(limit=10_000)
        lines = http.get("/api/v1/events?limit=2", headers={"Accept": "application/x-ndjson"})
    assert [*first["events"], *rest["events"]][: len(whole["events"])] == whole["events"]
    assert [orjson.loads(line) for line in lines.content.splitlines()] == first["events"]


def test_events_are_filtered_by_kind_job_and_node(shared: Served, job: str) -> None:
    with shared.client() as client:
        kinds = {event["kind"] for event in client.events(kind="JobFinished,NodeAdded")["events"]}
        jobs = {event["job_id"] for event in client.events(job=job)["events"]}
        nodes = {event["node"] for event in client.events(node="n0")["events"]}
    assert kinds == {"JobFinished", "NodeAdded"}
    assert jobs == {job}
    assert nodes == {"n0"}


def test_decision_says_what_it_changed_and_why(shared: Served, job: str) -> None:
    with shared.client() as client:
        [changed] = client.events(job=job, kind="AllocationChanged")["events"]
        found = client.decision(changed["seq"])
    assert [change["job_id"] for change in found["changes"]] == [job]
    assert found["changes"][0]["because"]["rule"] == "fifo"
    assert found["seq"] < changed["seq"] <= found["last_seq"]
    assert not any("T+" in words for words in found["words"])


def test_why_tells_the_same_as_the_log_read_by_itself(shared: Served, job: str) -> None:
    with shared.client() as client:
        asked = client.why(job)
    read = shared.run("why", job, "--log", "log.db", "--json")
    told = orjson.loads(read.stdout)
    assert asked.pop("silent_servers") == [], "what only a daemon knows: all servers answer"
    assert asked.pop("launch_wait") == "", "as is what a launch waits for"
    assert {**asked, "at": 0, "headline": 0, "timeline": 0, "decision": 0, "schema_version": 0} == {
        **{name: value for name, value in told.items() if name != "log"},
        **dict.fromkeys(("at", "headline", "timeline", "decision", "schema_version"), 0),
    }
    assert asked["phase"] == "finished"
    assert "T+" not in asked["headline"]
    text = shared.run("why", job, "--log", "log.db").stdout
    assert ("T+" in text, asked["headline"] in text) == (False, True)


def test_what_is_ordered_is_answered_as_its_model_says(shared: Served) -> None:
    orders = {route.path: route for route in ROUTES if route.method == "POST"}
    del orders["/api/v1/forecast"]  # which orders nothing: tests/live/client/test_dry_run.py
    del orders["/api/v1/proposals"]  # tests/live/proposals holds what that answers
    with shared.http() as http:
        body = {"command": ["sleep", "60"], "suspend_mode": "signal", "gpus_max": 2}
        made = http.post("/api/v1/jobs", json=body)
        job_id = made.json()["id"]
        answers = {"/api/v1/jobs": made}
        http.post("/api/v1/jobs", json={**body, "group": "g"})
        for path in sorted(orders.keys() - answers.keys(), key=steps):
            fields: dict[str, object] = {"priority": 3} if "priority" in path else {}
            fields |= {"group": "g"} if "groups" in path else {}
            fields |= {"jobs": [job_id, "j9"]} if "/jobs/cancel" in path else {}
            fields |= {"jobs": [job_id]} if "/jobs/suspend" in path else {}
            fields |= {"gpus": 2} if "resize" in path else {}
            answers[path] = http.post(
                path.format(job_id=job_id, node="n0", gpu="0"), json=fields or None
            )
    # Nothing is out of reach on one server: tests/live/ssh/faults has a server that goes silent.
    refused = answers.pop("/api/v1/jobs/{job_id}/discard-checkpoint")
    assert ProblemDocument.model_validate_json(refused.content).code == "refused"
    for path, answer in answers.items():
        model = orders[path].answer
        assert model is not None
        assert answer.status_code == (201 if path == "/api/v1/jobs" else 200), answer.text
        model.model_validate_json(answer.content)


def steps(path: str) -> int:
    """Return when an order can be given: a job is suspended before it is resumed."""
    servers = ("drain", "restore", "quarantine", "release")
    jobs = ("priority", "resize", "discard-checkpoint", "set-aside")
    order = (*servers, *jobs, "suspend", "resume", "cancel")
    return order.index(path.rpartition("/")[2])


@pytest.mark.parametrize(
    ("said", "code", "named"),
    [
        ({"gpus": 2, "max_level": "server", "shapes": [[2]], "split_may_change": True}, 201, ""),
        ({"gpus": 2, "max_level": "room"}, 400, "max_level"),
        ({"gpus": 2, "shapes": [[0, 2]]}, 400, "shapes"),
        ({"gpus": 2, "shapes": [[]]}, 400, "shapes"),
        ({"gpus": 2, "shapes": [[1, 1], [3]]}, 400, "make up the 2"),
        ({"gpus": 2, "shapes": [[1, 1]]}, 403, "can never run here"),
    ],
)
def test_submission_says_how_its_gpus_may_be_spread(
    shared: Served, said: dict[str, object], code: int, named: str
) -> None:
    with shared.http() as http:
        answer = http.post("/api/v1/jobs", json={"command": ["true"], **said})
        assert (answer.status_code, named in answer.text) == (code, True), answer.text
        if code == 201:
            found = http.get(f"/api/v1/jobs/{answer.json()['id']}")
            assert found.status_code == 200, found.text
            spec = found.json()["spec"]
            assert {name: spec[name] for name in said} == said


def test_refused_array_leaves_no_record(served: Served) -> None:
    with served.client() as client:
        with pytest.raises(RefusedError):
            client.submit_array(["true"], gpus=99, array=(0, 99, 1, None))
        assert client.history()["total"] == 0


def test_unknown_things_are_not_found(shared: Served) -> None:
    paths = ["/api/v1/jobs/j999", "/api/v1/jobs/j999/why", "/api/v1/jobs/j999/logs", "/api/v1/nope"]
    with shared.http() as http:
        found = [http.get(path) for path in paths]
        found += [http.post(f"/api/v1/jobs/j999/{what}") for what in JOB_ACTIONS[:4]]
        found += [http.post(f"/api/v1/nodes/n999/{what}") for what in ("drain", "restore")]
    for response in found:
        assert response.status_code == 404, response.url
        assert ProblemDocument.model_validate_json(response.content).exit_code == 3


def test_metrics_have_no_label_of_jobs_or_users(shared: Served, job: str) -> None:
    page = told(shared, next(route for route in ROUTES if route.path == "/metrics")).text
    assert 'shunter_jobs_ended_total{outcome="finished"}' in page
    assert 'shunter_node_gpus{node="n0",what="all"} 4.0' in page
    assert 'shunter_queue_gpus{queue="default"}' in page
    labels = set(re.findall(r'(\w+)="', page))
    assert labels == {
        *("version", "policy", "cluster", "state", "reason", "outcome", "node", "what", "queue"),
        *("route", "status", "le"),
    } - ({"reason"} if "reason=" not in page else set())


def test_openapi_document_names_every_route_and_resolves(shared: Served) -> None:
    document = told(shared, next(one for one in ROUTES if "openapi" in one.path)).json()
    served = {(path, method) for path, found in document["paths"].items() for method in found}
    assert served == {(route.path, route.method.lower()) for route in ROUTES}
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for inner in value.values() for found in references(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in references(inner)]
    return []


def test_job_is_steered_from_submission_to_its_end(served: Served) -> None:
    with served.client() as client:
        job = client.submit(["sleep", "60"], gpus=2, suspend_mode="restart")
        awaited(job.running)
        assert client.nodes()["nodes"][0]["jobs"] == [job.id]
        client.set_priority(job.id, 7)
        assert job.describe()["row"]["priority"] == 7
        client.suspend(job.id)
        awaited(lambda: job.state() == "held")
        assert [gpu["state"] for gpu in client.nodes()["nodes"][0]["gpus"]] == ["free"] * 4
        client.resume(job.id)
        awaited(job.running)
        attempts = job.describe()["attempts"]
        assert [one["attempt"] for one in attempts] == [1, 2]
        assert attempts[0]["suspend_s"] > 0
        assert job.cancel()
        awaited(job.done)
        assert (job.state(), job.cancel()) == ("cancelled", False)


def test_drained_node_takes_no_jobs_until_it_is_restored(served: Served) -> None:
    with served.client() as client:
        client.drain("n0")
        assert client.nodes()["nodes"][0]["state"] == "drained"
        job = client.submit(["true"])
        assert job.state() == "waiting"
        client.restore("n0")
        assert job.result(PATIENCE_S) == 0


def test_json_answers_are_what_their_media_say() -> None:
    assert all(route.media == JSON for route in ROUTES if route.answer is not None)
