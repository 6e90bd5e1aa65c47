"""Multi-jobs in turns: the turns of members follow their priorities, recounted from the log."""

from collections import Counter
from pathlib import Path

import pytest

from shunter.events import AttemptEnded, JobId, TurnEnded, TurnStarted
from shunter.run import simulate
from tests.unit.app.traces import config_of, verified

HEAD = "job_id,submit_s,gpus,duration_s,priority,group"
ONE_GPU = {"nodes": [{"name": "n", "gpus": 1}]}


@pytest.mark.parametrize(
    ("rows", "until_s", "turns_s", "within_s"),
    [
        ("a,0,1,36000,1,s b,0,1,36000,0,s", 3 * 3600, {"a": 7200, "b": 3600}, 60),
        ("a,0,1,86400,0,s b,0,1,86400,-3,s", 9 * 3600, {"a": 8 * 3600, "b": 3600}, 60),
        # -500 counts as -10, one turn of 1,024: the first comes at once, since it had least.
        ("a,0,1,36000,0,s b,0,1,600,-500,s", 36000, {"a": 36000 - 60, "b": 60}, 0),
    ],
    ids=[
        "one priority more gets twice the turns",
        "of the background, with an eighth of the weight",
        "and far behind that few turns, and not none",
    ],
)
def test_turns_follow_priorities(
    tmp_path: Path, rows: str, until_s: int, turns_s: dict[str, int], within_s: int
) -> None:
    loaded = config_of(tmp_path, HEAD, *rows.split(), cluster=ONE_GPU)
    simulate(loaded)
    had_us: Counter[str] = Counter()
    begun_us: dict[JobId, int] = {}
    for event in verified(loaded):
        at_us = min(event.at_us, until_s * 1_000_000)
        if isinstance(event, TurnStarted):
            begun_us[event.job_id] = at_us
        elif isinstance(event, TurnEnded | AttemptEnded):
            had_us[event.job_id] += at_us - begun_us.pop(event.job_id, at_us)
    assert {job: us / 1e6 for job, us in had_us.items()} == pytest.approx(turns_s, abs=within_s)
