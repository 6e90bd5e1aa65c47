"""The page of a report: whole in itself, closed to hostile names, and drawn by a browser."""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from shunter.ask import data_of, page_of
from shunter.cli import app
from shunter.config import make_config
from shunter.run import simulate

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE_S = 120

HOSTILE = (
    "</script><script>document.title='taken'</script>",
    "<img src=x onerror=document.title='taken'>",
    "<!--<script>",
    "]]>'\"&amp;",
    "\u2028alert(1)\u2029",
    "javascript:alert(1)",
)


class Tags(HTMLParser):
    """Collects the elements of a page, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] == "script":
            self.texts.append(data)


def written(folder: Path, users: Sequence[str], policies: Sequence[str] = ("las",)) -> Path:
    """Return a report on runs of jobs with these users and names."""
    rows = [
        {"job_id": f"j{i}{user}", "submit_s": i, "duration_s": 200 + i, "gpus": 3, "user": user}
        for i, user in enumerate([*users, *users, *users])
    ]
    trace = folder / "jobs.jsonl"
    trace.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    logs = []
    for policy in policies:
        logs.append(str(folder / f"{policy}.db"))
        simulate(
            make_config(
                {
                    "cluster": {"nodes": [{"name": "n", "count": 1, "gpus": 4}]},
                    "workload": {"trace": str(trace)},
                    "policy": {"name": policy},
                    "log": {"url": logs[-1]},
                }
            )
        )
    target = folder / "report.html"
    done = CliRunner().invoke(app, ["report", *logs, "-o", str(target)])
    assert done.exit_code == 0, done.output
    return target


def test_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, ["ann", "bob"]).read_text(encoding="utf-8")
    tags = Tags(page)

    assert not {"link", "img", "iframe", "object", "base"} & set(tags.names)
    assert not {"src", "href"} & {name for name, _ in tags.attributes}
    assert "default-src 'none'" in page
    assert not re.search("https?:", page)


def test_script_writes_names_as_text_only() -> None:
    folder = files("shunter.ask").joinpath("report_page")
    for name in ("words.js", "charts.js", "gantt.js", "report.js"):
        script = folder.joinpath(name).read_text(encoding="utf-8")
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert banned not in script
        assert "</" not in script


def test_hostile_names_stay_data(tmp_path: Path) -> None:
    page = written(tmp_path, HOSTILE).read_text(encoding="utf-8")
    tags = Tags(page)

    assert tags.names.count("script") == 2
    run = json.loads(tags.texts[0])["runs"][0]
    assert run["jobs_by_ordinal"]["users"] == list(HOSTILE)
    assert sorted(row["user"] for row in run["fairness"]["rows"]) == sorted(HOSTILE)


PLAIN = Tags(page_of({"runs": [{"label": "", "names": []}]}))


@given(st.text(), st.text())
def test_no_text_ends_the_element_it_is_in(name: str, label: str) -> None:
    document = {"runs": [{"label": label, "names": [name]}]}
    tags = Tags(page_of(document))

    assert tags.names == PLAIN.names
    assert json.loads(tags.texts[0]) == document
    assert not set(data_of(document)) & set("<>&'\u2028\u2029")


def test_policy_allows_exactly_the_script_and_style_of_the_page() -> None:
    page = page_of({"runs": []})
    for element in ("script", "style"):
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in page


def test_runs_of_one_policy_are_told_apart(tmp_path: Path) -> None:
    page = written(tmp_path, ["ann"])
    log = str(tmp_path / "las.db")
    done = CliRunner().invoke(app, ["report", log, log, "--json"])
    labels = [run["label"] for run in json.loads(done.stdout)["runs"]]
    assert labels == ["las, las", "las, las (2)"]
    assert page.exists()


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    written(tmp_path, ["ann"])
    log = str(tmp_path / "las.db")
    for target, words in (
        (log, "it is the log itself"),
        ("no/such/r.html", "a folder that exists"),
    ):
        done = CliRunner().invoke(app, ["report", log, "-o", target])
        assert done.exit_code == 2
        assert words in done.stderr


@pytest.mark.skipif(BROWSER is None, reason="install chromium, which draws the page")
def test_a_browser_draws_all_pictures_and_runs_nothing_hostile(tmp_path: Path) -> None:
    target = written(tmp_path, HOSTILE, ("las", "fifo"))
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *(f"--user-data-dir={tmp_path / 'browser'}", "--enable-logging=stderr"),
        *("--dump-dom", target.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    page, told = done.stdout.decode(), done.stderr.decode(errors="replace")

    assert done.returncode == 0, told[-2000:]
    assert "CONSOLE" not in told, "the page complains of nothing"
    assert "data-failed" not in page
    assert "<title>Shunter report: las, fifo</title>" in page
    marks = [int(count) for count in re.findall(r'<canvas[^>]*data-marks="(\d+)"', page)]
    assert f'data-drawn="{len(marks)}"' in page
    runs = json.loads(Tags(page).texts[0])["runs"]
    slices = [sum(len(row["slices"]) // 3 for row in run["gantt"]["rows"]) for run in runs]
    assert marks == [2, 2, 2, 2, 2, *(len(run["reasons"]) for run in runs), *slices]
    for hostile in HOSTILE[:2]:
        shown = hostile.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert f"<td>{shown}</td>" in page
