"""Each command of ours in the tables of `docs/coming-from` is run, with its placeholders filled in.

Goal: a command that stands in the place of another scheduler's does what the page says. Method: one
daemon with two servers, a job that has ended, and for commands that change a job one of its own.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.live.api.serving import Served, awaited

pytestmark = pytest.mark.live

FOLDER = ROOT / "docs" / "coming-from"
PAGES = [path for path in sorted(FOLDER.glob("*.md")) if path.stem != "index"]
OURS = re.compile(r"`shunter ([^`]+)`")
JOB = re.compile(r"^(j\d+|\$id)(?=$|:)")
CHANGES = {"suspend", "resume", "resize", "priority", "cancel"}
"""Commands that are for a job which has not ended."""

ELSEWHERE = {
    "serve": "tests/live/api",
    "up": "tests/live/up",
    "down": "tests/live/up",
    "doctor": "tests/live/site",
    "init": "tests/live/ssh: it logs in to servers",
}
"""Commands that are not run here, and where they are."""

FILLED = {
    "CMD": "true",
    "NAME": "sweep",
    "N": "name",
    "DIR": ".",
    "Q": "default",
    "NODE": "n0",
    "NODE[1]": "n0[1]",
    "n1": "n0",
    "TOKEN": "TOKEN=value",
    "a100": "h100",
    "workload.trace=FILE": "workload.trace=jobs.trace",
    "workload.trace=60_job.csv": "workload.trace=tiresias.csv",
    "e20871": "e20",
}
SERVERS = "--set cluster.nodes.0.type=h100 --set cluster.nodes.0.memory_gb=64"
LAB = """\
schema = 1
[cluster]
[[cluster.nodes]]
name = "v100"
gpus = 2
type = "v100"
[[cluster.nodes]]
name = "k80"
gpus = 2
type = "k80"
[workload]
trace = "jobs.trace"
throughputs = "builtin:gavel"
base_type = "v100"
[policy]
name = "gavel"
round = "1m"
"""


def commands(page: Path) -> list[str]:
    """Return our commands in the last column of a page's tables, each once, in their order."""
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [row.rstrip("| ").rpartition(" | ")[2] for row in rows]
    return list(dict.fromkeys(said for cell in cells for said in OURS.findall(cell)))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon, whose job j1 has ended, and a folder with all that the commands name."""
    folder = tmp_path_factory.mktemp("verbs")
    served = Served(folder, nodes="n[0-1]", cpus=8, gpus=8)
    (folder / "train.sh").write_text("#!/bin/bash\ntrue\n")
    (folder / "lab.toml").write_text(LAB)
    examples = ROOT / "examples" / "peers"
    (folder / "jobs.trace").write_bytes((examples / "gavel" / "jobs.trace").read_bytes())
    (folder / "tiresias.csv").write_bytes((examples / "tiresias" / "jobs.csv").read_bytes())
    try:
        served.start(options=shlex.split(SERVERS))
        assert served.run("submit", "--wait", "--group", "sweep", "--", "true").returncode == 0
        assert served.run("simulate", "lab.toml", "--log", "run.db").returncode == 0
        yield served
    finally:
        served.__exit__()


def test_tables_have_commands() -> None:
    assert len(PAGES) == 4
    assert all(len(commands(page)) > 15 for page in PAGES)


@pytest.mark.rotating("page")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_of_a_table_does_what_it_says(page: Path, served: Served) -> None:
    failed = []
    for said in commands(page):
        verb, *words = shlex.split(said)
        if verb in ELSEWHERE:
            continue
        job_id = changing(served, verb) if verb in CHANGES else "j1"
        ran = served.run(verb, *filled(verb, words, job_id))
        if ran.returncode != 0:
            failed.append(f"shunter {said}: {ran.returncode}: {ran.stderr.strip()}")
        if verb in CHANGES - {"cancel"}:
            served.run("cancel", job_id)
    assert "\n".join(failed) == ""


def filled(verb: str, words: list[str], job_id: str) -> list[str]:
    """Return the words of a command, its placeholders filled in."""
    found = [FILLED.get(word, JOB.sub(job_id, word)) for word in words]
    if verb == "submit" and "--" not in words and "train.sh" not in words:
        return [*found, "train.sh"]
    if verb == "simulate" and "--log" in words:
        return [*found, "--overwrite"]
    return found


def changing(served: Served, verb: str) -> str:
    """Return a job that is there to be changed: elastic for `resize`, held for `resume`."""
    options = ("--gpus-max", "4") if verb == "resize" else ("--suspend-mode", "restart")
    job_id = served.run("submit", "--parsable", *options, "--", "sleep", "600").stdout.strip()
    if verb == "resume":
        assert served.run("suspend", job_id).returncode == 0
        awaited(lambda: served.handle(job_id).state() == "held")
    return job_id
