"""What a daemon is asked, each call once: one client returns its answer, the other awaits it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar, Unpack

from shunter.client import requests, transport
from shunter.client.job_request import JobOptions
from shunter.client.requests import Ask
from shunter.client.transport import Settings

Answered = TypeVar("Answered")
Events = TypeVar("Events")
Output = TypeVar("Output")


class Calls(ABC, Generic[Answered, Events, Output]):
    """The calls of a client.

    `Answered` is a document, or what is awaited for one; `Events` and `Output` are iterated over,
    or asynchronously so.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, ca_file: str | None = None
    ) -> None:
        """Name the daemon; nothing is sent yet.

        Args:
            url: unix:PATH or http(s)://HOST:PORT; None: SHUNTER_URL, else the usual socket.
            token: over TCP; None: SHUNTER_TOKEN, else the file SHUNTER_TOKEN_FILE.
            ca_file: certificates to trust; None: SHUNTER_CA_FILE, else those of the system.
        """
        settings = Settings(url, token, ca_file)
        self.address = settings.address
        self._connect(settings)

    @abstractmethod
    def _connect(self, settings: Settings) -> None:
        """Make what sends requests."""

    @abstractmethod
    def _ask(self, ask: Ask) -> Answered:
        """Return the document that answers a request, or raise ShunterError."""

    @abstractmethod
    def _follow(self, ask: Ask) -> Events:
        """Yield the events of an answer as they come."""

    @abstractmethod
    def _read(self, ask: Ask) -> Output:
        """Yield the bytes of an answer as they come."""

    def daemon(self) -> Answered:
        """Return the cluster and the user as whom the daemon sees this client."""
        return self._ask(requests.read("/daemon"))

    def queue(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        group: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Answered:
        """Return the jobs that have not ended; `user` may be "me"."""
        wanted = {"user": user, "queue": queue, "group": group, "state": state, "limit": limit}
        return self._ask(requests.read("/jobs", **wanted))

    def forecast(self, *, user: str | None = None) -> Answered:
        """Return when jobs start and end, foreseen; of others' jobs for admins only."""
        return self._ask(replace(requests.read("/forecast", user=user), is_slow=True))

    def forecast_of(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Answered:
        """Return when a job would start and end; nothing is submitted."""
        return self._ask(requests.imagined(command, options))

    def history(self, *, user: str | None = None, limit: int | None = None) -> Answered:
        """Return jobs that have ended, the last one first."""
        return self._ask(requests.read("/history", user=user, limit=limit))

    def job(self, job_id: str, *, wait_s: float = 0) -> Answered:
        """Return everything about a job, at its end if that comes within some seconds."""
        return self._ask(requests.read("/jobs/{}", job_id, wait_s=wait_s or None))

    def why(self, job_id: str, at: str | None = None) -> Answered:
        """Return why a job is where it is, or was at an event or instant."""
        return self._ask(requests.read("/jobs/{}/why", job_id, at=at))

    def counterfactuals(self, job_id: str, at: str | None = None) -> Answered:
        """Return what would make a waiting job start; of others' jobs for admins only."""
        asked = requests.read("/jobs/{}/counterfactuals", job_id, at=at)
        return self._ask(replace(asked, is_slow=True))

    def cancel(self, job_id: str) -> Answered:
        """End a job, or keep it from starting."""
        return self._ask(requests.act("/jobs/{}/cancel", job_id))

    def cancel_jobs(self, job_ids: Sequence[str]) -> Answered:
        """End jobs in one step: none starts on the GPUs of another that ends."""
        return self._ask(requests.together("cancel", job_ids))

    def suspend_jobs(self, job_ids: Sequence[str]) -> Answered:
        """Suspend jobs in one step: none starts on the GPUs that another leaves."""
        return self._ask(requests.together("suspend", job_ids))

    def suspend(self, job_id: str) -> Answered:
        """Save a job, take it off its GPUs, and hold it."""
        return self._ask(requests.act("/jobs/{}/suspend", job_id))

    def resume(self, job_id: str) -> Answered:
        """Let a held job start again."""
        return self._ask(requests.act("/jobs/{}/resume", job_id))

    def discard_checkpoint(self, job_id: str) -> Answered:
        """Let a job go on without what it saved on servers that do not answer."""
        return self._ask(requests.act("/jobs/{}/discard-checkpoint", job_id))

    def set_aside(self, job_id: str) -> Answered:
        """End a job's attempt, whatever its records say, and hold the job."""
        return self._ask(requests.act("/jobs/{}/set-aside", job_id))

    def set_priority(self, job_id: str, priority: int) -> Answered:
        """Give a job another priority; the higher goes first."""
        return self._ask(requests.act("/jobs/{}/priority", job_id, body={"priority": priority}))

    def resize(self, job_id: str, gpus: int) -> Answered:
        """Give an elastic job another number of GPUs; if it runs, it goes on with them."""
        return self._ask(requests.act("/jobs/{}/resize", job_id, body={"gpus": gpus}))

    def view(self) -> Answered:
        """Return which GPUs are free, who may be proposed, and the version of that."""
        return self._ask(requests.read("/view"))

    def propose(
        self, job_id: str, candidates: Sequence[Mapping[str, int]], *, version: int
    ) -> Answered:
        """Propose places for a job, the best first; one is granted whole, or none.

        Args:
            job_id: an admitted job of this user.
            candidates: each by server a mask of its GPUs, bit i for GPU i; all of the job's GPUs.
            version: that of the view in which they were found.
        """
        places = [dict(one) for one in candidates]
        body = {"job_id": job_id, "version": version, "candidates": places}
        return self._ask(requests.act("/proposals", body=body))

    def groups(self, group: str | None = None, *, user: str | None = None) -> Answered:
        """Return a multi-job with its members, or all that have not ended."""
        return self._ask(requests.read("/groups", group=group, user=user))

    def cancel_group(self, group: str, *, user: str | None = None) -> Answered:
        """End all members of a multi-job that have not ended; again changes nothing more."""
        body = {"group": group, "user": user}
        return self._ask(requests.act("/groups/cancel", body=body))

    def set_group_priority(self, group: str, priority: int, *, user: str | None = None) -> Answered:
        """Give all members of a multi-job that have not ended a priority."""
        body = {"group": group, "user": user, "priority": priority}
        return self._ask(requests.act("/groups/priority", body=body))

    def nodes(self) -> Answered:
        """Return the servers."""
        return self._ask(requests.read("/nodes"))

    def drain(self, node: str) -> Answered:
        """Start nothing new on a server."""
        return self._ask(requests.act("/nodes/{}/drain", node))

    def restore(self, node: str) -> Answered:
        """Put a drained server back to work."""
        return self._ask(requests.act("/nodes/{}/restore", node))

    def quarantine_gpu(self, node: str, gpu: int) -> Answered:
        """Start nothing new on one GPU of a server."""
        return self._ask(requests.act("/nodes/{}/gpus/{}/quarantine", node, str(gpu)))

    def release_gpu(self, node: str, gpu: int) -> Answered:
        """Put a quarantined GPU back to work."""
        return self._ask(requests.act("/nodes/{}/gpus/{}/release", node, str(gpu)))

    def state(self, at: str | None = None) -> Answered:
        """Return what is true, or was at an event or instant."""
        return self._ask(requests.read("/state", at=at))

    def decision(self, seq: int | str) -> Answered:
        """Return the decision that an event belongs to."""
        return self._ask(requests.read("/decisions/{}", str(seq)))

    def events(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        job: str | None = None,
        node: str | None = None,
        kind: str | None = None,
    ) -> Answered:
        """Return a page of events, and where the next one begins."""
        params: dict[str, object] = {"job": job, "node": node, "kind": kind}
        return self._ask(requests.read("/events", after=after, limit=limit, **params))

    def stream(
        self,
        *,
        after: int | None = None,
        job: str | None = None,
        node: str | None = None,
        kind: str | None = None,
    ) -> Events:
        """Yield events as they become durable, until the daemon stops.

        Raises:
            UnreachableError: no daemon answers, or it went away without an end.
        """
        params = {"after": after, "job": job, "node": node, "kind": kind}
        return self._follow(requests.read("/stream", **params))

    def logs(
        self,
        job_id: str,
        *,
        rank: int = 0,
        attempt: int | None = None,
        stream: str = "stdout",
        since: str | None = None,
        follow: bool = False,
        skip: int | None = None,
        tail: int | None = None,
    ) -> Output:
        """Yield what a rank of a job printed; with `follow` until the job has ended.

        `tail` asks for the last so many bytes of one stream of an attempt only.
        """
        ask = requests.read(
            "/jobs/{}/logs",
            job_id,
            rank=rank,
            attempt=attempt,
            stream=stream,
            since=since,
            follow=follow,
            skip=skip,
            tail=tail,
        )
        return self._read(ask)

    def marked_logs(
        self,
        job_id: str,
        position: str,
        *,
        rank: int = 0,
        attempt: int | None = None,
        stream: str = "stdout",
        since: str | None = None,
    ) -> Output:
        """Yield what a rank prints from a position on, until the job has ended.

        The position is "start", or where to go on. Before each piece comes a line with the position
        after it and its length in bytes; the line `end 0` is the last.
        """
        params = {"rank": rank, "attempt": attempt, "stream": stream, "since": since}
        return self._read(
            requests.read("/jobs/{}/logs", job_id, follow=True, position=position, **params)
        )


def silence_s(ask: Ask, *, waits: bool = False) -> float | None:
    """Return for how long a daemon may be silent; None: for ever.

    That is before its answer, and between the pieces of one.

    Args:
        ask: what it is asked.
        waits: whether it answers as things happen.
    """
    if ask.is_slow:
        return transport.SLOW_READ_S
    if ask.params.get("follow") == "true":  # a job may print nothing for days
        return None
    return transport.WAIT_READ_S if waits or "wait_s" in ask.params else transport.READ_S
