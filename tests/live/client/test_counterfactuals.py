"""What would make a job start, asked of a real daemon: true, for whom it is, logged nowhere."""

import json
import os
from pathlib import Path

import pytest

from shunter.client import Client
from shunter.errors import RateLimitedError, RefusedError, ShunterError
from tests.live.api.serving import Served, awaited
from tests.live.client.test_dry_run import SLEEPS, all_asked_at_once, kinds_since, seq_of

pytestmark = pytest.mark.live


def test_end_that_is_said_to_start_a_job_starts_it(served: Served) -> None:
    with served.client() as client:
        first = client.submit(SLEEPS, gpus=3)
        awaited(lambda: first.state() == "running")
        second = client.submit(SLEEPS, gpus=2)
        awaited(lambda: client.why(second.id)["reason"])
        before = seq_of(served)
        found = client.counterfactuals(second.id)["counterfactuals"]
        ends = [each for each in found["found"] if each["kind"] == "end"]
        assert [each["jobs"] for each in ends] == [[first.id]]
        assert any(each["words"] == "it asked for 1 GPU" for each in found["found"])
        assert found["starts"] is None
        assert client.counterfactuals(first.id)["counterfactuals"] is None  # it does not wait
        told = served.run("why", second.id, "--counterfactuals")
        assert f"starts if    {first.id} ended now: at 20" in told.stdout
        asked = served.run("why", second.id, "--counterfactuals", "--json")
        again = json.loads(asked.stdout)["counterfactuals"]["found"]
        assert [each["words"] for each in again] == [each["words"] for each in found["found"]]
        assert kinds_since(served, before) == set()
        first.cancel()
        awaited(lambda: second.state() == "running")


def test_of_a_job_that_has_ended_the_past_is_asked_of_the_log(served: Served) -> None:
    with served.client() as client:
        job = client.submit(["true"], gpus=1)
        assert job.result() == 0
        with pytest.raises(ShunterError, match="asked of the log"):
            client.counterfactuals(job.id, "e1")
        assert client.counterfactuals(job.id)["counterfactuals"] is None
        said = served.run("why", job.id, "--counterfactuals").stdout
        assert "starts if    it does not wait" in said
        with pytest.raises(ShunterError, match="there is no job nobody"):
            client.counterfactuals("nobody")


def test_jobs_of_others_are_for_admins(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's daemon serves somebody else")
    with Served(tmp_path) as served:
        tokens = served.root / "tokens"
        served.end()
        other = "fedcba9876543210fedcba9876543210"
        tokens.write_text(tokens.read_text("utf-8") + f"{other} nobody\n", "utf-8")
        served.start()
        with served.client() as client:
            job = client.submit(SLEEPS, gpus=4)
            with (
                Client(served.tcp, token=other) as stranger,
                pytest.raises(RefusedError, match="for root and admins"),
            ):
                stranger.counterfactuals(job.id)


def test_a_user_has_one_at_work_and_one_that_waits(served: Served) -> None:
    outcomes: list[str] = []
    with served.client() as client:
        client.submit(SLEEPS, gpus=4)
        second = client.submit(SLEEPS, gpus=4)

    def ask() -> None:
        with served.client() as client:
            try:
                client.counterfactuals(second.id)
                outcomes.append("told")
            except RateLimitedError:
                outcomes.append("refused")

    all_asked_at_once(served, ask, outcomes, 4)
    assert outcomes == ["refused", "refused", "told", "told"]
