"""Gandiva in simulations: equal shares in turns, whole logs that verify, words for bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.ask import clock
from shunter.cli import app
from shunter.events import SpeedChanged, TurnEnded, TurnStarted
from shunter.run import simulate
from tests.unit.app.traces import TURNS, config_of, ends_s, verified

HEAD = "job_id,submit_s,gpus,duration_s"


def test_six_jobs_on_four_gpus_get_two_thirds_each_and_the_rest_all_once_two_end(
    tmp_path: Path,
) -> None:
    """Gandiva's figure of equal shares: four jobs, two more come, then two of the first end.

    From 600 s on each of six has 2/3. Two have 1,200 s of work: 600 are done, the rest takes 900 s.
    Then the other four go on alone: 600 + 600 of theirs are done at 1,500 s.
    """
    rows = "a,0,1,3600 b,0,1,3600 c,0,1,1200 d,0,1,1200 e,600,1,3600 f,600,1,3600"
    loaded = config_of(tmp_path, HEAD, *rows.split())
    expected = {"c": 1500, "d": 1500, "a": 3900, "b": 3900, "e": 4500, "f": 4500}
    assert ends_s(loaded) == pytest.approx(expected, abs=60)
    verified(loaded)


def test_service_is_the_time_on_turn_and_all_gpus_are_in_use(tmp_path: Path) -> None:
    loaded = config_of(tmp_path, HEAD, *(f"j{number},0,1,1200" for number in range(6)))
    found = list(simulate(loaded).stories())
    assert {story.service_gpu_us for story in found} == {1200 * 1_000_000}
    assert max(story.end_us or 0 for story in found) == 6 * 1200 * 1_000_000 // 4
    verified(loaded)


@pytest.mark.parametrize(
    ("shared", "speeds", "last_s"),
    [
        ({}, [0.5, 1.0], 3600),  # a pack that gains nothing is undone after its probe
        ({"shared": 0.8}, [0.8], 2295),  # 120 s of turns, then both at 0.8
    ],
)
def test_pair_that_no_table_knows_goes_as_fast_as_the_config_says(
    tmp_path: Path, shared: dict[str, float], speeds: list[float], last_s: float
) -> None:
    loaded = config_of(
        tmp_path,
        f"{HEAD},model,total_steps",
        *("a,0,1,1800,m,3600", "b,0,1,1800,m,3600"),
        cluster={"nodes": [{"name": "n", "gpus": 1}]},
        policy={**TURNS, "params": {"gandiva": {"packing": {"probe": 60}}}},
        simulation={"samples": {"every": 5}, "speeds": {"relative": {"v100": 1.0}, **shared}},
    )
    assert max(ends_s(loaded).values()) == last_s
    changes = [each for each in verified(loaded) if isinstance(each, SpeedChanged)]
    assert [each.speed for each in changes] == speeds


def test_run_that_copies_memory_verifies(tmp_path: Path) -> None:
    """Two jobs that swing from 1,000 to 9,000 MB: 2 s at each change at a boundary, more within."""
    table = tmp_path / "factors.toml"
    table.write_text(
        "[models.m]\nmemory_cycle = { least_mb = 1000, most_mb = 9000, batch_s = 0.7 }\n"
    )
    last_s = []
    for turn_ends in ("at_boundary", "at_once"):
        loaded = config_of(
            tmp_path,
            f"{HEAD},model",
            "a,0,1,1000,m",
            "b,0,1,1000,m",
            cluster={"nodes": [{"name": "n", "gpus": 1}]},
            workload={"factors": str(table)},
            simulation={"costs": {"gpu_copy_mb_s": 1000}, "turn_ends": turn_ends},
            log={"url": str(tmp_path / f"{turn_ends}.db")},
        )
        last_s.append(max(ends_s(loaded).values()))
        verified(loaded)
    assert 2000 < last_s[0] < last_s[1]


def test_why_says_whose_turn_it_is_with_numbers_of_the_log(tmp_path: Path) -> None:
    """At 905 s of the first quanta of six jobs: recounted from the facts of turns."""
    rows = [f"{name},{600 * (name in 'ef')},1,3600" for name in "abcdef"]
    loaded = config_of(tmp_path, HEAD, *rows)
    simulate(loaded)
    turns_of = [e for e in verified(loaded) if isinstance(e, TurnStarted | TurnEnded)]
    for job in ("a", "e"):
        words = ["why", job, "--log", loaded.config.log.url, "--at", "905s", "--json"]
        turns = json.loads(CliRunner().invoke(app, words).output)["turns"]
        own = [e for e in turns_of if e.job_id == job and e.at_us <= 905_000_000]
        begun = [event for event in own if isinstance(event, TurnStarted)]
        ended = [event.at_us for event in own if isinstance(event, TurnEnded)]
        on_us = sum(ended) - sum(event.at_us for event in begun)
        on_us += 905_000_000 * (len(begun) - len(ended))
        assert (turns["turns"], turns["on_s"]) == (len(begun), on_us / 1e6)
        assert turns["is_on"] is (len(begun) > len(ended))
        assert turns["others"] == [other for other in "abcdef" if other != job]
        gpu = begun[-1].shares[0].gpu_mask.bit_length() - 1
        now = f"it has its turn on n[{gpu}]" if turns["is_on"] else "it waits for its turn on n"
        since_us = begun[-1].at_us if turns["is_on"] else ended[-1]
        assert turns["words"].startswith(f"{now} since {clock(since_us)}; ")
