"""Runs a page: its commands in one shell, its programs beside them, in a folder of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.contracts.local_backends import empty
from tests.docs.pages import ROOT, Block, Page

__all__ = ["GIVEN", "run_page", "script_of"]

PATIENCE_S = 300
MARK = "== of the page"
TOY = """\
import time
from shunter import train

run = train.start()
while run.steps_done < 60:
    time.sleep(0.05)
    run.step()
"""


def run_page(page: Page, folder: Path) -> list[str]:
    """Run all of a page in an empty folder; return the commands and programs that were run.

    Raises:
        AssertionError: one of them failed; says which, with what it printed.
    """
    work = folder / "work"
    _make_checkout(work) if page.is_in_checkout else work.mkdir()
    environment = _environment(folder)
    for given in page.given:
        GIVEN[given](work, environment)
    script, ran = script_of(page)
    (folder / "page.sh").write_text(script, encoding="utf-8")
    said = folder / "said"
    with said.open("wb") as file:
        shell = subprocess.Popen(
            ["bash", str(folder / "page.sh")],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = shell.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end_all(shell.pid, folder, environment)
    told = said.read_text(encoding="utf-8", errors="replace")
    done = [line.partition(": ")[2] for line in told.splitlines() if line.startswith(MARK)]
    assert code == 0, f"{page.name}: {done[-1:] or 'nothing'} failed with {code}:\n{told[-4000:]}"
    assert len(done) == len(ran), f"{page.name}: the shell ended after {done[-1]}"
    return ran


def script_of(page: Page) -> tuple[str, list[str]]:
    """Return a shell script that runs all of a page, and what it runs.

    It ends with the first command that fails. What a page expects to fail it says itself, by
    `; echo "exit code $?"`.
    """
    lines, ran = ["set -o pipefail"], []
    for number, block in enumerate(page.blocks):
        if block.not_run:
            continue
        if block.file:
            lines += _written(block.file, block, f"END{number}")
            continue
        if block.language == "python":
            name = f"program-{block.line}.py"
            lines += _written(name, block, f"END{number}")
            commands = [f"python {name}"]
        else:
            commands = block.commands if block.language == "console" else []
        for command in commands:
            ran.append(command)
            place = f"line {block.line}: {command.splitlines()[0]}".replace("'", "'\\''")
            lines += [f"echo '{MARK}: {place}'", command, "code=$?; [ $code -eq 0 ] || exit $code"]
    return "\n".join([*lines, ""]), ran


def _written(name: str, block: Block, end: str) -> list[str]:
    return [f"mkdir -p \"$(dirname '{name}')\"", f"cat > '{name}' <<'{end}'\n{block.text}{end}"]


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of somebody who has Shunter installed and no daemon anywhere."""
    here = {name: value for name, value in os.environ.items() if not name.startswith("SHUNTER_")}
    home = folder / "home"
    home.mkdir()
    return {
        **here,
        "PATH": f"{Path(sys.executable).parent}:{here['PATH']}",
        "HOME": str(home),
        "NO_COLOR": "1",
        "SHUNTER_HOME": f"{folder}/up",
        "SHUNTER_URL": f"unix:{folder}/s",
        "SHUNTER_SERVER__LISTEN": f"unix:{folder}/s",
    }


def _make_checkout(work: Path) -> None:
    """Copy the files of the checkout, with the environment that it has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, work / name)
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=work, check=True)
    (work / ".venv").symlink_to(Path(sys.executable).parents[1])


def _end_all(group: int, folder: Path, environment: Mapping[str, str]) -> None:
    """End what a page has left running: its shell, daemons, and jobs."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    if (folder / "s").exists():  # a daemon of `shunter up` is in no group of ours
        subprocess.run(["shunter", "down"], env=dict(environment), capture_output=True, check=False)
    for jobs in sorted(folder.rglob("jobs")):
        if (jobs.parent / "term").exists():
            empty(str(jobs.parent))


def _live_log(work: Path, environment: Mapping[str, str]) -> None:
    """Leave `shunter.db`, the log of a live cluster in which a few jobs trained."""
    (work / "toy.py").write_text(TOY, encoding="utf-8")
    commands = (
        "shunter init --local --gpus 2",
        "shunter serve shunter.toml 2>serve.txt & daemon=$!",
        "until grep -q ^ready serve.txt; do sleep 0.1; done",
        "for n in 1 2; do shunter submit --gpus 2 --model toy --steps 60 python toy.py; done",
        "shunter submit --wait --model toy --steps 60 python toy.py",
        "kill $daemon; wait $daemon",
    )
    _prepare(work, environment, commands)


def _prepare(work: Path, environment: Mapping[str, str], commands: tuple[str, ...]) -> None:
    subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=work,
        env=dict(environment),
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )


GIVEN: dict[str, Callable[[Path, Mapping[str, str]], None]] = {
    "a live log": _live_log,
}
"""What pages begin with, made as their readers made it before."""
