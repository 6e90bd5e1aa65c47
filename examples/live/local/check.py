"""Hold the losses of jobs that were interrupted against runs that were not.

    python check.py TRAIN.PY FOLDER

FOLDER/jobs.txt has a line for each job: id, name, GPUs, seed, steps. What its attempts printed lies
in jobs/ID/ATTEMPT/stdout.0, somewhere in FOLDER. Exits with 1 if a single bit differs.
"""

import contextlib
import io
import runpy
import sys
from pathlib import Path


def uninterrupted(script: str, seed: str, steps: str) -> list[str]:
    """Run a training script here, and return what it prints."""
    sys.argv = [script, seed, steps]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_path(script)
    return printed.getvalue().splitlines()


def interrupted(attempts: list[Path]) -> list[str]:
    """Return what the attempts of a job printed, one after the other."""
    return [line for path in attempts for line in path.read_text(encoding="utf-8").splitlines()]


def attempts_of(folder: Path, job_id: str) -> list[Path]:
    """Return what a job's attempts printed, in order."""
    found = sorted(folder.glob(f"**/jobs/{job_id}/*/stdout.0"))
    return sorted(found, key=lambda path: int(path.parent.name))


def main() -> None:
    """Compare every job, and say what was found."""
    script, folder = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, str(Path(script).parent))
    differ = 0
    for line in (folder / "jobs.txt").read_text().splitlines():
        job_id, name, _, seed, steps = line.split()
        attempts = attempts_of(folder, job_id)
        same = interrupted(attempts) == uninterrupted(script, seed, steps)
        differ += not same
        said = "the same, bit for bit" if same else "DIFFERENT"
        print(f"{job_id:4} {name:8} {steps:>4} losses in {len(attempts)} attempts: {said}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
