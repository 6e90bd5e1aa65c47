"""A fixed loop in pure Python: the unit in which times of different machines are compared.

    python -m benchmarks.loop [--best-of 3]

It pushes 300,000 tuples on a heap, keeps 4,096 others in a dict, and pops the heap empty: what a
scheduler in Python does most. Prints its CPU seconds as JSON. The slow machine of the budgets needs
0.86 s, the quick one 0.52 s.
"""

import argparse
import heapq
import json
import time


def turn() -> None:
    """Do the work once."""
    heap: list[tuple[int, int, str]] = []
    kept: dict[int, tuple[int, int]] = {}
    for number in range(300_000):
        heapq.heappush(heap, ((number * 7919) % 100_003, number, "x"))
        kept[number & 4095] = (number, number + 1)
    while heap:
        heapq.heappop(heap)


def loop_s(runs: int = 3) -> float:
    """Return the CPU seconds of the quickest of several turns: other work only ever adds."""
    found = []
    for _ in range(runs):
        begun = time.process_time()
        turn()
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=3)
    print(json.dumps({"benchmark": "loop", "cpu_s": loop_s(parser.parse_args().best_of)}))


if __name__ == "__main__":
    main()
