"""The records of attempts that are batch jobs, on the folder that all nodes share with us.

Everything here waits for a file server, so it runs in a thread, one call at a time.
"""

import select
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from shunter.backends.agents.orders import Order
from shunter.backends.node.attempts import numbers_in, raise_fence, raise_term
from shunter.backends.node.batch.claims import claimed_by, withdraw
from shunter.backends.node.heartbeat import write_beat
from shunter.backends.node.messages.attempt_records import a_job, number_of, status_in
from shunter.backends.node.messages.shapes import checked
from shunter.backends.node.messages.wire import Answer, Found, Known
from shunter.backends.node.output.files import piece_of
from shunter.backends.node.processes.attempt_watch import UNREAD
from shunter.backends.node.records import count_in, create_private, folder_of, get, own_folder, put
from shunter.backends.node.remote.reports import Reports
from shunter.backends.node.remote.session import OUTPUT, READ_BYTES_MAX, TOLD_OF_JOB
from shunter.backends.slurm.jobs.attempt import JobAttempt, Patience
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key
from shunter.events.values.ids import NodeName

Question = Mapping[str, Any]


class JobRecords:
    """What lies below a root, and which of it is watched."""

    def __init__(
        self, root: str, queue: Callable[[], QueueView | None], patience: Patience
    ) -> None:
        self.root = root
        self.watched: set[Key] = set()
        self._queue = queue
        self._patience = patience
        self._reports = Reports(select.poll(), self._attempt_in)
        self._term = 0
        self._fenced: set[Key] = set()

    def claim(self, question: Question) -> Answer:
        """Take the folder for a term, unless a later one has it."""
        self._term = raise_term(self.root, question["term"])
        if self._term != question["term"]:
            cause = f"term {question['term']} was replaced by {self._term}"
            return {"refused": "replaced", "cause": cause}
        self._reports.begin(self.root)
        self.beat(question)
        return {"root": self.root, "term": self._term}

    def beat(self, question: Question) -> Answer:
        """Show that the scheduler is alive."""
        write_beat(f"{self.root}/heartbeat", question["asked_ns"])
        return {}

    def look(self, question: Question) -> Answer:
        """Beat; return what has changed of attempts since it was told, or is asked anew."""
        self.beat(question)
        for job, attempt in question["anew"]:
            self.of((job, attempt)).told = None
        keys = []
        for job, attempt, read, durable in question["watched"]:
            known = self.of((job, attempt))
            known.read = read
            with suppress(OSError):  # a folder that is gone; it is said again at the next look
                known.acknowledge(durable, self._term)
            keys.append((job, attempt))
        is_all = question["is_all"]
        if is_all:
            self.watched = set(keys)
            self._reports.forget_all_but(keys)
        else:
            self.watched |= set(keys)
        samples = self._reports.samples(keys) if is_all else []
        return {"changed": self._reports.news(keys), "samples": samples, "gpus": None}

    def news(self) -> list[Known]:
        """Return what has changed of the attempts that are watched."""
        return self._reports.news(sorted(self.watched))

    def of(self, key: Key) -> JobAttempt:
        """Return what is known of an attempt."""
        return cast("JobAttempt", self._reports.of(*key))

    def known(self, key: Key) -> Known:
        """Return all that is known of an attempt, and note that it is told."""
        return self._reports.known(*key)

    def prepare(self, order: Mapping[str, Any]) -> str:
        """Store the order of an attempt; return why it may not begin, if so."""
        job, attempt = order["job"], order["attempt"]
        folder = folder_of(self.root, job, attempt)
        fence = count_in(f"{self.root}/jobs/{job}/fence", "attempt")
        if attempt <= fence:
            return f"attempt {attempt} is fenced, as is all up to {fence}"
        for each in (self.root, f"{self.root}/jobs", f"{self.root}/jobs/{job}", folder):
            own_folder(each)
        create_private(f"{folder}/slurm.out").close()  # Slurm's own would be readable to all
        put(f"{folder}/order", order)
        return ""

    def is_begun(self, key: Key) -> bool:
        """Say whether an attempt was asked for already, by us or in an earlier term."""
        folder = folder_of(self.root, *key)
        return get(f"{folder}/order") is not None or bool(claimed_by(folder))

    def order_of(self, key: Key) -> Order | None:
        """Return what was asked for; None if it is gone."""
        found = get(f"{folder_of(self.root, *key)}/order")
        try:
            return None if found is None else msgspec.convert(found, Order)
        except msgspec.ValidationError:
            return None

    def withdraw(self, key: Key, cause: str) -> bool:
        """Let an attempt never begin; False if it has."""
        folder = folder_of(self.root, *key)
        if self.of(key).has_begun():
            return False
        own_folder(folder)  # which may be gone
        is_withdrawn = withdraw(folder)
        if cause and is_withdrawn:  # not before: who begins it would be taken for refused
            put(f"{folder}/refusal", {"cause": cause})
        return is_withdrawn

    def fence(self, job: str, last: int) -> list[Known]:
        """Let no attempt up to one begin, end those that have; return them."""
        raise_fence(self.root, job, last)
        keys = [(job, number) for number in numbers_in(f"{self.root}/jobs/{job}")]
        fenced = []
        for key in keys:
            if key[1] <= last:
                self.order(key, "fence")
                fenced.append(self.known(key))
        return fenced

    def order(self, key: Key, do: str) -> bool:
        """Order something of an attempt; return whether it never begins for that.

        One that has not begun is not to begin, whatever it was told but to stop or continue.
        """
        is_to_leave = do not in ("stop", "continue")
        if is_to_leave and self.withdraw(key, ""):
            return True
        attempt = self.of(key)
        if not attempt.has_begun():
            return True
        if key not in self._fenced and status_in(attempt.folder) is None:
            own_folder(attempt.folder)
            attempt.send({"do": do, "term": self._term})
            self._fenced |= {key} if do == "fence" else set()  # said once, it is not unsaid
        return False

    def give_up(self) -> None:
        """Order those to end that Slurm has given up and that may run all the same."""
        for key in sorted(self.watched - self._fenced):
            if self.of(key).may_live_on():
                with suppress(OSError):
                    self.order(key, "fence")

    def missed(self) -> list[Key]:
        """Return the attempts that have not begun though Slurm has nothing of them."""
        return [key for key in sorted(self.watched) if self.of(key).is_missed()]

    def stopped(self) -> list[Key]:
        """Return the attempts that stand still where they are."""
        return [key for key in sorted(self.watched) if self.of(key).is_stopped]

    def forgotten(self) -> list[Key]:
        """Return the attempts without an end that Slurm's queue has no more."""
        return [key for key in sorted(self.watched) if self.of(key).is_forgotten()]

    def waiting_for(self, nodes: Mapping[NodeName, str]) -> list[tuple[Key, str]]:
        """Return the attempts that wait in Slurm for one of some nodes, with why."""
        queue = self._queue()
        if queue is None or not nodes:
            return []
        found = []
        for key in sorted(self.watched):
            if not queue.is_waiting(key) or claimed_by(self.of(key).folder):
                continue
            order = self.order_of(key)
            placement = () if order is None else order.placement
            causes = [nodes[NodeName(node)] for node, _ in placement if node in nodes]
            found += [(key, cause) for cause in causes[:1]]
        return found

    def inventory(self, question: Question) -> Answer:
        """Return the newest attempts of one job, or some and all that may run, or all."""
        job, wanted, queue = question.get("job"), question.get("wanted"), self._queue()
        if job is not None:
            newest = numbers_in(f"{self.root}/jobs/{job}")[-TOLD_OF_JOB:]
            keys = {(job, number) for number in newest}
        elif wanted is not None and queue is not None:
            alive = {key for key in queue.jobs if queue.alive(key)}
            keys = {(name, attempt) for name, attempt in wanted} | alive
        else:
            keys = set(self._all())
        return {"attempts": [{**each, **UNREAD} for each in map(self._found, sorted(keys))]}

    def read(self, question: Question) -> Answer:
        """Return a piece of what a rank printed, and how much there is."""
        if not OUTPUT.fullmatch(question["name"]):
            raise ValueError(f"no output is named {question['name']!r}")
        path = f"{folder_of(self.root, question['job'], question['attempt'])}/{question['name']}"
        data, size = piece_of(path, question["offset"], min(question["bytes"], READ_BYTES_MAX))
        return {"data": data.decode("latin-1"), "size": size}

    def port(self, question: Question) -> Answer:
        """Return the first port of some that no attempt has."""
        taken = set(self._reports.ports.values())
        return {"port": next((port for port in question["ports"] if port not in taken), None)}

    def _all(self) -> Iterable[Key]:
        for path in sorted(Path(self.root, "jobs").glob("*/*")):
            attempt = number_of(path.name)
            if attempt is not None and checked(path.parent.name, a_job) is not None:
                yield path.parent.name, attempt

    def _found(self, key: Key) -> Found:
        found, _ = self._attempt_in(folder_of(self.root, *key)).look()
        if not self.is_begun(key):
            found["state"] = "absent"
        return {"job": key[0], "attempt": key[1], **found}

    def _attempt_in(self, folder: str) -> JobAttempt:
        job, _, attempt = folder.removeprefix(f"{self.root}/jobs/").partition("/")
        return JobAttempt(folder, (job, int(attempt)), self._queue, self._patience)
