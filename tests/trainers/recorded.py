"""A training script as a job: it records each mini-batch, and waits at some to be asked to leave.

    PYTHON recorded.py FOLDER HOLDS SCRIPT [WORDS]

HOLDS are the mini-batches of the first, second, ... attempt at which it waits, `5,3` say. That it
does so, is a file `reached-1`; what it trained with is in `records`, of all attempts. It runs with
the Python and the SDK of the library's own environment, so it imports nothing of the tests.
"""

import importlib
import importlib.util
import os
import random
import runpy
import sys
import time
from operator import attrgetter
from pathlib import Path
from typing import Any

from shunter.train.check import watching


class Waiting(watching.Watcher):
    """Waits at a mini-batch until the supervisor asks."""

    def __init__(self, folder: Path, hold: int) -> None:
        super().__init__(folder / "records", None, None)
        self._folder, self._hold = folder, hold

    def reached(self, count: int) -> None:
        if count == self._hold:
            (self._folder / f"reached-{os.environ['SHUNTER_ATTEMPT']}").touch()
            while not Path(os.environ["SHUNTER_SUSPEND"]).exists():
                time.sleep(0.02)


def main() -> None:
    """Run the script."""
    folder, script = Path(sys.argv[1]), Path(sys.argv[3])
    attempt = int(os.environ.get("SHUNTER_ATTEMPT", "1"))
    holds = [int(each) for each in sys.argv[2].split(",") if each]
    under = "SHUNTER_ATTEMPT" in os.environ and attempt <= len(holds)
    watching.watch(Waiting(folder, holds[attempt - 1] if under else 0))
    for seed in (random.seed, *_seeds()):
        seed(attempt)
    sys.argv = [str(script), *sys.argv[4:]]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")


def _seeds() -> "list[Any]":
    """Return what seeds the libraries: only a checkpoint is to carry chance over."""
    found = []
    for name, path in (("numpy", "random.seed"), ("torch", "manual_seed")):
        if importlib.util.find_spec(name):
            found.append(attrgetter(path)(importlib.import_module(name)))
    return found


if __name__ == "__main__":
    main()
