"""The turns of one attempt on GPUs that it shares: how many, for how long, and what service.

A turn counts from when it really began to when it really ended, though that was seen later
(`TurnStarted.began_us`, `TurnEnded.ended_us`); so does the fold count service. One that is not over
ends with what ends the attempt's work, or its GPUs. Each server of a gang tells of its own part:
the turn counts while all of them are on, and how far they are apart is the *skew* of the gang.
"""

from dataclasses import dataclass, field

from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSuspended,
    LaunchFailed,
    TurnEnded,
    TurnStarted,
)
from shunter.events.facts.jobs import JOB_ENDS
from shunter.events.kinds import Event
from shunter.events.values.allocation import Share
from shunter.events.values.ids import NodeName

_OVER = (JobSuspended, AttemptEnded, AttemptLost, LaunchFailed, GpusReleased, *JOB_ENDS)


@dataclass(slots=True)
class AttemptTurns:
    """The turns so far of an attempt; times in microseconds.

    `changed_us` is when the last one began or ended (None: there was none), or its work began.
    `gpus` are those of the turn that it has, 0: it has none. `past_us` and `past_gpu_us` are of
    turns that are over. `gang` is how many GPUs a turn is on, where servers tell of parts (0: they
    do not), `parts` since when which of them are on, with their GPUs; `skews_us` how far apart they
    began. `places` is where its last turn was, by server.
    """

    count: int = 0
    changed_us: int | None = None
    gpus: int = 0
    past_us: int = 0
    past_gpu_us: int = 0
    gang: int = 0
    parts: dict[NodeName, tuple[int, int]] = field(default_factory=dict)
    skews_us: list[int] = field(default_factory=list)
    places: dict[NodeName, Share] = field(default_factory=dict)

    @property
    def is_on(self) -> bool:
        """Whether it has its turn."""
        return bool(self.gpus)

    def on_us(self, now_us: int) -> int:
        """Return for how long it had its turn, up to an instant."""
        return self.past_us + self._present_us(now_us)

    def service_gpu_us(self, now_us: int) -> int:
        """Return its service up to an instant, in GPU-microseconds."""
        return self.past_gpu_us + self.gpus * self._present_us(now_us)

    def take(self, event: Event) -> None:
        """Go through the next event about its job while it is under way."""
        if isinstance(event, TurnStarted):
            began_us = event.at_us if event.began_us is None else event.began_us
            self.parts |= {share.node: (began_us, share.gpus) for share in event.shares}
            self.places |= {share.node: share for share in event.shares}
            gpus = sum([gpus for _, gpus in self.parts.values()])
            if gpus >= self.gang:
                self._begin(gpus)
        elif isinstance(event, TurnEnded):
            for node in event.nodes or tuple(self.parts):
                self.parts.pop(node, None)
            if self.gpus or not self.gang:
                self._change(event.at_us if event.ended_us is None else event.ended_us)
                at_us = self.changed_us or 0
                self.parts = {node: (at_us, gpus) for node, (_, gpus) in self.parts.items()}
        elif isinstance(event, AttemptStarted):
            self._change(event.at_us if event.started_us is None else event.started_us)
        elif isinstance(event, _OVER):
            self.parts.clear()
            gone_us = event.ended_us if isinstance(event, AttemptEnded) else None
            if self.gpus:
                self._change(event.at_us if gone_us is None else gone_us)

    def _begin(self, gpus: int) -> None:
        """Begin a turn, that of a gang when the last of its parts did."""
        began = [began_us for began_us, _ in self.parts.values()]
        self._change(max(began))
        self.count += 1
        self.gpus = gpus
        if len(began) > 1:
            self.skews_us.append(max(began) - min(began))

    def _change(self, at_us: int) -> None:
        """End the turn that it has, if any; nothing changes before what changed last."""
        at_us = at_us if self.changed_us is None else max(at_us, self.changed_us)
        present_us = self._present_us(at_us)
        self.past_us += present_us
        self.past_gpu_us += self.gpus * present_us
        self.gpus, self.changed_us = 0, at_us

    def _present_us(self, now_us: int) -> int:
        """Return how long the turn lasts that it has."""
        return max(0, now_us - self.changed_us) if self.gpus and self.changed_us is not None else 0
