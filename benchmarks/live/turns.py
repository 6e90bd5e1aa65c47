"""What a change of hands costs where jobs share the GPUs of a server in turns.

    python -m benchmarks.live.turns [--seconds 60] [--quantum 1.0] [--batch 0.02] [--plain]

Six jobs of one GPU take turns on four GPUs, which are numbers, under real supervisors and without a
scheduler. By their journals, `switch_ms` is from the end of the last of the turns that end together
to the begin of each that begins then: what a change of hands costs beside the mini-batches that it
waits for (the budget is for the 95th percentile). `late_ms` is how much longer than whole quanta
turns took, their last mini-batches with it. With `--plain` the jobs only sleep, and turns end at
once. Prints JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import shunter
from benchmarks.loop import loop_s
from shunter.backends.node import Order, folder_of, raise_term, read_journal, remains, send, start

BUDGET_SWITCH_MS = 20.0
GPUS, JOBS = 4, 6
PLAIN = "import time\ntime.sleep(3600)"
TRAINING = """
import sys, time
sys.path.insert(0, {package!r})
from shunter import train
run = train.start()
while True:
    time.sleep({batch_s})
    run.step()
"""
Turn = tuple[int, int, int]


def order(root: str, job: str, mask: int, program: str, quantum_s: float) -> Order:
    """Return the order of an attempt that takes turns."""
    suspend = {"mode": "cooperative", "signal": 10}
    said = {
        "job": job,
        "attempt": 1,
        "term": 1,
        "placement": [("n0", mask)],
        "ranks": [
            {
                "argv": [sys.executable, "-I", "-S", "-c", program],
                "env": {"RANK": "0", "WORLD_SIZE": "1"},
                "cpus": [],
                "directory": root,
            }
        ],
        "suspend": {**suspend, "cooperative_s": 1.0, "signal_s": 1.0, "restart_s": 1.0},
        "grace_s": 0.3,
        "heartbeat": None,
        "slicing": {
            "weight": 1.0,
            "is_fixed": False,
            "quantum_us": round(quantum_s * 1e6),
            "wait_most_us": None,
            "boundary_most_us": 10_000_000,
        },
    }
    return Order.decoded(said)


@contextmanager
def running(root: str, program: str, quantum_s: float) -> Iterator[list[str]]:
    """Run the jobs below a folder, and end them."""
    jobs = [f"j{number}" for number in range(JOBS)]
    raise_term(root, 1)
    try:
        for number, job in enumerate(jobs):
            mask = 1 << number % GPUS
            said = start(root, order(root, job, mask, program, quantum_s))
            if said.answer != "started":
                raise SystemExit(f"benchmarks.live.turns: {said}")
        yield jobs
    finally:
        for job in jobs:
            send(folder_of(root, job, 1), {"do": "fence", "term": 1})
        while any(remains(folder_of(root, job, 1)) == "running" for job in jobs):
            time.sleep(0.05)


def turns_of(root: str, job: str) -> list[Turn]:
    """Return the whole turns of a job: from when to when, in nanoseconds, on which GPUs."""
    folder, found, begun = folder_of(root, job, 1), list[Turn](), (0, 0)
    piece = read_journal(folder)
    notes = piece["notes"]
    while not piece["is_all"]:
        piece = read_journal(folder, len(notes))
        notes += piece["notes"]
    for note in notes:
        if note["what"] == "turn_started":
            begun = note["at_ns"], note["mask"]
        elif note["what"] == "turn_ended":
            found.append((begun[0], note["at_ns"], begun[1]))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the most, in milliseconds."""
    ranked = sorted(values)
    at = {"median": 0.5, "p95": 0.95, "most": 1.0}
    return {name: round(ranked[round(part * (len(ranked) - 1))], 2) for name, part in at.items()}


def measure(seconds: float, quantum_s: float, program: str) -> dict[str, object]:
    """Let the jobs take turns for a while, and return the document."""
    with tempfile.TemporaryDirectory() as root, running(root, program, quantum_s) as jobs:
        time.sleep(2 * quantum_s + 1.0)
        since_ns = time.monotonic_ns()
        time.sleep(seconds)
        until_ns = time.monotonic_ns()
        turns = [turns_of(root, job) for job in jobs]
    within = [
        [turn for turn in each if since_ns <= turn[0] and turn[1] <= until_ns] for each in turns
    ]
    ends = sorted(end for each in turns for _, end, _ in each)
    begins = [began for each in within for began, _, _ in each]
    gaps = [(began - ends[bisect(ends, began) - 1]) / 1e6 for began in begins if ends[0] < began]
    lengths = [(end - began) / 1e9 / quantum_s for each in within for began, end, _ in each]
    late = [1e3 * quantum_s * (length - round(length)) for length in lengths]
    return {
        "benchmark": "live_turns",
        "turns": len(lengths),
        "quantum_s": quantum_s,
        "switch_ms": spread(gaps),
        "late_ms": spread(late),
        "switch_p95_ms": spread(gaps)["p95"],
        "budget_switch_p95_ms": BUDGET_SWITCH_MS,
        "loop_s": round(loop_s(), 3),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--quantum", type=float, default=1.0)
    parser.add_argument("--batch", type=float, default=0.02)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    package = str(Path(shunter.__file__).parents[1])
    program = PLAIN if options.plain else TRAINING.format(package=package, batch_s=options.batch)
    print(json.dumps(measure(options.seconds, options.quantum, program)))


if __name__ == "__main__":
    main()
