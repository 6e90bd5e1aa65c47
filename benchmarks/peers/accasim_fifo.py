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

# Written for Python 3.9 and older, which had this name here too; nothing else of it needs them.
collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]

from accasim.base.allocator_class import FirstFit  # noqa: E402  # after the line above
from accasim.base.event_class import JobFactory  # noqa: E402
from accasim.base.resource_manager_class import ResourceManager, Resources  # noqa: E402
from accasim.base.scheduler_class import FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402
from accasim.utils.reader_class import Reader  # noqa: E402

# AccaSim takes the instant 0 for "not begun".
ORIGIN_S = 1000


class Rows(Reader):  # type: ignore[misc]  # AccaSim has no types
    """Hands jobs on: each is as many requests for one GPU, which servers share."""

    def __init__(self, factory: JobFactory, lines: list[str]) -> None:
        super().__init__(factory)
        self._rows: Iterator[tuple[int, str]] = iter(enumerate(lines))

    def _read(self, current_time: int) -> dict[str, Any] | None:
        number, line = next(self._rows, (0, ""))
        if not line:
            self.stop_submission()
            return None
        submit, duration, gpus = line.split()
        return {
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
    each = {"server": {"core": int(gpus) // int(servers)}}
    manager = ResourceManager(Resources(groups=each, resources={"server": int(servers)}))
    factory = JobFactory(manager)
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(
            path,
            None,
            FirstInFirstOut(FirstFit()),
            resource_manager=manager,
            reader=Rows(factory, lines),
            job_factory=factory,
            scheduling_output=False,
            statistics_output=False,
            show_statistics=False,
            RESULTS_FOLDER_PATH=folder,
            LOG_LEVEL="ERROR",
        )
        begun_s = time.process_time()
        simulator.start_simulation()
        loop_s = time.process_time() - begun_s
    waits_s = simulator.mapper.wtimes
    assert len(waits_s) == len(lines), "AccaSim refused jobs"
    worked_s = sum(int(float(line.split()[1])) for line in lines)
    found = {"jobs": len(lines), "jct_s": (sum(waits_s) + worked_s) / len(lines)}
    print(json.dumps(found | {"loop_cpu_s": loop_s}), flush=True)
    # What listens to AccaSim's log is a thread that does not end.
    os._exit(0)


if __name__ == "__main__":
    main()
