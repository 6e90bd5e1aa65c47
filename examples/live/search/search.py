"""Search by successive halving: all configurations train, and at each rung the better half goes on.

    python search.py NAME        on the daemon that SHUNTER_URL names; may be killed and run again
    python search.py --alone     the same search without a scheduler, one after the other

Jamieson and Talwalkar, AISTATS 2016. All configurations are jobs of one group. Who has not reached
the rung goes before who has (priority 1 and 0), so all get there early; then the worse half ends.

The search keeps nothing of its own. Submissions have keys, so one that was made is not made again;
what was reported lies with the daemon; and what is decided follows from that alone.
"""

import json
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from shunter.client import Answer, Client
from shunter.errors import ShunterError, UnreachableError

TRAIN = Path(__file__).with_name("train.py")
CONFIGS = [
    (seed, rate, hidden) for seed, rate in enumerate((0.1, 0.01, 1e-3, 1e-4)) for hidden in (8, 64)
]
RUNGS = (40, 80, 160, 320)
"""Mini-batches; the last is the end of a training."""
PACE_S = 0.03
EVERY_S = 0.5

Reports = Mapping[int, float]
"""Accuracy by mini-batch."""


def better_half(alive: list[int], steps: int, reports: Mapping[int, Reports]) -> list[int]:
    """Return those that go on after a rung, the best first; equals by number.

    One that never got there is the worst.
    """
    ranked = sorted((-reports[one].get(steps, -1.0), one) for one in alive)
    return [one for _, one in ranked[: max(1, len(alive) // 2)]]


class Search:
    """A search on a daemon."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._jobs: dict[int, str] = {}

    def submit(self) -> None:
        """Submit what is not submitted yet."""
        for number, (seed, rate, hidden) in enumerate(CONFIGS):
            words = [sys.executable, str(TRAIN), *map(str, (seed, rate, hidden, RUNGS[-1], PACE_S))]
            self._jobs[number] = self._client.submit(
                words,
                name=f"{self._name}-{number}",
                group=self._name,
                gpus=1,
                priority=1,
                total_steps=RUNGS[-1],
                directory=str(TRAIN.parent),
                key=f"{self._name}/{number}",
            ).id

    def go_on(self) -> int | None:
        """Look at what was reported and order what follows; return the winner once it is known."""
        (group,) = self._client.groups(self._name)["groups"]
        members = {member["id"]: member for member in group["members"]}
        over = {one for one, job_id in self._jobs.items() if members[job_id]["is_over"]}
        reports = {one: self._reports(job_id) for one, job_id in self._jobs.items()}
        alive = list(self._jobs)
        for steps in RUNGS:
            late = [one for one in alive if steps not in reports[one] and one not in over]
            if late:
                self._prefer(late, alive, members)
                return None
            best = better_half(alive, steps, reports)
            for one in alive:
                if one not in best and one not in over:
                    print(f"{steps} steps: {self._jobs[one]} ends, {describe(one, reports)}")
                    self._quietly(self._client.cancel, self._jobs[one])
            alive = best
        (winner,) = alive
        if RUNGS[-1] not in reports[winner]:
            raise SystemExit("no configuration came to its end: `shunter logs` says why")
        return winner if winner in over else None  # it may still be on its way out

    def _prefer(self, late: list[int], alive: list[int], members: Mapping[str, Answer]) -> None:
        """Let those go first that have not reached the rung."""
        for number in alive:
            job_id, wanted = self._jobs[number], int(number in late)
            if members[job_id]["priority"] != wanted and not members[job_id]["is_over"]:
                self._quietly(self._client.set_priority, job_id, wanted)

    def _reports(self, job_id: str) -> Reports:
        """Return what all attempts of a job have reported; the last line may be half written."""
        printed = b"".join(self._client.logs(job_id, skip=0)).decode()
        lines = [json.loads(line) for line in printed.splitlines(keepends=True) if line[-1] == "\n"]
        return {line["step"]: line["accuracy"] for line in lines}

    def _quietly(self, order: Callable[..., Answer], job_id: str, *what: int) -> None:
        """Order something of a job, unless it has ended meanwhile."""
        try:
            order(job_id, *what)
        except UnreachableError:
            raise
        except ShunterError:
            if not self._client.job(job_id)["is_over"]:
                raise


def describe(number: int, reports: Mapping[int, Reports]) -> str:
    """Return a configuration and its last accuracy in words."""
    seed, rate, hidden = CONFIGS[number]
    last = max(reports[number])
    return f"seed {seed}, rate {rate:g}, {hidden} wide: {reports[number][last]:.4f} after {last}"


def search(name: str) -> int:
    """Search on a daemon until there is a winner, over whatever restarts; return its number."""
    with Client() as client:
        found = Search(client, name)
        is_submitted = False
        while True:
            try:
                if not is_submitted:
                    found.submit()
                    is_submitted = True
                winner = found.go_on()
            except UnreachableError as error:
                print(
                    f"the scheduler does not answer, and is asked again: {error}", file=sys.stderr
                )
                winner = None
            if winner is not None:
                client.cancel_group(name)
                return winner
            time.sleep(EVERY_S)


def alone() -> int:
    """Train the same configurations here; return the number of the winner."""
    accuracies = runpy.run_path(str(TRAIN))["accuracies"]
    reports = {number: dict(accuracies(*one, RUNGS[-1])) for number, one in enumerate(CONFIGS)}
    alive = list(reports)
    for steps in RUNGS:
        alive = better_half(alive, steps, reports)
    return alive[0]


def main() -> None:
    """Search, and print the winner."""
    winner = alone() if sys.argv[1] == "--alone" else search(sys.argv[1])
    seed, rate, hidden = CONFIGS[winner]
    print(f"winner: configuration {winner}, seed {seed}, rate {rate:g}, {hidden} wide")


if __name__ == "__main__":
    main()
