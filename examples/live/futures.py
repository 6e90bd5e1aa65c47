"""Functions as jobs, from Python: each in a process of its own on the cluster.

pip install 'shunter[functions]'
shunter serve shunter.toml          # in another terminal
python examples/live/futures.py
"""

from concurrent.futures import as_completed

from shunter.client import Client


def half_life(rate: float, *, steps: int = 10_000) -> int:
    """Count the steps until a half is left; a rate of 0 has no answer."""
    left, count = 1.0, 0
    while left > 0.5:
        left, count = left * (1 - rate), count + 1
        if count > steps:
            raise ValueError(f"more than {steps} steps at a rate of {rate}")
    return count


def main() -> None:
    """Run three calls, take each as it ends, and then a whole map."""
    with Client() as client:
        jobs = {client.submit(half_life, rate): rate for rate in (0.5, 0.01, 0.0)}
        told = {}
        for job in as_completed(jobs):
            error = job.exception()
            told[jobs[job]] = job.result() if error is None else f"{type(error).__name__}: {error}"
        for rate in jobs.values():
            print(rate, told[rate])
        with client.executor(gpus=1, name="rates") as executor:
            print(list(executor.map(half_life, [0.1, 0.2, 0.4])))


if __name__ == "__main__":
    main()
