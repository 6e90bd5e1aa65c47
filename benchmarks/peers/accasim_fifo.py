"""Jobs first in, first out on servers, in AccaSim 1.1.3: its FIFO and its first fit, no output.

    python benchmarks/peers/accasim_fifo.py JOBS GPUS SERVERS

JOBS is that of simpy_fifo.py, with whole seconds. Prints JSON as that does. AccaSim sorts all that
waits at each event, so it is for traces with a short queue. It needs `pip install accasim==1.1.3`.
"""

import collections
import collections.abc
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# AccaSim takes the instant 0 for "not begun".
ORIGIN_S = 1000


def simulate(lines: list[str], gpus: int, servers: int, folder: str) -> tuple[float, list[int]]:
    """Simulate jobs; return the CPU seconds of the loop, and how long each waited, in seconds."""
    # Written for Python 3.9 and older, which had this name here too; nothing else of it needs them.
    collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]  # see above
    from accasim.base.allocator_class import FirstFit
    from accasim.base.event_class import JobFactory
    from accasim.base.resource_manager_class import ResourceManager, Resources
    from accasim.base.scheduler_class import FirstInFirstOut
    from accasim.base.simulator_class import Simulator
    from accasim.utils.reader_class import Reader

    class Rows(Reader):  # type: ignore[misc]  # AccaSim has no types
        """Hands jobs on."""

        def __init__(self, factory: Any) -> None:
            super().__init__(factory)
            self._rows = requests(lines)

        def _read(self, current_time: int) -> dict[str, Any] | None:
            row = next(self._rows, None)
            if row is None:
                self.stop_submission()
            return row

    each = {"server": {"core": gpus // servers}}
    manager = ResourceManager(Resources(groups=each, resources={"server": servers}))
    factory = JobFactory(manager)
    simulator = Simulator(
        "jobs",
        None,
        FirstInFirstOut(FirstFit()),
        resource_manager=manager,
        reader=Rows(factory),
        job_factory=factory,
        scheduling_output=False,
        statistics_output=False,
        show_statistics=False,
        RESULTS_FOLDER_PATH=folder,
        LOG_LEVEL="ERROR",
    )
    begun_s = time.process_time()
    simulator.start_simulation()
    return time.process_time() - begun_s, simulator.mapper.wtimes


def requests(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Yield jobs as AccaSim takes them: each wants as many units of one GPU, on any servers."""
    for number, line in enumerate(lines):
        submit, duration, gpus = line.split()
        yield {
            "job_id": number,
            "queued_time": ORIGIN_S + int(float(submit)),
            "duration": int(float(duration)),
            "requested_nodes": int(gpus),
            "requested_resources": {"core": 1},
        }


def main() -> None:
    """Simulate, and print JSON."""
    path, gpus, servers = sys.argv[1:]
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        loop_s, waits_s = simulate(lines, int(gpus), int(servers), folder)
    assert len(waits_s) == len(lines), "AccaSim refused jobs"
    worked_s = sum(job["duration"] for job in requests(lines))
    jct_s = (sum(waits_s) + worked_s) / len(lines)
    print(json.dumps({"jobs": len(lines), "jct_s": jct_s, "loop_cpu_s": loop_s}), flush=True)
    # What listens to AccaSim's log is a thread that does not end.
    os._exit(0)


if __name__ == "__main__":
    main()
