"""Derive the statistics behind `tiresias-like` from the GPU times of the Tiresias simulator.

    python -m shunter.workloads.generators.derive_tiresias yarn-gput1000.csv tiresias.json

The file has one number of GPU-seconds a line below a header; ours is shunter/policies/data/. Only
quantiles leave it. What is above GPU_S_MAX, a twentieth of the samples, is left out: those jobs
have nine tenths of all GPU time, so that a handful of them would decide the load of a
trace of a thousand jobs.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shunter.errors import TraceError, UsageError
from shunter.workloads.generators.draws import PROBABILITIES, quantile

GPU_S_MAX: Final = 400_000

SOURCE: Final = (
    "yarn-gput1000.csv of the Tiresias simulator (SymbioticLab, commit 959f9b0), Apache License "
    "2.0 (Gu et al., NSDI 2019): 1,001 GPU times of jobs"
)


def derive_table(samples_gpu_s: Sequence[int]) -> dict[str, object]:
    """Return the table as it is shipped, from all samples in GPU-seconds."""
    ordered = sorted(sample for sample in samples_gpu_s if sample <= GPU_S_MAX)
    return {
        "source": SOURCE,
        "derived_by": "shunter/workloads/generators/derive_tiresias.py",
        "samples": len(ordered),
        "probabilities": PROBABILITIES,
        "gpu_s": [round(quantile(ordered, probability)) for probability in PROBABILITIES],
    }


def main(arguments: Sequence[str]) -> None:
    """Read the samples named first, write the table to the file named second."""
    if len(arguments) != 2:
        raise UsageError("derive_tiresias takes two paths: yarn-gput1000.csv tiresias.json")
    _, *lines = Path(arguments[0]).read_text(encoding="utf-8").split()
    if not lines or not all(line.isdigit() for line in lines):
        raise TraceError(f"{arguments[0]}: expected a header and whole GPU-seconds, one a line")
    table = derive_table([int(line) for line in lines])
    shown = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    Path(arguments[1]).write_text("{\n" + ",\n".join(shown) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
