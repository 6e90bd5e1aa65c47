"""A configured run in which a job is moved for a gang: its numbers, and its log decided again."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import load_config
from shunter.run import simulate

CONFIG = Path(__file__).parents[3] / "examples" / "room.toml"


@pytest.mark.parametrize(
    ("cost", "jct_s"),
    [
        # c has run for 1190 s, which is how long the gang would wait: 4760 GPU-seconds.
        ("10s", (600, 900, 3610, 3600, 300)),
        # A job may be moved that has run for ten times the cost.
        ("119s", (600, 900, 3610, 3600, 300)),
        ("2h", (600, 900, 3600, 3600, 2710)),
    ],
)
def test_job_is_moved_if_that_pays(cost: str, jct_s: tuple[int, ...]) -> None:
    setting = f"policy.topology.make_room.cost={cost}"
    result = simulate(load_config(CONFIG, [("--set", setting)], {}))
    stories = sorted(result.stories(), key=lambda story: story.ordinal)
    assert tuple(story.jct_us / 1e6 for story in stories if story.jct_us) == jct_s


@pytest.mark.parametrize("name", ["fifo", "fifo_backfill", "fifo_easy", "gavel", "two_level"])
def test_log_is_decided_again_and_why_says_for_whom(tmp_path: Path, name: str) -> None:
    url = str(tmp_path / "run.db")

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    said("simulate", str(CONFIG), "--set", f"log.url={url}", "--set", f"policy.name={name}")
    said("replay", url, "--verify")

    found = [said("why", job, "--log", url, "--at", "1300s") for job in ("c", "d")]
    (moved,) = [each for each in found if "make room" in each]
    assert "moved to make room for gang, which saves " in moved
    gang = said("why", "gang", "--log", url, "--at", "1300s")
    assert "others were moved to make room, which saves " in gang
    assert " had to move for it" in gang


def test_why_of_jobs_that_ended_says_who_was_moved_for_whom(tmp_path: Path) -> None:
    url = str(tmp_path / "run.db")
    simulate(load_config(CONFIG, [("--set", f"log.url={url}")], {}))

    moved, gang = (
        CliRunner().invoke(app, ["why", job, "--log", url]).output for job in ("c", "gang")
    )

    assert "attempt 1 on gpu1[3]: moved to gpu2[2] for gang" in moved
    assert "attempt 1 on gpu1[0-3] (c had to move for it): finished" in gang


@pytest.mark.parametrize("sizing", ["proportional", "greedy", "tune"])
def test_sized_jobs_are_moved_as_others_are(tmp_path: Path, sizing: str) -> None:
    config = tmp_path / "sized.toml"
    text = CONFIG.read_text().replace("gpus = 4", "gpus = 4\ncpus = 12\nmemory_gb = 250")
    text = text.replace(
        '"room.csv"', f'"{CONFIG.parent / "room.csv"}"\nsensitivity = "builtin:synergy"'
    )
    config.write_text(text.replace('name = "fifo"', f'name = "fifo"\nsizing = "{sizing}"'))
    url = str(tmp_path / "run.db")
    simulate(load_config(config, [("--set", f"log.url={url}")], {}))
    done = CliRunner().invoke(app, ["replay", url, "--verify"])
    assert done.exit_code == 0, done.output
    said = CliRunner().invoke(app, ["why", "gang", "--log", url, "--at", "1300s"]).output
    assert "c had to move for it" in said
    assert "shares       12 CPUs and 250000 MB" in said
