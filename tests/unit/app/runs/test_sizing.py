"""What is odd in the jobs of a run that sizes them: told, recorded or rejected, never a crash."""

import json
from pathlib import Path

import pytest

from shunter.config import LoadedConfig
from shunter.errors import ConfigError
from shunter.events import SchedulerStarted
from shunter.run import load_jobs, set_up, simulate
from tests.unit.app.traces import config_of

HEAD = "job_id,submit_s,gpus,duration_s,model,cpus,memory_gb"
STRANGE = "strange,0,1,600,bertx"
NODE = {"name": "n", "gpus": 4, "cpus": 12, "memory_gb": 250}

sizings = pytest.mark.parametrize("sizing", ["proportional", "greedy", "tune"])


def config(
    folder: Path, *rows: str, sizing: str | None = "tune", table: str = "builtin:synergy"
) -> LoadedConfig:
    """Return a config of one server of 4 GPUs, 12 CPUs and 250 GB, with a job of a known model."""
    policy = {"name": "fifo", "round": "5m"} | ({} if sizing is None else {"sizing": sizing})
    return config_of(
        folder,
        HEAD,
        "known,0,1,600,gnmt",
        *rows,
        cluster={"nodes": [NODE]},
        workload={"sensitivity": table},
        policy=policy,
        log={"url": "none:"},
    )


def table_of(folder: Path, cpus: int, points: list[int], model: str, speeds: list[float]) -> str:
    """Write a table of one model, with a speed for each number of CPUs; return its path."""
    path = folder / "table.json"
    table = {
        "proportional_per_gpu": {"cpus": cpus, "memory_gb": 62.5},
        "cpu_points": points,
        "memory_gb_points": [62.5],
        "models": {model: {"table": [[speed] for speed in speeds]}},
    }
    path.write_text(json.dumps(table))
    return str(path)


def recorded(loaded: LoadedConfig, key: str = "not_in_sensitivity") -> object:
    """Return what the log says of models that the table does not know, or does not cover."""
    started = set_up(loaded, load_jobs(loaded)).opening(1)[0]
    assert isinstance(started, SchedulerStarted)
    return json.loads(started.config)["workload"].get(key)


@sizings
def test_job_of_an_unknown_model_has_its_share_and_that_is_told_and_recorded(
    tmp_path: Path, sizing: str
) -> None:
    loaded = config(tmp_path, STRANGE, "unnamed,0,1,600", sizing=sizing)
    result = simulate(loaded)

    assert [story.jct_us for story in result.stories()] == [600_000_000] * 3
    assert result.remarks == [
        (
            "builtin:synergy: nothing is known of model 'bertx' (job strange), job unnamed, which "
            "names no model: such jobs count as equally fast with any CPUs and memory, and have "
            "their proportional share"
        )
    ]
    assert recorded(loaded) == ["", "bertx"]


def test_servers_and_jobs_beyond_the_table_are_told_of_and_recorded(tmp_path: Path) -> None:
    """The table was measured with up to 2 CPUs and 62.5 GB for each GPU, the servers have 3."""
    table = table_of(tmp_path, 1, [1, 2], "gnmt", [1.0, 1.2])
    loaded = config(tmp_path, "large,0,2,60,gnmt,,150", "small,0,2,60,gnmt,3", table=table)
    said = set_up(loaded, load_jobs(loaded)).notes
    assert said == [
        (
            f"{table}: a GPU of n goes with 3 CPUs for each GPU, and the table has 1 to 2: beyond "
            "its points a table guesses: more makes nothing faster, less slows jobs evenly"
        ),
        (
            f"{table}: 1 job asks for what it does not cover, first large for 75 GB for each GPU, "
            "and the table has 62.5 to 62.5"
        ),
    ]
    assert simulate(loaded).remarks == said
    assert recorded(loaded, "beyond_sensitivity") == [said[0], "large"]


def test_models_that_are_known_are_not_told_of(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    assert simulate(loaded).remarks == []
    assert recorded(loaded) is None


def test_without_sizing_nobody_is_said_to_have_a_share(tmp_path: Path) -> None:
    (remark,) = simulate(config(tmp_path, STRANGE, sizing=None)).remarks
    assert remark.endswith("equally fast with any CPUs and memory")


@sizings
def test_job_that_asks_for_more_than_any_server_has_is_rejected_and_others_run(
    tmp_path: Path, sizing: str
) -> None:
    """And one that asks for no memory has none."""
    rows = (
        "cpus,0,1,600,alexnet,13",
        "memory,0,1,600,alexnet,,251",
        "all,0,4,60,alexnet,12,250",
        "zero,0,1,600,deepspeech,0,0",
    )
    ended = simulate(config(tmp_path, *rows, sizing=sizing)).stories()
    found = {
        str(story.job_id): (story.status, (story.end_us or 0) - (story.first_start_us or 0))
        for story in ended
    }
    assert {job: status for job, (status, _) in found.items()} == {
        **dict.fromkeys(("known", "all", "zero"), "finished"),
        **dict.fromkeys(("cpus", "memory"), "rejected"),
    }
    assert found["known"][1] == found["zero"][1] == 600_000_000


def test_table_that_is_wrong_is_told_with_key_model_and_cell(tmp_path: Path) -> None:
    table = table_of(tmp_path, 3, [1, 3], "alexnet", [1.2, 1.0])
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, table=table)
    assert str(caught.value) == (
        f"config: workload.sensitivity: {table}: alexnet, 3 CPUs, 62.5 GB: 1 is slower than 1.2 "
        "with less CPUs"
    )
