"""Lightning at a scheduler that asks by SIGTERM: it ends with 0, and has not finished.

The daemon is killed before each request and after it, so that one sees the end that another one has
asked for.
"""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning", reason="lightning is not installed: make live does it")

from tests.live.api.serving import PATIENCE_S, Served, awaited, environment
from tests.live.train.attempts import PATHS, undisturbed
from tests.live.train.programs import ASKS, LIGHTNING
from tests.live.train.served import PROGRAM, WAITS

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("lightning")]

SAVES = LIGHTNING.replace("suspension()\n", "suspension(save_every=1)\n", 1)
WARNING = (
    "ended with status 0 when SIGTERM told it to leave, which is no sign of its end: it goes on"
)


def restarted(served: Served) -> None:
    """Kill the daemon, and let another one take over."""
    served.end(signal.SIGKILL)
    served.start()


def steps(printed: bytes) -> dict[str, str]:
    """Return what was printed of each mini-batch, by the words that name it."""
    lines = [line.split() for line in printed.decode().splitlines() if line.startswith("step ")]
    return {" ".join(words[:3]): " ".join(words) for words in lines}


def printed(served: Served, job: str, document: Mapping[str, Any]) -> list[dict[str, str]]:
    with served.client() as client:
        return [
            steps(b"".join(client.logs(job, attempt=each["attempt"])))
            for each in document["attempts"]
        ]


class BySigterm(Served):
    """A daemon that asks jobs of mode `signal` to leave by SIGTERM."""

    def start(
        self, file_bytes_most: int | None = None, options: Sequence[str] = (), **variables: str
    ) -> None:
        settings = {"SHUNTER_BACKEND__LOCAL__SUSPEND_SIGNAL": "SIGTERM", **variables}
        super().start(file_bytes_most, options, **settings)


def test_lightning_that_ends_with_0_at_sigterm_goes_on_exactly_and_its_owner_is_told(
    tmp_path: Path,
) -> None:
    expected = undisturbed(tmp_path / "whole", "lightning.pytorch", LIGHTNING, "{}")
    folder = tmp_path / "job"
    folder.mkdir()
    told = {"text": SAVES.replace(ASKS, WAITS), "words": ["{}"]}
    (folder / PROGRAM).write_text(json.dumps(told), encoding="utf-8")
    with BySigterm(tmp_path) as served:
        with served.client() as client:
            job = client.submit(
                [sys.executable, "-W", "ignore", "-m", "tests.live.train.served"],
                directory=str(folder),
                suspend_mode="signal",
                environment=environment(PYTHONPATH=PATHS),
            ).id
        for number in (1, 2):
            reached = folder / f"reached-{number}"
            awaited(reached.exists, served.process)
            restarted(served)
            ran = served.run("suspend", job)
            assert ran.returncode == 0, ran.stderr
            restarted(served)
            awaited(lambda: served.handle(job).state() == "held", served.process)
            assert f"  warned       {WARNING}" in served.run("why", job).stdout
            assert served.run("resume", job).returncode == 0
        assert served.handle(job).result(PATIENCE_S) == 0
        with served.client() as client:
            document = client.job(job)
        shown = served.run("show", job).stdout
        found = printed(served, job, document)
        verified = served.run("replay", "log.db", "--verify")
    ends = [(each["ended_by"], each["exit_code"]) for each in document["attempts"]]
    assert ends == [("suspended", 0), ("suspended", 0), ("exit", 0)]
    assert document["state"] == "finished"
    status, handler = document["warnings"]
    assert status["text"].startswith(WARNING)
    assert handler["text"].startswith("SIGTERM, with which Shunter may ask this job to leave, is")
    assert [status["attempt"], handler["attempt"]] == [2, 3]
    assert shown.count(WARNING) == 1
    whole = steps("\n".join(expected).encode())
    assert all(each.items() <= whole.items() for each in found), "a resumed run is another one"
    assert set().union(*found) == set(whole), "mini-batches are missing"
    assert verified.returncode == 0, verified.stdout + verified.stderr
