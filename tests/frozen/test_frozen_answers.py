"""Logs of today's scheduler, and what is answered about them, are those that were kept."""

import json
from difflib import unified_diff
from functools import partial

import pytest

from tests.frozen.questions import DIGESTS, Logs, canonical, digest_table, kept_answers
from tests.replay.truth.mixed_runs import simulated_once

KEPT = kept_answers()
LINES_SHOWN = 60


def run_of(question: str) -> str:
    return question.split(" ")[1].partition(":")[0]


def written_out(line: str) -> list[str]:
    return json.dumps(json.loads(line), ensure_ascii=False, indent=1).splitlines()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    made = partial(simulated_once, temporary=tmp_path_factory)
    return Logs(tmp_path_factory.mktemp("frozen"), made)


def test_the_runs_have_the_digests_that_are_kept(logs: Logs) -> None:
    assert digest_table(logs, KEPT) == DIGESTS.read_text(encoding="utf-8")


@pytest.mark.parametrize("run", sorted({run_of(question) for question in KEPT}))
def test_what_is_asked_about_a_run_is_answered_as_it_was(run: str, logs: Logs) -> None:
    asked = [each for each in KEPT if run_of(each) == run]
    now = {each: canonical(each, logs.answer(each)) for each in asked}
    others = [each for each in asked if now[each] != KEPT[each]]
    if others:
        was, says = (written_out(lines[others[0]]) for lines in (KEPT, now))
        shown = list(unified_diff(was, says, "kept", "now", lineterm=""))[:LINES_SHOWN]
        pytest.fail("\n".join(["these differ:", *others, "", *shown]), pytrace=False)
