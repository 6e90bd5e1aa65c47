"""Whoever uses the cluster: they submit, suspend, cancel and drain, and ask again until answered.

They work in a thread of their own, so that a scheduler that is down or slow keeps nobody from doing
the next fault to it.
"""

import heapq
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from shunter.client import Client, JobOptions
from shunter.errors import NotFoundError, RefusedError, ShunterError, UnreachableError
from tests.chaos.programs import command_of
from tests.chaos.scenario import Fault, JobPlan

__all__ = ["People"]

Ask = Callable[[Client], object]
RETRY_S = 0.15


class People:
    """Does what is to be done at its instant; `ids` are the jobs that were acknowledged."""

    def __init__(self, url: str, witnesses: Path, seed: int, look: Callable[[], None]) -> None:
        """Name the daemon; nothing is asked yet.

        Args:
            url: where it listens.
            witnesses: the folder for the files in which jobs say what they do.
            seed: of the scenario.
            look: called now and then by whoever waits here, to see that the daemon is up.
        """
        self.ids: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.complaints: list[tuple[str, str]] = []
        self._url = url
        self._witnesses = witnesses
        self._seed = seed
        self._look = look
        self._begin_s = 0.0
        self._due: list[tuple[float, int, str, Ask]] = []
        self._numbers = count()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def begin(self, jobs: tuple[JobPlan, ...], faults: tuple[Fault, ...], begin_s: float) -> None:
        """Take down what is to be asked when, and begin."""
        self._begin_s = begin_s
        for job in jobs:
            self._at(job.submit_s, f"submit {job.key}", self._submitting(job))
        for fault in faults:
            if fault.what in _ORDERS:
                self._order(fault)
        self._thread.start()

    def finish(self, within_s: float) -> None:
        """Wait until everything has been asked and answered."""
        until_s = time.monotonic() + within_s
        while self._thread.is_alive() and time.monotonic() < until_s:
            self._look()
            self._thread.join(0.05)
        if self._thread.is_alive():
            self.complaints.append(("unanswered", self._due[0][2] if self._due else "an order"))

    def submit(self, job: JobPlan) -> None:
        """Submit a job now, and wait for the answer."""
        self._until_answered(f"submit {job.key}", self._submitting(job))

    def release(self, nodes: Iterable[str]) -> None:
        """Let every job and every host go on."""
        for key in list(self.ids):
            self._until_answered(f"resume {key}", self._ordering("resume", key))
        for node in nodes:
            self._until_answered(f"restore {node}", self._ordering("restore", node))

    def _order(self, fault: Fault) -> None:
        begin, end = _ORDERS[fault.what]
        for at_s, verb in ((fault.at_s, begin), (fault.at_s + fault.lasting_s, end)):
            if verb:
                self._at(at_s, f"{verb} {fault.whom}", self._ordering(verb, fault.whom))

    def _ordering(self, verb: str, whom: str) -> Ask:
        def order(client: Client) -> object:
            if verb in ("drain", "restore"):
                return getattr(client, verb)(whom)
            if whom not in self.ids:
                return None  # it has not been submitted yet
            if verb == "cancel":
                self.cancelled.add(whom)
            return getattr(client, verb)(self.ids[whom])

        return order

    def _submitting(self, job: JobPlan) -> Ask:
        command = command_of(job, self._witnesses, self._seed)

        def submit(client: Client) -> object:
            options: JobOptions = {
                "name": job.key,
                "gpus": job.gpus,
                "suspend_mode": job.mode,
                "total_steps": job.steps,
                "key": job.key,
            }
            if job.is_one_server:
                options["max_level"] = "server"
            self.ids[job.key] = client.submit_many(command, **options)["id"]
            return None

        return submit

    def _at(self, at_s: float, what: str, ask: Ask) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), what, ask))

    def _work(self) -> None:
        while self._due:
            at_s, _, what, ask = self._due[0]
            left_s = self._begin_s + at_s - time.monotonic()
            if left_s > 0:
                time.sleep(min(left_s, 0.05))
                continue
            self._until_answered(what, ask)
            heapq.heappop(self._due)

    def _until_answered(self, what: str, ask: Ask) -> None:
        while True:
            try:
                with Client(self._url) as client:
                    ask(client)
            except UnreachableError:
                if threading.current_thread() is not self._thread:
                    self._look()
                time.sleep(RETRY_S)
            except (NotFoundError, RefusedError) as error:
                if what.startswith("submit"):
                    self.complaints.append(("refused", f"{what}: {error}"))
                return
            except ShunterError as error:
                self.complaints.append(("answer", f"{what}: {error}"))
                return
            else:
                return


_ORDERS = {
    "suspend": ("suspend", "resume"),
    "cancel": ("cancel", ""),
    "drain": ("drain", "restore"),
}
