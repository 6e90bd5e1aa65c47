"""Schedulers of others propose gangs to a real daemon: 64 at a time, with views that are stale.

No GPU is granted twice, gangs are granted whole, everybody comes through, and the log verifies.
"""

import getpass
import pwd
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from shunter.api import V1, ProblemDocument, ProposalDocument, ViewDocument
from shunter.ask.forks import NOBODY_CALLS
from shunter.client import Client
from shunter.core import State
from shunter.core.fold import apply
from shunter.errors import RateLimitedError, RefusedError
from shunter.events import Event, from_object
from tests.live.api.serving import PATIENCE_S, Served, awaited
from tests.property.invariants import check_bitmaps

pytestmark = pytest.mark.live

CALLERS = """\
proposals_per_s = {rate}
[policy.decentralised]
schedulers = "callers"
candidates = 2
retry = "0.1s"
retry_most = "0.4s"
reserve_after = 4
reserve_for = "2s"
"""
PROPOSERS = 64
GPUS = 4


@pytest.fixture(scope="module")
def proposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon on four servers of four GPUs, whose jobs callers propose."""
    root = tmp_path_factory.mktemp("site")
    with Served(root, CALLERS.format(rate=5000), nodes="n[0-3]") as daemon:
        yield daemon


def refused(served: Served, body: Any, status: int, code: str, **headers: str) -> str:
    with served.http() as http:
        response = http.post(f"{V1}/proposals", json=body, headers=headers)
    assert response.status_code == status, response.text
    found = ProblemDocument.model_validate_json(response.content)
    assert found.code == code
    return "\n".join((found.detail, *found.faults))


def events_of(served: Served) -> list[Event]:
    """Return the events of a daemon, from its own log."""
    told = served.run("log", "export", str(served.root / "log.db"))
    assert told.returncode == 0, told.stderr
    rows = [orjson.loads(line) for line in told.stdout.splitlines()]
    return [from_object({k: v for k, v in row.items() if k != "seq"}) for row in rows]


def test_a_job_waits_until_its_place_is_proposed(proposed: Served) -> None:
    with proposed.client() as client:
        handle = client.submit(["true"], gpus=2)
        awaited(lambda: handle.id in [one["job_id"] for one in client.view()["admitted"]])
        assert "awaiting_proposal" in client.why(handle.id)["headline"]
        view = client.view()
        ViewDocument.model_validate_json(orjson.dumps(view))
        assert [one["free"] for one in view["servers"]] == [0b1111] * 4
        told = client.propose(handle.id, [{"n2": 0b0110}], version=view["version"])
        ProposalDocument.model_validate_json(orjson.dumps(told))
        assert (told["approved"], told["choice"], told["conflicts"]) == (True, 0, {})
        assert handle.result(PATIENCE_S) == 0
        with pytest.raises(RefusedError, match="has ended already"):
            client.propose(handle.id, [{"n2": 0b0110}], version=0)


@pytest.fixture
def waiting(proposed: Served) -> Iterator[str]:
    """A job of two GPUs that waits for a proposal."""
    with proposed.client() as client:
        handle = client.submit(["true"], gpus=2)
        yield handle.id
        handle.cancel()


def test_forecasts_say_when_it_would_start_if_it_were_proposed(
    proposed: Served, waiting: str
) -> None:
    """Nobody calls in a fork: job schedulers propose there, and the answers say so."""
    with proposed.client() as client:
        awaited(lambda: waiting in [one["job_id"] for one in client.view()["admitted"]])
        told = client.forecast()
        row = next(one for one in told["jobs"] if one["id"] == waiting)
        tried = client.counterfactuals(waiting)["counterfactuals"]
    assert row["start"]["p90_us"] is not None
    assert NOBODY_CALLS in told["assumptions"]
    assert tried["starts"] is not None, "nothing need be changed"
    assert tried["assumptions"] == [NOBODY_CALLS]
    said = proposed.run("why", waiting, "--counterfactuals")
    assert f" {NOBODY_CALLS}" in said.stdout


@pytest.mark.parametrize(
    ("candidates", "version", "status", "code", "says"),
    [
        ([{"n9": 3}], 0, 404, "not_found", "there is no node n9"),
        ([{"n0": 48}], 0, 400, "usage", "node n0 has 4 GPUs: expected a mask of 15 at most"),
        ([{"n0": 1}], 0, 400, "usage", "candidates.0: 1 GPUs: expected the whole gang of 2"),
        ([{"n0": 3}, {"n0": 7}], 0, 400, "usage", "candidates.1: 3 GPUs"),
        ([{"n0": 3}], 10**9, 400, "usage", "version = 1000000000: expected"),
        ([{"n0": 0}], 0, 400, "usage", "greater than or equal to 1"),
        ([{}], 0, 400, "usage", "at least 1"),
        ([], 0, 400, "usage", "at least 1"),
        ([{"n0": 3}] * 65, 0, 400, "usage", "at most 64"),
    ],
    ids=["server", "GPU", "gang", "second", "future", "no GPU", "no server", "none", "too many"],
)
def test_a_wrong_proposal_is_refused_and_says_why(
    proposed: Served,
    waiting: str,
    candidates: Any,
    version: int,
    status: int,
    code: str,
    says: str,
) -> None:
    body = {"job_id": waiting, "version": version, "candidates": candidates}
    assert says in refused(proposed, body, status, code)


def test_a_proposal_for_a_job_there_is_not_is_refused(proposed: Served) -> None:
    body = {"job_id": "j999", "version": 0, "candidates": [{"n0": 1}]}
    assert "there is no job j999" in refused(proposed, body, 404, "not_found")


def test_64_proposers_with_stale_views_never_get_a_gpu_twice(proposed: Served) -> None:
    with proposed.client() as client:
        jobs = [
            client.submit(["sleep", "0.05"], gpus=1 + number % 4).id for number in range(PROPOSERS)
        ]
    with ThreadPoolExecutor(PROPOSERS) as threads:
        tries = list(threads.map(lambda job: scheduled(proposed, job), jobs))
    with proposed.client() as client:
        for job in jobs:
            assert client.handle(job).result(PATIENCE_S) == 0
    assert sum(tries) > PROPOSERS, "nobody collided, so nothing was shown"
    told = proposed.run("replay", "--verify", str(proposed.root / "log.db"))
    assert told.returncode == 0, told.stdout + told.stderr
    state = State()
    for event in events_of(proposed):
        apply(state, event)
        check_bitmaps(state)
    assert state.proposals.approved >= PROPOSERS
    assert state.proposals.conflicts > 0
    assert not state.proposals.reserved


def scheduled(served: Served, job_id: str) -> int:
    """Propose for one job until it is granted; return how often that took."""
    rng, tries = random.Random(job_id), 0
    with served.client() as client:
        while True:
            view = client.view()
            mine = [one for one in view["admitted"] if one["job_id"] == job_id]
            if not mine:
                time.sleep(0.05)
                continue
            time.sleep(rng.uniform(0, 0.1))  # the view grows stale
            places = candidates(view, mine[0], rng)
            if not places:
                continue
            tries += 1
            told = client.propose(job_id, places, version=view["version"])
            if told["approved"]:
                return tries
            assert told["reason"]
            time.sleep(min(0.1, told["retry_after_s"] or 0.0))


def candidates(view: Any, job: Any, rng: random.Random) -> list[dict[str, int]]:
    """Return what is kept for a job, or some servers that could hold it."""
    if job["kept"]:
        return [job["kept"]]
    found = []
    for server in rng.sample(view["servers"], len(view["servers"])):
        bits = [1 << bit for bit in range(GPUS) if server["free"] >> bit & 1]
        if len(bits) >= job["gpus"]:
            found.append({server["name"]: sum(bits[: job["gpus"]])})
    return found[:1]


def test_only_proposers_may_propose_and_only_for_their_own_jobs(tmp_path: Path) -> None:
    me = getpass.getuser()
    ana, bo = [user.pw_name for user in pwd.getpwall() if user.pw_name not in (me, "root")][:2]
    roles = f'proposers = ["{ana}"]\n' + CALLERS.format(rate=1)
    with Served(tmp_path, roles) as daemon:
        with daemon.client() as client:
            job = client.submit(["true"], gpus=1).id
        tokens = daemon.root / "tokens"
        tokens.write_text(f"{tokens.read_text()}{'a' * 40} {ana}\n{'b' * 40} {bo}\n")
        daemon.end()
        daemon.start()
        body = {"job_id": job, "version": 0, "candidates": [{"n0": 1}]}

        def said(token: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            url = f"{daemon.tcp}{V1}/proposals"
            return httpx.post(url, json=body, headers=headers, trust_env=False)

        stranger, other = said("b" * 40), said("a" * 40)
        assert stranger.status_code == other.status_code == 403
        assert "needs the role proposer" in stranger.json()["detail"]
        assert f"and {ana} is no admin" in other.json()["detail"]
        too_often = said("a" * 40)
        assert too_often.status_code == 429
        assert int(too_often.headers["Retry-After"]) >= 1
        with Client(daemon.tcp, token="a" * 40) as client, pytest.raises(RateLimitedError):
            client.propose(job, [{"n0": 1}], version=0)


def test_where_the_policy_places_jobs_nobody_may_propose(tmp_path: Path) -> None:
    with Served(tmp_path) as daemon:
        body = {"job_id": "j1", "version": 0, "candidates": [{"n0": 1}]}
        assert "[policy.decentralised]" in refused(daemon, body, 403, "refused")
