"""Hold every loss that any attempt printed on any host against runs that nobody interrupted.

    python check.py TRAIN.PY FOLDER HOST...

FOLDER/jobs.txt has a line for each job: id, name, GPUs, seed, steps. Attempts lie in
FOLDER/HOST/base/clusters/*/jobs/ID/. One that was lost with its host is done again, in part: each
of its losses must be the right one too, and all steps must be there. Exits with 1 if a bit differs.
"""

import contextlib
import io
import runpy
import sys
from pathlib import Path


def uninterrupted(script: str, seed: str, steps: str) -> dict[str, str]:
    """Run a training script here, and return the loss of each step."""
    sys.argv = [script, seed, steps]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_path(script)
    return dict(line.split() for line in printed.getvalue().splitlines())


def attempts_of(folder: Path, hosts: list[str], job_id: str) -> dict[int, tuple[str, Path]]:
    """Return where each attempt of a job ran, and what it printed."""
    found = {}
    for host in hosts:
        for path in sorted(folder.glob(f"{host}/base/clusters/*/jobs/{job_id}/*/stdout.0")):
            found[int(path.parent.name)] = (host, path)
    return dict(sorted(found.items()))


def main() -> None:
    """Compare every job, and say what was found."""
    script, folder, hosts = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    sys.path.insert(0, str(Path(script).parent))
    wrong = moved = 0
    for line in (folder / "jobs.txt").read_text().splitlines():
        job_id, name, _, seed, steps = line.split()
        wanted, found = uninterrupted(script, seed, steps), attempts_of(folder, hosts, job_id)
        losses = [
            line.split()
            for _, path in found.values()
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
            if line.endswith("\n")  # the last line of a host that lost its power may be half of one
        ]
        is_same = all(wanted.get(step) == loss for step, loss in losses)
        is_whole = {step for step, _ in losses} == wanted.keys()
        wrong += not (is_same and is_whole)
        places = list(dict.fromkeys(host for host, _ in found.values()))
        moved += len(places) > 1
        said = "the same, bit for bit" if is_same else "DIFFERENT"
        print(
            f"{job_id:4} {name:8} {len(losses):>4} losses of {steps:>3} steps in {len(found)} "
            f"attempts on {', '.join(places)}: {said if is_whole else 'NOT ALL'}"
        )
    print(f"jobs that ran on more than one host: {moved}")
    sys.exit(1 if wrong or not moved else 0)


if __name__ == "__main__":
    main()
