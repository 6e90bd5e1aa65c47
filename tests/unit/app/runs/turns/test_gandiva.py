"""Gandiva in simulations: equal shares in turns, whole logs that verify, words for bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.ask import clock
from shunter.cli import app
from shunter.config import LoadedConfig, make_config
from shunter.core import JobResult
from shunter.run import simulate

HEAD = "job_id,submit_s,gpus,duration_s\n"


def config(folder: Path, rows: str, **tables: object) -> LoadedConfig:
    """Return a config of one server of four GPUs, with turns of a minute."""
    trace = folder / "jobs.csv"
    trace.write_text(HEAD + rows)
    tree = {
        "cluster": {"nodes": [{"name": "n", "gpus": 4}]},
        "workload": {"trace": str(trace)},
        "policy": {"name": "gandiva", "trigger": "event", "slicing": {}},
        "log": {"url": str(folder / "run.db")},
    }
    return make_config({**tree, **tables})


def stories(loaded: LoadedConfig) -> dict[str, JobResult]:
    return {str(story.job_id): story for story in simulate(loaded).stories()}


def verified(folder: Path) -> None:
    command = CliRunner().invoke(app, ["replay", str(folder / "run.db"), "--verify"])
    assert command.exit_code == 0, command.output


def test_six_jobs_on_four_gpus_get_two_thirds_each_and_the_rest_all_once_two_end(
    tmp_path: Path,
) -> None:
    """Gandiva's figure of equal shares: four jobs, two more come, then two of the first end.

    From 600 s on each of six has 2/3. Two have 1,200 s of work: 600 are done, the rest takes 900 s.
    Then the other four go on alone: 600 + 600 of theirs are done at 1,500 s.
    """
    rows = "a,0,1,3600\nb,0,1,3600\nc,0,1,1200\nd,0,1,1200\ne,600,1,3600\nf,600,1,3600\n"
    found = stories(config(tmp_path, rows))
    ends_s = {name: (story.end_us or 0) / 1e6 for name, story in found.items()}
    expected = {"c": 1500, "d": 1500, "a": 3900, "b": 3900, "e": 4500, "f": 4500}
    assert ends_s == {name: pytest.approx(s, abs=60) for name, s in expected.items()}
    verified(tmp_path)


def test_service_is_the_time_on_turn_and_all_gpus_are_in_use(tmp_path: Path) -> None:
    rows = "".join(f"j{number},0,1,1200\n" for number in range(6))
    loaded = config(tmp_path, rows)
    result = simulate(loaded)
    services = {story.service_gpu_us for story in result.stories()}
    assert services == {1200 * 1_000_000}
    assert max(story.end_us or 0 for story in result.stories()) == 6 * 1200 * 1_000_000 // 4
    verified(tmp_path)


def test_run_that_copies_memory_verifies(tmp_path: Path) -> None:
    """Two jobs that swing from 1,000 to 9,000 MB: 2 s at each change at a boundary, more within."""
    table = tmp_path / "factors.toml"
    table.write_text(
        "[models.m]\nmemory_cycle = { least_mb = 1000, most_mb = 9000, batch_s = 0.7 }\n"
    )
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_s,gpus,duration_s,model\na,0,1,1000,m\nb,0,1,1000,m\n"
    )
    ends_us = {}
    for turn_ends in ("at_boundary", "at_once"):
        tree = {
            "cluster": {"nodes": [{"name": "n", "gpus": 1}]},
            "workload": {"trace": str(tmp_path / "jobs.csv"), "factors": str(table)},
            "policy": {"name": "gandiva", "trigger": "event", "slicing": {}},
            "simulation": {"costs": {"gpu_copy_mb_s": 1000}, "turn_ends": turn_ends},
            "log": {"url": str(tmp_path / f"{turn_ends}.db")},
        }
        result = simulate(make_config(tree))
        ends_us[turn_ends] = max(story.end_us or 0 for story in result.stories())
        command = ["replay", str(tmp_path / f"{turn_ends}.db"), "--verify"]
        verified_run = CliRunner().invoke(app, command)
        assert verified_run.exit_code == 0, verified_run.output
    assert 2000_000_000 < ends_us["at_boundary"] < ends_us["at_once"]


def test_why_says_whose_turn_it_is_with_numbers_of_the_log(tmp_path: Path) -> None:
    """At 905 s of the first quanta of six jobs: recounted from the facts of turns."""
    rows = "a,0,1,3600\nb,0,1,3600\nc,0,1,3600\nd,0,1,3600\ne,600,1,3600\nf,600,1,3600\n"
    simulate(config(tmp_path, rows))
    url = str(tmp_path / "run.db")
    exported = CliRunner().invoke(app, ["log", "export", url]).output.splitlines()
    events = [event for event in map(json.loads, exported) if event["at_us"] <= 905_000_000]
    for job in ("a", "e"):
        answer = CliRunner().invoke(app, ["why", job, "--log", url, "--at", "905s", "--json"])
        turns = json.loads(answer.output)["turns"]
        own = [event for event in events if event.get("job_id") == job]
        begun = [event["at_us"] for event in own if event["kind"] == "TurnStarted"]
        ended = [event["at_us"] for event in own if event["kind"] == "TurnEnded"]
        on_us = sum(ended) - sum(begun) + 905_000_000 * (len(begun) - len(ended))
        assert turns["turns"] == len(begun)
        assert turns["on_s"] == on_us / 1e6
        assert turns["is_on"] is (len(begun) > len(ended))
        assert turns["others"] == [other for other in "abcdef" if other != job]
        place = [event["shares"] for event in own if event["kind"] == "TurnStarted"][-1][0]
        words = f"it has its turn on n[{place['gpu_mask'].bit_length() - 1}]"
        words = words if turns["is_on"] else "it waits for its turn on n"
        since_us = begun[-1] if turns["is_on"] else ended[-1]
        assert turns["words"].startswith(f"{words} since {clock(since_us)}; ")
