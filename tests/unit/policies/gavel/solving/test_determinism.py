"""The same problem gives the same bits, in any process and with any number of BLAS threads."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[5]
PROGRAM = """
import numpy as np
from shunter.policies.gavel.answers import max_min_fairness
from tests.unit.policies.gavel.solving.instances import groups_of
for shared in (False, True):
    shares = max_min_fairness(groups_of(6, 90, 3, shared, True), np.ones(90))
    print(shares.fractions.tobytes().hex(), shares.pair_fractions.tobytes().hex())
"""


def solved_with(threads: str) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_bits_do_not_depend_on_process_or_threads() -> None:
    assert solved_with("1") == solved_with("4")
