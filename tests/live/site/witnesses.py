"""Jobs that bear witness: each attempt marks what it does, and holds a lock for all it was given.

Whether an attempt ran twice, or two jobs were on one GPU, is then told by the jobs themselves.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from shunter.daemon import Submission
from tests.live.site.sites import program

PRELUDE = """
import fcntl, json, os, signal, sys, time
root = sys.argv[1]
name, gpus = os.environ["SHUNTER_JOB"], os.environ["CUDA_VISIBLE_DEVICES"].split(",")
def mark(what):
    with open(root + "/marks", "a") as file:
        file.write(name + "." + os.environ["SHUNTER_ATTEMPT"] + " " + what + "\\n")
def say(what):
    try:
        channel = os.open(os.environ["SHUNTER_CHANNEL"], os.O_WRONLY | os.O_NONBLOCK)
        os.write(channel, b'{"what": "' + what.encode() + b'"}\\n')
    except OSError:
        mark("alone")
held = []
for what in [name, *("gpu" + gpu for gpu in gpus if gpu)]:
    held.append(os.open(root + "/held." + what, os.O_RDWR | os.O_CREAT))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        mark("shares " + what)
mark("began")
"""


def witness(root: Path, text: str, *arguments: str, **fields: Any) -> Submission:
    """Return a job that marks into a folder, then runs a program with arguments from 2 on."""
    return program(PRELUDE + text, str(root), *arguments, **fields)


def marks(root: Path) -> list[str]:
    """Return what attempts have marked so far."""
    path = root / "marks"
    return path.read_text().splitlines() if path.exists() else []


def wrongs(root: Path) -> list[str]:
    """Return what must never be: attempts that ran twice, jobs that shared."""
    seen = marks(root)
    began = Counter(mark for mark in seen if mark.endswith(" began"))
    twice = [f"{mark} {times} times" for mark, times in began.items() if times > 1]
    return [mark for mark in seen if " shares " in mark] + twice
