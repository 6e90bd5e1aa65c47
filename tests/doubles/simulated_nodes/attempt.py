"""One attempt on a simulated node: its program and the supervisor over it, as one state machine.

What a supervisor records, notes and answers is what `shunter.backends.node.supervision` does. All
ranks of an attempt on one node do the same at the same instants.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shunter.backends.node import (
    EXIT_SUSPENDED,
    FACTS,
    READ_MOST,
    STOP_S,
    STRONGER,
    TERMINATED,
    Known,
    Note,
    Order,
    RankStarted,
    Sample,
    Shares,
    Started,
    State,
    Status,
)
from tests.doubles.simulated_nodes.machine import Machine, Timer
from tests.doubles.simulated_nodes.program import SimulatedProgram

__all__ = ["Attempt", "Key", "Run"]

Key = tuple[str, int]
KILLED, PID = 128 + 9, 1
Why = Literal["", "suspend", "terminate", "fence", "heartbeat", "rank"]


@dataclass(slots=True)
class Run:
    """From when to when an attempt had processes, and the shares it had last.

    Instants are those of its machine, which `clock.uptime_ns()` counts.
    """

    job: str
    attempt: int
    gpus: tuple[str, ...]
    begun_ns: int
    ended_ns: int | None = None
    shares: Shares | None = None


class Attempt:
    """An attempt from its start on; its records stay when it is over.

    Args:
        machine: where it runs.
        order: what its supervisor is started with.
        folder: where its records would lie.
        files: the job's checkpoints there, each with the instant it was written, in ns.
        announce: told that there is something to read.
    """

    def __init__(
        self,
        machine: Machine,
        order: Order,
        folder: str,
        files: dict[str, tuple[bytes, int]],
        announce: Callable[[Key], None],
    ) -> None:
        self.order = order
        self.run = Run(order.job, order.attempt, order.gpus, machine.now_ns, shares=order.shares)
        self.status: Status | None = None
        self.is_held = True
        """Whether its supervisor is alive."""
        self.is_stopped = False
        self._machine, self._files, self._announce = machine, files, announce
        self._folder = folder
        self._program = SimulatedProgram.of(order.ranks[0].argv)
        self._notes: list[Note] = []
        self._trimmed = self._facts = 0
        self._why: Why = ""
        self._stage = ""
        self._is_asked = self._has_saved = False
        self._saved_ns: int | None = None
        self._timers: dict[str, Timer] = {}
        self._doing, self._left_ns, self._since_ns = "", 0, machine.now_ns
        self._then: Callable[[], None] = self._train
        self._done_ns = self._kept_ns()
        self.started = Started(
            boot=machine.boot,
            started_ns=machine.host_ns(),
            pid=PID,
            placement=order.placement,
            ranks=tuple(RankStarted(cpus=each.cpus, pinned=each.pinned) for each in order.ranks),
            port=order.port,
            gpus=order.gpus,
            job=order.job,
            attempt=order.attempt,
            term=order.term,
        )
        self._do("start", self._program.start_us * 1000, self._train)
        self._watch_heartbeat()

    @property
    def key(self) -> Key:
        """Its job and number."""
        return self.order.job, self.order.attempt

    @property
    def state(self) -> State:
        """Where it stands, by its records and its lock."""
        if self.status is not None:
            return "ended"
        return "running" if self.is_held else "lost"

    @property
    def last(self) -> int:
        """The number of its last note."""
        return self._trimmed + len(self._notes)

    def known(self, after: int | None) -> Known:
        """Return all that is known of it, with the notes after one; None: unread."""
        notes: tuple[Note, ...] = ()
        facts, first = None, 0
        if after is not None:
            first = max(0, after - self._trimmed)
            facts = self._facts + sum(note.what in FACTS for note in self._notes[:first])
            notes = tuple(self._notes[first : first + READ_MOST])
        return Known(
            job=self.order.job,
            attempt=self.order.attempt,
            folder=self._folder,
            state=self.state,
            started=self.started,
            status=self.status,
            after=after or 0,
            facts=facts,
            notes=notes,
            is_all=after is not None and not self._notes[first + len(notes) :],
        )

    def acknowledge(self, upto: int) -> None:
        """Drop the notes up to a number, whose facts are in a log."""
        count = min(upto - self._trimmed, len(self._notes))
        if self.is_held and count > 0:
            self._facts += sum(note.what in FACTS for note in self._notes[:count])
            self._trimmed += count
            del self._notes[:count]

    def sample(self) -> Sample:
        """Return how far it is."""
        program = self._program
        done_ns = self._done_ns
        if self._doing == "work" and not self.is_stopped:
            done_ns += self._machine.now_ns - self._since_ns
        return Sample(
            job=self.order.job,
            attempt=self.order.attempt,
            at_ns=self._machine.host_ns(),
            pids=(self.started.pid,),
            step=done_ns // (program.step_us * 1000),
            batch_s=program.step_us / 1e6,
        )

    def obey(self, do: str) -> bool:
        """Do what its supervisor is told; say whether there was one to take it."""
        if not self.is_held:
            return False
        if do == "suspend":
            self._suspend(self.order.suspend.mode)
        elif do in ("terminate", "fence"):
            self.end("terminate" if do == "terminate" else "fence")
        elif do == "stop" and not self._why:
            if not self.is_stopped and "stop" not in self._timers:
                self._after("stop", round(STOP_S * 1e9), self._stand_still)
        elif do == "continue" and not self._why:
            self._go_on()
        return True

    def end(self, why: Why) -> None:
        """End it: at once, but that one which is terminated has its grace."""
        if why == "terminate" and self._why not in ("terminate", "fence", "heartbeat"):
            self._begin(why, (("terminate", self.order.grace_s), ("kill", 0.0)))
        elif why not in ("terminate", self._why):
            self._begin(why, (("kill", 0.0),))

    def lose(self) -> None:
        """Let its supervisor and all its processes be gone, without a word."""
        if self.is_held:
            self._close()

    def _do(self, what: str, for_ns: int, then: Callable[[], None]) -> None:
        """Have the program do something for so long."""
        self._doing, self._left_ns, self._then = what, for_ns, then
        self._since_ns = self._machine.now_ns
        if not self.is_stopped:
            self._after("program", for_ns, then)

    def _halt(self) -> None:
        """Note what has been done of what the program does, and do no more of it."""
        if timer := self._timers.pop("program", None):
            timer.cancel()
            passed_ns = self._machine.now_ns - self._since_ns
            self._left_ns -= passed_ns
            self._done_ns += passed_ns if self._doing == "work" else 0

    def _train(self) -> None:
        if self._program.tells:
            self._note("training")
        self._go_on_working()

    def _go_on_working(self) -> None:
        if self._is_asked:
            self._save()
            return
        left_ns = max(0, self._program.work_us * 1000 - self._done_ns)
        every_ns = self._program.checkpoint_us * 1000
        for_ns = min(left_ns, every_ns or left_ns)
        self._do("work", for_ns, lambda: self._worked(for_ns))

    def _worked(self, for_ns: int) -> None:
        self._done_ns += for_ns
        if self._done_ns >= self._program.work_us * 1000:
            self._exit(self._program.exit_code)
        else:
            self._save()

    def _save(self) -> None:
        self._do("save", self._program.save_us * 1000, self._saved)

    def _saved(self) -> None:
        data, files = str(self._done_ns).encode(), self._files
        files.update(
            {f"done.{rank.env['RANK']}": (data, self._machine.now_ns) for rank in self.order.ranks}
        )
        self._saved_ns, self._has_saved = self._machine.host_ns(), self._why == "suspend"
        if self._program.tells:
            step = self._done_ns // (self._program.step_us * 1000)
            self._note("saved", checkpoint="done", step=step, bytes=len(data))
        if self._is_asked:
            self._exit(EXIT_SUSPENDED)
        else:
            self._go_on_working()

    def _kept_ns(self) -> int:
        """Return how much is done by the checkpoint that lies here."""
        kept = [self._files.get(f"done.{rank.env['RANK']}", (b"0", 0)) for rank in self.order.ranks]
        return min(int(data) for data, _ in kept)

    def _suspend(self, mode: str) -> None:
        if self._why or mode == "never":
            return
        limits = self.order.suspend
        first = STRONGER.index(mode) if mode in STRONGER else STRONGER.index("restart")
        limits_s = (limits.cooperative_s, limits.signal_s, limits.restart_s)
        stages = tuple(zip(STRONGER[first:], limits_s[first:], strict=True))
        self._note("requested", mode=mode)
        self._begin("suspend", (*stages, ("kill", 0.0)))

    def _begin(self, why: Why, stages: tuple[tuple[str, float], ...]) -> None:
        self._why, self._stage = why, ""
        self._go_on()
        self._escalate(stages)

    def _escalate(self, stages: tuple[tuple[str, float], ...]) -> None:
        """Enter the next stage, and those after it once its time is over."""
        (stage, limit_s), *others = stages
        if self._why == "suspend" and self._stage and stage in STRONGER:
            self._note("escalated", mode=stage)
        self._stage = stage
        if others:
            self._after("stage", round(limit_s * 1e9), lambda: self._escalate(tuple(others)))
        self._signal(stage)

    def _signal(self, stage: str) -> None:
        """Have the program do what the means of a stage makes it do."""
        heeds, signal = self._program.heeds, self.order.suspend.signal
        if stage == "kill":
            self._halt()
            self._after("program", self._program.dies_us * 1000, lambda: self._exit(KILLED))
        elif stage in ("restart", "terminate"):
            if heeds != "nothing":
                self._exit(TERMINATED)
        elif (stage, heeds) == ("signal", "request"):  # nobody listens, so it dies of it
            self._exit(128 + signal)
        elif (stage, heeds) in (("cooperative", "request"), ("signal", "signal")):
            self._is_asked = True
            if self._program.tells:
                self._note("acknowledged")
            if self._doing == "work":
                self._halt()
                self._save()

    def _stand_still(self) -> None:
        self._halt()
        self.is_stopped = True
        self._note("stopped")

    def _go_on(self) -> None:
        """Let the program go on, and say so if it stood still."""
        if timer := self._timers.pop("stop", None):
            timer.cancel()
        if self.is_stopped:
            self.is_stopped = False
            if "program" not in self._timers:
                self._do(self._doing, self._left_ns, self._then)
            self._note("continued")

    def _exit(self, code: int) -> None:
        """Write how it ended, and be gone."""
        signalled = self._stage == "signal" and code == 128 + self.order.suspend.signal
        was_made_to = self._why == "suspend" and (self._stage in ("restart", "kill") or signalled)
        saved = code == EXIT_SUSPENDED or (self._has_saved and code != 0)
        self.status = Status(
            code=code,
            codes=tuple(code for _ in self.order.ranks),
            suspended=self._why in ("", "suspend") and (saved or was_made_to),
            why=self._why,
            saved=saved,
            saved_ns=self._saved_ns,
            ended_ns=self._machine.host_ns(),
        )
        self._close()
        self._announce(self.key)

    def _close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.is_held, self.run.ended_ns = False, self._machine.now_ns

    def _note(self, what: str, **fields: object) -> None:
        note = {"n": self.last + 1, "what": what, "at_ns": self._machine.host_ns(), **fields}
        self._notes.append(Note(**note))  # type: ignore[arg-type]  # as their kinds have them
        self._announce(self.key)

    def _watch_heartbeat(self) -> None:
        """Kill it at its first look after there was no sign of life for too long."""
        assert self.order.heartbeat is not None
        deadline_s = self.order.heartbeat.deadline_s
        over_ns = self._machine.beat_ns + round((deadline_s + min(1.0, deadline_s / 4)) * 1e9)
        left_ns = over_ns - self._machine.now_ns
        if left_ns <= 0:
            self.end("heartbeat")
        else:
            self._after("heartbeat", left_ns, self._watch_heartbeat)

    def _after(self, what: str, after_ns: int, action: Callable[[], None]) -> None:
        if timer := self._timers.pop(what, None):
            timer.cancel()

        def fire() -> None:
            del self._timers[what]
            action()

        self._timers[what] = self._machine.add(after_ns, fire)
