"""A process that has imported what a script imports, and forks one for each time it runs.

    python -m shunter.train.check.warm SCRIPT     requests on stdin, exit statuses on stdout

Importing a library takes seconds, training for a check less. Only imports are shared: what a
library does later (devices, threads) each process does for itself. What lies beside the script is
imported by each process: it is the script's own, and may draw.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import random
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

GRACE_S = 5  # a script may switch off the alarm that ends it
POLL_S = 0.005


def main() -> None:
    """Import, then fork a process for each line that asks for one."""
    script = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print when they are imported
    # Where `-m` has put it, the folder of who called the check; a script would not see it.
    if sys.path[0] in ("", str(Path.cwd())):
        sys.path.pop(0)
    for name in imported_by(script):
        # What cannot be imported here, the script itself will say.
        with suppress(Exception):
            importlib.import_module(name)
    for line in sys.stdin:
        answers.write(f"{_attempt(script, json.loads(line), answers)}\n")
        answers.flush()


def _attempt(script: Path, request: dict[str, Any], answers: TextIO) -> int:
    """Run the script in a process, and a session, of its own; return its exit status."""
    check = os.getppid()
    is_ended = False

    def end(number: int, frame: object) -> None:
        del number, frame
        nonlocal is_ended
        is_ended = True

    signal.signal(signal.SIGTERM, end)
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        answers.close()
        _run(script, request)
    latest = time.monotonic() + request["limit_s"] + GRACE_S
    is_late = False
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        is_late = time.monotonic() > latest
        if is_late or is_ended or os.getppid() != check:
            break
        time.sleep(POLL_S)
    # It is not waited for yet, so that its number is still its own; what it left behind ends too.
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)  # it may have no session of its own yet
    status = os.waitpid(pid, 0)[1]
    if is_ended or os.getppid() != check:
        os._exit(128 + signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if is_late:
        return -signal.SIGALRM
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def imported_by(script: Path) -> list[str]:
    """Return the modules that a script imports, but for Shunter's own.

    Raises:
        SyntaxError: it is no script of this Python.
    """
    found = []
    for node in ast.walk(ast.parse(script.read_bytes(), str(script))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    if any(name.split(".")[0] == "torch" for name in found):
        found.append("torch._dynamo")  # which the first optimizer imports
    return [name for name in found if name.split(".")[0] != "shunter"]


def _run(script: Path, request: dict[str, Any]) -> None:
    """Be a process that runs the script; its end is that of the script."""
    signal.alarm(request["limit_s"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    descriptor = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, to in ((0, nothing), (1, descriptor), (2, descriptor)):
        os.dup2(to, number)
    _flush_each_line(sys.stdout)
    from shunter.train.check.watching import Watcher, watch

    ask = tuple(request["ask"]) if request["ask"] else None
    watch(Watcher(Path(request["records"]), ask, request["workers"]))
    _seed(request["seed"])
    sys.argv = [str(script), *request["words"]]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")
    sys.exit(0)


def _flush_each_line(stream: TextIO) -> None:
    """Keep what a process printed that a signal ends."""
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)


def _seed(number: int) -> None:
    """Let what only a checkpoint carries over begin otherwise in each process."""
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)


if __name__ == "__main__":
    main()
