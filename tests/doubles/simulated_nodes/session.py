"""The agent's end of a session: typed questions in, answers and news out, as lines of bytes.

It answers as `shunter.backends.node.session` does. Questions are decoded into the structs
that the daemon encodes, and answers are encoded from those that it decodes.
"""

import json
from collections.abc import Callable, Iterable
from functools import singledispatchmethod
from typing import Any, Literal

import msgspec

from shunter.backends.live import NEVER
from shunter.backends.node import OWNED_S, PROTOCOL, Answer, Known, Sample, Stand, messages
from tests.doubles.simulated_nodes.attempt import Key
from tests.doubles.simulated_nodes.node import SimulatedNode

__all__ = ["Session"]

Started = Literal["started", "known", "refused", "late"]
PYTHON = (3, 8, 0)
MEANS = "simulated quotas"


class Session:
    """A session with the agent of a node, from its greeting on.

    Args:
        node: whose.
        base: the folder below which it works.
        nonce: the word that it greets with.
        say: takes what it prints.
    """

    def __init__(
        self, node: SimulatedNode, base: str, nonce: str, say: Callable[[bytes], None]
    ) -> None:
        self._node, self._base, self._say = node, base, say
        self._term = 0
        self._root = base
        self._told: dict[Key, tuple[str, int]] = {}
        self._sampled_ns: dict[Key, int] = {}
        greeting = messages.Greeting(
            **self._clocks(),
            base=base,
            boot=node.machine.boot,
            wall_s=0.0,
            python=PYTHON,
            uid=0,
            protocol=PROTOCOL,
        )
        say(f"\n{nonce} ".encode() + msgspec.json.encode(greeting) + b"\n")

    @property
    def is_over(self) -> bool:
        """Whether another one has claimed the node since."""
        return self._term > 0 and self._node.listener != self._tell

    def receive(self, line: bytes, *, is_mute: bool = False) -> None:
        """Answer a question, unless its answer is to be lost."""
        if self.is_over:
            return
        asked = json.loads(line)
        number = asked["id"]

        def reply(answer: Answer) -> None:
            if not is_mute:
                self._say(b'{"id":%d,%b\n' % (number, msgspec.json.encode(answer)[1:]))

        question = messages.QUESTIONS[asked["do"]].decoded(asked)
        if isinstance(question, messages.Switch):
            _Switch(self._node, question, lambda stands: reply(self._switched(stands))).stop()
            return
        try:
            reply(self._answer(question))
        except ValueError as error:
            reply(messages.Failed(**self._clocks(), error=str(error)))

    @singledispatchmethod
    def _answer(self, question: object) -> Answer:
        raise ValueError(f"nobody knows the question {type(question).__name__}")

    @_answer.register
    def _claim(self, claim: messages.Claim) -> Answer:
        node, owner = self._node, self._node.owner
        refused: messages.Refusal | None = None
        cause = ""
        if owner is not None and owner[0] == claim.cluster and owner[1] > claim.term:
            refused, cause = "replaced", f"term {owner[1]} rules here"
        elif owner is not None and owner[0] != claim.cluster:
            silent_ns = node.machine.now_ns - node.machine.beat_ns
            if silent_ns <= OWNED_S * 1e9 or any(one.is_held for one in node.attempts.values()):
                refused, cause = "taken", f"the cluster {owner[0]} rules here"
        elif owner is not None and owner[1] == claim.term and owner[2] != claim.holder:
            refused, cause = "taken", "a scheduler with a copy of this log rules here"
        if refused is not None:
            return messages.ClaimRefused(**self._clocks(), refused=refused, cause=cause)
        node.owner, self._term = (claim.cluster, claim.term, claim.holder), claim.term
        self._root = f"{self._base}/clusters/{claim.cluster}" if claim.cluster else self._base
        node.listener = self._tell
        node.machine.wake()  # the session before ends
        node.machine.note_beat(claim.asked_ns)
        means = MEANS if claim.is_limited else ""
        return messages.Claimed(**self._clocks(), root=self._root, term=claim.term, shares=means)

    @_answer.register
    def _beaten(self, beat: messages.Beat) -> Answer:
        self._node.machine.note_beat(beat.asked_ns)
        return messages.Beaten(**self._clocks())

    @_answer.register
    def _looked(self, look: messages.Look) -> Answer:
        self._node.machine.note_beat(look.asked_ns)
        for key in look.anew:
            self._told.pop(key, None)
        changed, samples = [], []
        for job, number, read, durable in look.watched:
            key, attempt = (job, number), self._node.attempts.get((job, number))
            if attempt is not None:
                attempt.acknowledge(durable)
            self._told[key] = self._told.get(key, ("", 0))[0], read
            changed += self._news(key)
            if look.is_all and attempt is not None and attempt.state == "running":
                samples += self._samples(key)
        return messages.Looked(
            **self._clocks(), changed=tuple(changed), samples=tuple(samples), gpus=None
        )

    @_answer.register
    def _started(self, start: messages.Start) -> Answer:
        order, node = start.order, self._node
        if node.machine.host_ns() > start.before_ns:
            return self._start_answer("late", "the order came too late")
        key = order.job, order.attempt
        if key in node.attempts:
            return self._start_answer("known", key=key)
        refusal = node.begin(order, f"{self._root}/jobs/{order.job}/{order.attempt}")
        return self._start_answer("refused" if refusal else "started", refusal, key)

    @_answer.register
    def _fenced(self, fence: messages.Fence) -> Answer:
        self._node.fence(fence.job, fence.attempt)
        keys = [key for key in self._keys(fence.job) if key[1] <= fence.attempt]
        for key in keys:
            self._node.attempts[key].obey("fence")
        return messages.Fenced(**self._clocks(), fenced=tuple(self._known(key) for key in keys))

    @_answer.register
    def _set_aside(self, question: messages.SetAside) -> Answer:
        if not question.is_stray:
            self._node.fence(question.job, question.attempt)
        attempt = self._node.attempts.get((question.job, question.attempt))
        is_over = attempt is None or not attempt.obey("fence")
        return messages.SetAsideAnswer(**self._clocks(), is_over=is_over)

    @_answer.register
    def _sent(self, send: messages.Send) -> Answer:
        attempt = self._node.attempts.get((send.job, send.attempt))
        taken = attempt is not None and attempt.obey(send.order.do)
        return messages.SendAnswer(**self._clocks(), taken=taken)

    @_answer.register
    def _reshaped(self, question: messages.Reshape) -> Answer:
        attempt = self._node.attempts.get((question.job, question.attempt))
        if attempt is None or not attempt.is_held:
            cause = f"it is not running, but {'absent' if attempt is None else attempt.state}"
            return messages.ReshapeAnswer(**self._clocks(), cpus_milli=0, memory_mb=0, cause=cause)
        has = attempt.run.shares = question.shares
        return messages.ReshapeAnswer(
            **self._clocks(), cpus_milli=has.cpus_milli, memory_mb=has.memory_mb
        )

    @_answer.register
    def _inventory(self, question: messages.Inventory) -> Answer:
        attempts = self._node.attempts
        keys: Iterable[Key] = attempts
        if question.job is not None:
            keys = self._keys(question.job)
        elif question.wanted is not None:
            held = [key for key, attempt in attempts.items() if attempt.is_held]
            keys = {*question.wanted, *held}
        found = tuple(self._known(key, is_unread=True) for key in sorted(keys))
        return messages.InventoryAnswer(**self._clocks(), attempts=found)

    @_answer.register
    def _read(self, question: messages.Read) -> Answer:
        is_there = (question.job, question.attempt) in self._node.attempts
        return messages.ReadAnswer(**self._clocks(), data="", size=0 if is_there else None)

    @_answer.register
    def _port(self, question: messages.Port) -> Answer:
        taken = {each.order.port for each in self._node.attempts.values() if each.is_held}
        free = next((port for port in question.ports if port not in taken), None)
        return messages.PortAnswer(**self._clocks(), port=free)

    def _switched(self, stands: tuple[Stand, ...]) -> Answer:
        return messages.SwitchAnswer(**self._clocks(), stands=stands)

    def _start_answer(self, answer: Started, cause: str = "", key: Key | None = None) -> Answer:
        known = None if key is None else self._known(key)
        return messages.StartAnswer(**self._clocks(), answer=answer, cause=cause, known=known)

    def _keys(self, job: str) -> list[Key]:
        return sorted(key for key in self._node.attempts if key[0] == job)

    def _known(self, key: Key, *, is_unread: bool = False) -> Known:
        """Return all that is known of an attempt, and note that it is told."""
        read = self._told.get(key, ("", 0))[1]
        attempt = self._node.attempts.get(key)
        if attempt is not None:
            known = attempt.known(None if is_unread else read)
        else:
            absent = {"job": key[0], "attempt": key[1], "after": read, "is_all": not is_unread}
            known = NEVER.replaced(**absent)
        if not is_unread:
            self._told[key] = known.state, known.notes[-1].n if known.notes else read
        return known

    def _news(self, key: Key) -> list[Known]:
        """Return what is known of an attempt, if that is new."""
        before = self._told.get(key, ("", 0))
        known = self._known(key)
        return [known] if known.notes or self._told[key] != before else []

    def _tell(self, key: Key) -> None:
        if news := self._news(key):
            self._say(msgspec.json.encode({"changed": news}) + b"\n")

    def _samples(self, key: Key) -> list[Sample]:
        attempt, now_ns = self._node.attempts[key], self._node.machine.now_ns
        if now_ns - self._sampled_ns.get(key, 0) < attempt.order.sample_s * 1e9:
            return []
        self._sampled_ns[key] = now_ns
        return [attempt.sample()]

    def _clocks(self) -> dict[str, Any]:
        now_ns = self._node.machine.host_ns()
        return {"now_ns": now_ns, "up_ns": now_ns}


class _Switch:
    """A switch that is under way: some attempts stop, and then others go on."""

    def __init__(
        self,
        node: SimulatedNode,
        question: messages.Switch,
        on_end: Callable[[tuple[Stand, ...]], None],
    ) -> None:
        self._node, self._question, self._on_end = node, question, on_end

    def stop(self) -> None:
        """Have those stand still that are to; the others go on after that."""
        for key in self._question.stops:
            if attempt := self._node.attempts.get(key):
                attempt.obey("stop")
        self._look()

    def _look(self) -> None:
        if any(self._stance(key) == "running" for key in self._question.stops):
            self._node.machine.add(LOOK_NS, self._look)
            return
        for key in self._question.continues:
            if attempt := self._node.attempts.get(key):
                attempt.obey("continue")
        keys = (*self._question.stops, *self._question.continues)
        self._on_end(
            tuple(Stand(job=key[0], attempt=key[1], stance=self._stance(key)) for key in keys)
        )

    def _stance(self, key: Key) -> messages.Stance:
        attempt = self._node.attempts.get(key)
        if attempt is None:
            return "absent"
        return "stopped" if attempt.is_stopped and attempt.is_held else attempt.state


LOOK_NS = 50_000_000
"""How often a switch looks whether all stand still."""
