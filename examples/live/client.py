"""A sweep on a live cluster, from Python: submit, wait, and look at what failed.

shunter serve shunter.toml          # in another terminal
python examples/live/client.py
"""

import sys
from concurrent.futures import CancelledError

from shunter.client import Client
from shunter.errors import JobFailedError

PROGRAM = "import os; print(10 / int(os.environ['SHUNTER_ARRAY_INDEX']))"


def main() -> None:
    """Run four tasks, two at a time, one of which cannot work."""
    with Client() as client:
        jobs = client.submit_array(
            [sys.executable, "-c", PROGRAM], array=(0, 3, 1, 2), name="sweep"
        )
        for index, job in enumerate(jobs):
            try:
                job.result()
                print(index, b"".join(job.logs()).decode().strip())
            except JobFailedError as error:
                print(index, "failed with exit code", error.exit_status)
            except CancelledError:
                print(index, "was cancelled")


if __name__ == "__main__":
    main()
