"""The recipes for a trainer, with two processes: as their pages say, started by torchrun.

Each page itself is run by tests/docs/test_commands.py, with one process.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page_of
from tests.live.api.serving import Served, awaited
from tests.live.training import LACKS_TORCH

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH or "it is there"),
    pytest.mark.xdist_group("training"),  # two daemons may choose the same port
]

VARIABLES = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
PATHS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
END = "\nimport sys\nsys.stdout.flush()\nos._exit(0)\n"
"""Ends a process as the recipe for torchrun does: gloo may abort an interpreter that ends."""
TRAINER = {"lightning": ("devices=1", "devices=2"), "hugging-face-trainer": ("", "")}
"""What of the file is for one process, and what it is for two."""


def file_of(recipe: str, name: str) -> str:
    """Return a file that a recipe shows."""
    path = ROOT / "docs" / "recipes" / f"{recipe}.md"
    blocks = page_of(path, path.read_text("utf-8")).blocks
    return next(block.text for block in blocks if block.file == name)


@pytest.mark.thorough  # the pages hold the same of one process, and torchrun's of two
@pytest.mark.parametrize("recipe", TRAINER)
def test_trainer_with_two_processes_goes_on_to_the_same_weights(recipe: str, scratch: Path) -> None:
    training = file_of(recipe, "train.py").replace(*TRAINER[recipe])
    (scratch / "train.py").write_text(training + END)
    launch = file_of("torchrun-ddp", "train.sh").replace("train.py", "train.py output")
    (scratch / "train.sh").write_text(launch)
    with Served(scratch, gpus=2) as served:
        job_id = served.run("submit", "--parsable", "train.sh", PATH=PATHS, **VARIABLES).stdout
        job = served.handle(job_id.strip())

        def printed() -> str:
            return served.run("logs", "--stdout", job.id).stdout

        awaited(lambda: "step 5" in printed())
        assert served.run("suspend", job.id).returncode == 0
        awaited(lambda: job.state() == "held")
        assert served.run("resume", job.id).returncode == 0
        awaited(job.done)
        first, second = job.describe()["attempts"]
        ended = printed()
    assert (first["escalated_to"], first["lost_s"], second["exit_code"]) == ([], 0, 0)
    assert "goes on from None" not in ended
    assert weights(ended) == weights(alone(scratch))


def alone(folder: Path) -> str:
    """Return what the same training prints outside Shunter."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*torchrun, "--nproc-per-node", "2", "train.py", "alone"],
        cwd=folder,
        env={**os.environ, **VARIABLES, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def weights(text: str) -> list[str]:
    """Return the digests of the weights, of both processes.

    They write to one pipe, so that their lines may run into each other.
    """
    found: list[str] = re.findall("[0-9a-f]{64}", text)
    assert len(found) == 2, text[-1000:]
    return sorted(found)
