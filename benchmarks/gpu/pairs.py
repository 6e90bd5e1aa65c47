"""Two jobs on one GPU at once, with and without MPS, against each alone: Gandiva's pair table."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.gpu.jobs import Job
from benchmarks.gpu.machine import Machine

MODELS = ("conv", "gpt-small", "gpt-124m")
PAIRS = tuple((one, other) for n, one in enumerate(MODELS) for other in MODELS[n:])
RATE_S = 3.0
CONTROL = "nvidia-cuda-mps-control"


def measure(here: Machine) -> dict[str, Any]:
    """Measure each model alone, and each pair in both ways."""
    here.needs_gpu()
    rate_s = 0.3 if here.rehearses else RATE_S
    with tempfile.TemporaryDirectory(dir=here.scratch, prefix="shunter-gpu-") as name:
        folder = Path(name)
        alone = {}
        pairs = PAIRS[:2] if here.rehearses else PAIRS
        for model in dict.fromkeys(each for pair in pairs for each in pair):
            with Job(here, folder / f"alone-{model}", model) as job:
                job.wait_steps(20)
                alone[model] = job.rate(rate_s)
        found: dict[str, Any] = {
            "alone_batches_per_s": {model: round(rate, 3) for model, rate in alone.items()},
            "without MPS": _pairs(here, folder / "plain", pairs, alone, rate_s, {}),
        }
        try:
            with mps(folder, here) as environment:
                found["with MPS"] = _pairs(here, folder / "mps", pairs, alone, rate_s, environment)
        except MpsLacksError as error:
            found["with MPS"] = {"not measured": str(error)}
    sums = [sum(left) for left in found["without MPS"].values()]
    with_mps = [sum(left) for left in found["with MPS"].values() if not isinstance(left, str)]
    found["in words"] = f"both together do {_span(sums)} of one alone" + (
        f", with MPS {_span(with_mps)}" if with_mps else f"; {found['with MPS']['not measured']}"
    )
    return found


def _pairs(
    here: Machine,
    folder: Path,
    pairs: Sequence[tuple[str, str]],
    alone: Mapping[str, float],
    rate_s: float,
    own: Mapping[str, str],
) -> dict[str, list[float]]:
    """Return what is left of each of both, by "ONE OTHER"."""
    found = {}
    for number, (one, other) in enumerate(pairs):
        first = Job(here, folder / f"{number}-a", one, environment=own)
        second = Job(here, folder / f"{number}-b", other, environment=own)
        with first, second:
            for job in (first, second):
                job.wait_steps(20)
            first.rate(rate_s)  # what the second does meanwhile is counted by its lines
            until_s = first.steps()[-1]
            rates = [_rate_before(job, until_s, rate_s) for job in (first, second)]
        left = [rate / alone[model] for rate, model in zip(rates, (one, other), strict=True)]
        found[f"{one} {other}"] = [round(each, 3) for each in left]
    return found


def _rate_before(job: Job, until_s: float, rate_s: float) -> float:
    times = [at_s for at_s in job.steps() if until_s - rate_s <= at_s <= until_s]
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0


class MpsLacksError(Exception):
    """Nothing can be measured with MPS here."""


@contextmanager
def mps(folder: Path, here: Machine) -> Iterator[dict[str, str]]:
    """Run MPS of our own, in folders of our own; yield the environment of its clients.

    The GPU's compute mode stays as it is: MPS works in the default one.

    Raises:
        MpsLacksError: it is not here, or does not start.
    """
    if here.device != "cuda":
        raise MpsLacksError("no GPU")
    if shutil.which(CONTROL) is None:
        raise MpsLacksError(f"{CONTROL} is not installed")
    pipe, log = folder / "mps-pipe", folder / "mps-log"
    pipe.mkdir()
    log.mkdir()
    own = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
    environment = {**os.environ, **own}
    ran = subprocess.run(
        [CONTROL, "-d"], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    if ran.returncode:
        raise MpsLacksError(f"{CONTROL} fails: {(ran.stderr or ran.stdout).strip()[-200:]}")
    try:
        yield own
    finally:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [CONTROL],
                env=environment,
                input="quit\n",
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )


def _span(sums: list[float]) -> str:
    return f"{min(sums):.2f} to {max(sums):.2f}"
