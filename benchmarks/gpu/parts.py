"""What a real GPU says of Shunter's assumptions: all parts, one after the other, in ten minutes.

    benchmarks/gpu/run [--out FILE] [--only readings,pairs] [--limit SECONDS] [--rehearse]

Each part is a module beside this one and runs in a process of its own, so that one that fails
leaves the others. A part without its GPU says "not measured: no GPU". What comes of all is one JSON
document with driver, versions and date, written again after each part. `--rehearse` runs all that
can run on a CPU, with tiny models: it shows that the parts work, and its figures say nothing.

`python -m docs.factors_page` takes the document as benchmarks/gpu/results.json.
"""

import argparse
import datetime as dt
import importlib
import importlib.util
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.machine import NO_GPU, Machine, NotMeasured, machine

ROOT = Path(__file__).parents[2]
PARTS = {
    "readings": 60,
    "visible_devices": 60,
    "suspend": 200,
    "boundaries": 60,
    "slicing": 90,
    "checkpoints": 100,
    "pairs": 150,
    "determinism": 60,
}
"""Each with the seconds that it may take."""
LIMIT_S = 570


def main() -> int:
    """Measure what can be measured, and write the document."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "gpu.json", help="the document"
    )
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, by comma")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for all together")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with tiny models")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.part:
        return measure_one(told.part, rehearses=told.rehearse)
    names = told.only.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    measure_all(names, told.out, told.limit, rehearses=told.rehearse)
    return 0


def measure_all(names: list[str], out: Path, limit_s: float, *, rehearses: bool) -> None:
    """Measure parts, each in a process of its own, until all of the time is used up."""
    until_s = time.monotonic() + limit_s
    document: dict[str, Any] = {**surroundings(), "rehearsal": rehearses, "parts": {}}
    out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        begun_s = time.monotonic()
        # A rehearsal may be on a machine that does much else, and nobody waits for a GPU.
        part_s = PARTS[name] * (4 if rehearses else 1)
        allowed_s = min(part_s, until_s - begun_s)
        found = measured(name, allowed_s, rehearses=rehearses)
        found["took_s"] = round(time.monotonic() - begun_s, 1)
        document["parts"][name] = found
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{name:16} {found['took_s']:6.1f} s  {in_a_line(found)}", flush=True)
    print(f"written to {out}", flush=True)


def measured(name: str, allowed_s: float, *, rehearses: bool) -> dict[str, Any]:
    """Measure one part; why not, where that fails."""
    if allowed_s < 5:
        return {"not measured": "the time for all parts is used up: raise --limit"}
    words = [sys.executable, "-m", "benchmarks.gpu.parts", "--part", name]
    words += ["--rehearse"] * rehearses
    try:
        ran = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=allowed_s, check=False
        )
    except subprocess.TimeoutExpired:
        return {"not measured": f"it took longer than {allowed_s:.0f} s"}
    try:
        found: dict[str, Any] = json.loads(ran.stdout.rpartition("\nRESULT ")[2])
    except ValueError:
        said = (ran.stderr or ran.stdout).strip().splitlines()[-3:]
        return {"not measured": f"it failed with status {ran.returncode}: {' | '.join(said)}"}
    return found


def measure_one(name: str, *, rehearses: bool) -> int:
    """Be the process of one part."""
    part = importlib.import_module(f"benchmarks.gpu.{name}")
    try:
        found = part.measure(machine(rehearses=rehearses))
    except NotMeasured as error:
        found = {"not measured": str(error)}
    print(f"\nRESULT {json.dumps(found)}")
    return 0


def in_a_line(found: dict[str, Any]) -> str:
    """Return what came of a part, for people."""
    if "not measured" in found:
        return f"not measured: {found['not measured']}"
    return str(found.get("in words", "measured"))


def surroundings() -> dict[str, Any]:
    """Return driver, versions and date."""
    found: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "gpu": NO_GPU,
    }
    here: Machine = machine(rehearses=False)
    found.update(here.about)
    for name in ("torch", "numpy", "cuda.bindings"):
        found[name] = version_of(name)
    return found


def version_of(name: str) -> str:
    """Return the version of a library, or that it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return "not installed"
    return str(getattr(module, "__version__", "unknown"))


if __name__ == "__main__":
    sys.exit(main())
