"""Check training libraries, and write what came of it for docs/reference/trainers.md.

    python -m tests.trainers [NAME ...] [--served] [--keep] [--folder build/trainers]

Each library is installed in an environment of its own, with its pinned version and the wheel of
`shunter-train`; `python -m shunter.train.check` suspends its script everywhere. The environments
take up to 2 GB each and are removed again, unless they are kept. With `--served` they train as jobs
of a daemon with `las` instead, all at a time (`served`). It takes half an hour; the exit status is
1 where one is not as its entry says, 2 where one could not be tried.
"""

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.trainers.catalogue import RESULTS, ROOT, Trainer, trainers
from tests.trainers.served import OFFLINE, differences

VERSIONS = """
import json, platform
from importlib import metadata
print(json.dumps({"python": platform.python_version(),
                  **{each.metadata["Name"]: each.version for each in metadata.distributions()}}))
"""
TAIL_LINES = 30


def main() -> int:
    """Check all, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.trainers")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--served", action="store_true", help="as jobs of a daemon")
    parser.add_argument("--keep", action="store_true", help="keep the environments for next time")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "trainers")
    told = parser.parse_args()
    known = {each.name: each for each in trainers()}
    unknown = [name for name in told.names if name not in known]
    if unknown:
        parser.error(f"no entry {unknown[0]!r}; there are {', '.join(known)}")
    wanted = [known[name] for name in told.names] or list(known.values())
    told.folder.mkdir(parents=True, exist_ok=True)
    sdk = _built(told.folder)
    if told.served:
        return _served(wanted, told.folder, sdk, keep=told.keep)
    status = 0
    for number, trainer in enumerate(wanted):
        is_last = all(each.packages != trainer.packages for each in wanted[number + 1 :])
        status = max(status, _tried(trainer, told.folder, sdk, keep=told.keep or not is_last))
    return status


def _tried(trainer: Trainer, folder: Path, sdk: Path, *, keep: bool) -> int:
    """Install a library, check its script, keep the result; return an exit status."""
    print(f"== {trainer.name}: {' '.join(trainer.packages)}", flush=True)
    environment = folder / trainer.environment
    try:
        python = _installed(environment, trainer.packages, sdk)
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch) / "result.json"
            words = ["--json", str(result), str(trainer.path), *trainer.words]
            ran = subprocess.run(
                [python, "-W", "ignore", "-m", "shunter.train.check", *words],
                env={**_bare(), **OFFLINE, **trainer.variables},
                cwd=scratch,
                check=False,
            )
            if not result.exists():
                print(f"error: {trainer.name}: its script could not be checked", file=sys.stderr)
                return 2
            document = json.loads(result.read_text(encoding="utf-8"))
        _keep(trainer, document, _versions(python))
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").splitlines()[-TAIL_LINES:]
        print(f"error: {trainer.name}: {error}", *lines, sep="\n", file=sys.stderr)
        return 2
    finally:
        if not keep:
            shutil.rmtree(environment, ignore_errors=True)
    outcome = "different" if ran.returncode else "exact"
    if outcome != trainer.expects:
        print(f"error: {trainer.name} is {outcome}; expected: {trainer.expects}", file=sys.stderr)
        return 1
    return 0


def _served(wanted: Sequence[Trainer], folder: Path, sdk: Path, *, keep: bool) -> int:
    """Train with all at one daemon, keep what came of it; return an exit status."""
    try:
        trained = [
            (each, _installed(folder / each.environment, each.packages, sdk)) for each in wanted
        ]
        with tempfile.TemporaryDirectory() as scratch:
            found = differences(trained, Path(scratch))
    finally:
        for each in [] if keep else wanted:
            shutil.rmtree(folder / each.environment, ignore_errors=True)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, difference in found.items():
        print(f"{name}: {difference or 'equal bits'}")
        results[name]["served"] = {"date": _today(), "difference": difference}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if any(found.values()) else 0


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def _built(folder: Path) -> Path:
    """Return the wheel of the SDK, built from this checkout."""
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    _run(command, cwd=ROOT / "train")
    (wheel,) = sorted(wheels.glob("*.whl"))
    return wheel


def _installed(environment: Path, packages: Sequence[str], sdk: Path) -> Path:
    """Return the Python of an environment that has the packages and the SDK."""
    python = environment / "bin" / "python"
    pinned = environment / "packages.txt"
    wanted = "\n".join(packages)
    if not pinned.exists() or pinned.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(environment, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment)])
        _run([python, "-m", "pip", "install", "--quiet", *packages])
        pinned.write_text(wanted, encoding="utf-8")
    _run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(sdk)])
    return python


def _run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    ran = subprocess.run(command, cwd=cwd, env=_bare(), capture_output=True, text=True, check=True)
    return ran.stdout


def _bare() -> Mapping[str, str]:
    """Return this environment without what would let an environment see the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _versions(python: Path) -> Mapping[str, str]:
    versions: dict[str, str] = json.loads(_run([python, "-c", VERSIONS]))
    return versions


def _keep(trainer: Trainer, document: Mapping[str, Any], versions: Mapping[str, str]) -> None:
    """Write a result beside those of the other libraries."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    named = [each.partition("==")[0].partition("[")[0] for each in trainer.packages]
    lower = {name.lower().replace("_", "-"): version for name, version in versions.items()}
    results[trainer.name] = {
        "date": _today(),
        "of": trainer.digest(),
        "versions": {name: lower[name.lower().replace("_", "-")] for name in ["python", *named]},
        "batches": document["batches"],
        "lacking": document["lacking"],
        "points": [_without_folders(each) for each in document["points"]],
    }
    order = [each.name for each in trainers()]
    kept = {name: results[name] for name in order if name in results}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _without_folders(point: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what came of a point without the folders of this machine, and without output."""
    said = [line for line in point["because"] if not line.startswith("|")]
    because = [re.sub(r"/\S*/(checkpoints|work)\b", r"\1", line) for line in said]
    return {**point, "because": because}


if __name__ == "__main__":
    sys.exit(main())
