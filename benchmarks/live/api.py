"""A real daemon with a long queue, asked as people ask it: whole commands, and single requests.

    python -m benchmarks.live.api [--queued 5000,10000,100000] [--best-of 5]

`queue_s` and `queue_json_s` are whole processes of the command line, from their start to their end,
with all jobs in what is printed, `queue_cpu_s` the processor time of the first and of the daemon
for it (`queue_daemon_cpu_s`); they are left out where nobody would print the queue. `screen_s` is
the one request behind the first 200 rows, which has all counts.
`answer_s` is the daemon's answer to a small request, `submit_s` that to a submission, durable, over
a connection that is open: the medians. `rss_mib` is what the daemon occupies. Prints JSON, a
line for each length of the queue.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.commands import ROOT, Ran, shunter
from shunter.client import Client

BUDGET_COMMAND_S = 0.5
BUDGET_CPU_S = {5_000: 0.4}
"""By the jobs in the queue: what a command may use of a processor, with the daemon's part."""

BUDGET_SCREEN_S = 0.5
BUDGETS_RSS_MIB = {100_000: 600}
BUDGET_RSS_MIB = 300
PRINTED_MOST, TASKS_MOST = 20_000, 10_000
PATIENCE_S = 60.0
CONFIG = """\
[[cluster.nodes]]
name = "n0"
gpus = 4
[policy]
trigger = "event"
[backend]
kind = "local"
[backend.local]
root = "attempts"
[server]
listen = "unix:{root}/s"
[log]
url = "log.db"
"""


@contextmanager
def daemon(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `shunter serve` in a folder."""
    (root / "site.toml").write_text(CONFIG.format(root=root), encoding="utf-8")
    said = root / "said"
    with said.open("wb") as file:
        words = [sys.executable, "-m", "shunter", "serve", str(root / "site.toml")]
        process = subprocess.Popen(words, stderr=file, env=environment(root))
    end = time.monotonic() + PATIENCE_S
    while not re.search("^ready", said.read_text(encoding="utf-8"), re.MULTILINE):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the daemon did not start: {said.read_text(encoding='utf-8')}")
        time.sleep(0.05)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def environment(root: Path) -> dict[str, str]:
    """Return the environment of a command that talks to the daemon of a folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "SHUNTER_URL": f"unix:{root}/s"}


def timed(do: Callable[[], object], runs: int) -> list[float]:
    """Return how long each of some runs took, in seconds."""
    found = []
    for _ in range(runs):
        begun = time.perf_counter()
        do()
        found.append(time.perf_counter() - begun)
    return found


def measure(root: Path, queued: int, runs: int) -> dict[str, object]:
    """Fill a queue, and ask for it."""
    with daemon(root) as process, Client(f"unix:{root}/s") as client:
        holds = client.submit(["sleep", "3600"], gpus=4, suspend_mode="restart")
        for first in range(0, queued, TASKS_MOST):
            last = min(queued, first + TASKS_MOST) - 1
            client.submit_many(["true"], gpus=4, array=(first, last, 1, None), name="sweep")

        def command(*words: str) -> Ran:
            ran = shunter(*words, environment=environment(root))
            assert ran.printed.count("sweep/") >= queued, "every job is printed"
            return ran

        document: dict[str, object] = {"benchmark": "live_api", "queued": queued}
        if queued <= PRINTED_MOST:
            before_s = cpu_s(process.pid)
            queues = [command("queue") for _ in range(runs)]
            daemon_cpu_s = (cpu_s(process.pid) - before_s) / runs
            queue_cpu_s = min(ran.cpu_s for ran in queues)
            json_s = min(command("queue", "--json").wall_s for _ in range(runs))
            document |= {
                "queue_cpu_s": round(queue_cpu_s + daemon_cpu_s, 3),
                "queue_daemon_cpu_s": round(daemon_cpu_s, 3),
                "budget_queue_cpu_s": BUDGET_CPU_S.get(queued),
                "queue_s": round(min(ran.wall_s for ran in queues), 3),
                "queue_json_s": round(json_s, 3),
                "budget_queue_s": BUDGET_COMMAND_S,
            }
        document |= {
            "screen_s": round(min(timed(lambda: client.queue(limit=200), runs)), 4),
            "budget_screen_s": BUDGET_SCREEN_S,
            "answer_s": round(statistics.median(timed(client.daemon, 20 * runs)), 4),
            "submit_s": round(
                statistics.median(timed(lambda: client.submit(["true"], gpus=4), 4 * runs)), 4
            ),
            "rss_mib": rss_mib(process.pid),
            "budget_rss_mib": BUDGETS_RSS_MIB.get(queued, BUDGET_RSS_MIB),
        }
        client.drain("n0")  # or they would all begin when the one that holds the GPUs ends
        client.cancel(holds.id)
        holds.wait(PATIENCE_S)
    return document


def cpu_s(pid: int) -> float:
    """Return the processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> int:
    """Return what a process occupies."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) // 1024


def main() -> None:
    """Measure, and print a JSON document for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", default="5000,10000,100000")
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    for queued in map(int, options.queued.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(Path(folder), queued, options.best_of)), flush=True)


if __name__ == "__main__":
    main()
