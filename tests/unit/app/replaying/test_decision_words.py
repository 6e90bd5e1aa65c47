"""Scores of decisions in words: the same in `why`, `diff` and `replay`, and never microseconds."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.ask import decision_score, event_in_words, fact_in_words, fold_events, measures_in
from shunter.ask.why import document, explain
from shunter.cli import app
from shunter.config import make_config
from shunter.core import State
from shunter.core.ranking import Measure
from shunter.events import GROWS, AllocationChanged, Because
from shunter.events.log import read_log
from shunter.run import rebuild, simulate
from tests.factories import allocation, job_id
from tests.unit.app.traces import config_of

POLICIES: dict[str, dict[str, Any]] = {
    "gandiva": {"trigger": "event", "slicing": {}},
    "las": {},
    "srtf": {},
    "tiresias": {},
    "two_level": {"guards": {"min_runtime": "20m"}, "params": {"two_level": {"by": "queue"}}},
}
WORDS = {
    "gandiva": r"affinity, because it made the load of its server 0\.\d+ \(GPUs asked for over",
    "las": r"las, because it had used .* GPU-(hour|second)s?, so it was in the \w+ queue",
    "srtf": r"srtf, because it needed .* more at base speed",
    "tiresias": r"because it was in the \w+ queue since T\+\S+ and had used .* GPU-",
    "two_level": r"because it was of a queue with [1-9] GPUs? besides those that the plan divided",
}


def logged(folder: Path, policy: str) -> str:
    url = str(folder / f"{policy}.db")
    tree = {
        "cluster": {"nodes": [{"name": "n", "count": 2, "gpus": 4}]},
        "workload": {"generate": {"kind": "philly-like", "jobs": 40, "load": 1.6, "gpus_max": 4}},
        "policy": {"name": policy, **POLICIES[policy]},
        "log": {"url": url},
    }
    simulate(make_config(tree))
    return url


@pytest.mark.parametrize("policy", POLICIES)
def test_replay_tells_a_decision_in_the_words_of_why(policy: str, tmp_path: Path) -> None:
    url = logged(tmp_path, policy)

    async def told() -> list[str]:
        found: list[str] = []
        async with read_log(url) as reader:
            head = (await reader.head()).seq
            measures = await measures_in(reader, head, rebuild)
            state = State()
            seq = 0
            async for event in reader.events():
                seq += 1
                fold_events(state, [event])
                if not isinstance(event, AllocationChanged) or len(found) > 30:
                    continue
                words = event_in_words(event, state, measures)
                said = document(await explain(reader, event.job_id, seq, event.at_us, rebuild))
                if said["decision"] is not None and said["decision"]["seq"] == seq:
                    assert words.endswith(f": {said['decision']['words']}")
                    found.append(words)
        return found

    found = asyncio.run(told())
    assert len(found) > 10
    assert any(re.search(WORDS[policy], words) for words in found), found
    assert not [words for words in found if re.search(r"\d{7}|e\+", words)]


def test_diff_tells_scores_in_words(tmp_path: Path) -> None:
    urls = [logged(tmp_path, policy) for policy in ("srtf", "tiresias")]
    done = CliRunner().invoke(app, ["diff", *urls, "--json"])
    first = json.loads(done.stdout)["first_decision"]
    told = [fact["words"] for side in "ab" for fact in first[f"only_{side}"]]
    assert told
    assert all(", because it " in words for words in told), told


def test_decisions_with_the_same_effect_tell_their_scores_in_words(tmp_path: Path) -> None:
    urls = [str(tmp_path / f"{policy}.db") for policy in ("fifo", "srtf")]
    for policy, url in zip(("fifo", "srtf"), urls, strict=True):
        tables = {"policy": {"name": policy}, "log": {"url": url}}
        simulate(config_of(tmp_path, "job_id,submit_s,gpus,duration_s", "a,0,1,600", **tables))
    reason = json.loads(CliRunner().invoke(app, ["diff", *urls, "--json"]).stdout)["first_reason"]
    assert [reason[side]["words"].partition(": ")[2] for side in "ab"] == [
        "fifo, because it was ordered by submission alone",
        "srtf, because it needed 10m 00s more at base speed",
    ]


def test_a_rule_that_tells_its_numbers_is_not_told_by_what_the_policy_counts() -> None:
    assert decision_score(Because(GROWS, (1, 2)), (Measure.load,)) == ""
    assert decision_score(Because("target_share", (0.5, 0.4), (), "v100"), (Measure.gpus,)) == ""


@pytest.mark.parametrize(
    ("measure", "number", "words"),
    [
        (Measure.user_gpus, 0, "was of a user with no GPU besides those that the plan divided"),
        (Measure.queue_gpus, 1, "was of a queue with 1 GPU besides those that the plan divided"),
        (Measure.group_gpus, 3, "was of a group with 3 GPUs besides those that the plan divided"),
        (
            Measure.load,
            0.375,
            "made the load of its server 0.375 (GPUs asked for over those there)",
        ),
    ],
)
def test_scores_of_groups_and_servers_have_words(
    measure: Measure, number: float, words: str
) -> None:
    because = Because("rule", (number,), (job_id(1),))
    score = decision_score(because, (measure,))
    assert score == words
    event = AllocationChanged(0, job_id(0), allocation(n0=1), because)
    assert fact_in_words(event, score) == f"place j0 -> n0[0]: rule, because it {words}, for j1"
