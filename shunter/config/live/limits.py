"""The limits under which supervisors work, wherever they do: how long they wait, and for what."""

from signal import Signals
from typing import Annotated, Self, TypedDict

from pydantic import Field, model_validator

from shunter.config.section import Section, Span, Stretch

SignalName = Annotated[str, Field(pattern="^SIG[A-Z0-9]+$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
_SECOND = 1_000_000


class LimitsSection(Section):
    """What supervisors and their jobs are given of time and space."""

    cooperative: Stretch = Field(
        default=60 * _SECOND, description="how long a job may take to save before it is signalled"
    )
    signal: Stretch = Field(
        default=60 * _SECOND, description="how long after its signal before it is told to end"
    )
    restart: Stretch = Field(
        default=10 * _SECOND, description="how long after SIGTERM before SIGKILL, on suspension"
    )
    suspend_signal: SignalName = Field(
        default="SIGUSR1", description="the signal of suspend mode 'signal'"
    )
    grace: Span = Field(
        default=10 * _SECOND, description="how long after SIGTERM before SIGKILL, on cancellation"
    )
    launch: Stretch = Field(
        default=20 * _SECOND, description="how long a supervisor may take to start"
    )
    heartbeat: Stretch = Field(
        default=5 * _SECOND, description="how often the scheduler shows that it lives"
    )
    heartbeat_deadline: Stretch = Field(
        default=900 * _SECOND, description="without a sign for so long, supervisors end their jobs"
    )
    sample: Span = Field(
        default=10 * _SECOND,
        description="how often the speed and use of each job are sampled; 0 never",
    )
    output_mb: int = Field(
        default=1024,
        ge=1,
        le=1_048_576,
        description="what is kept of what a rank prints to each of stdout and stderr; beyond it "
        "the middle is dropped, and at least three quarters of it stay: the first quarter, and the "
        "end",
    )
    keep: Span = Field(
        default=0,
        description="how long output and records of jobs that have ended are kept, such as '90d'; "
        "0 for ever; checkpoints are never removed",
    )
    ports: tuple[Port, Port] = Field(
        default=(20_000, 28_999),
        description="the first and the last port on which the ranks of a job may meet",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.suspend_signal not in Signals.__members__:
            raise ValueError(f"suspend_signal = {self.suspend_signal!r} is no signal here")
        if self.ports[0] > self.ports[1]:
            raise ValueError("ports: expected the first port, then the last")
        if self.heartbeat_deadline < 3 * self.heartbeat:
            raise ValueError("heartbeat_deadline: expected three times heartbeat or more")
        return self


class SharedLimits(TypedDict):
    """Fields of `shunter.backends.live.settings.Limits`, in seconds and bytes."""

    cooperative_s: float
    signal_s: float
    restart_s: float
    suspend_signal: int
    grace_s: float
    launch_s: float
    heartbeat_deadline_s: float
    sample_s: float
    output_bytes_max: int
    gang_ports: tuple[int, int]


def shared_limits(section: LimitsSection) -> SharedLimits:
    """Return the limits that each kind of backend takes from its table."""
    return {
        "cooperative_s": section.cooperative / 1e6,
        "signal_s": section.signal / 1e6,
        "restart_s": section.restart / 1e6,
        "suspend_signal": Signals[section.suspend_signal].value,
        "grace_s": section.grace / 1e6,
        "launch_s": section.launch / 1e6,
        "heartbeat_deadline_s": section.heartbeat_deadline / 1e6,
        "sample_s": section.sample / 1e6,
        "output_bytes_max": section.output_mb << 20,
        "gang_ports": (section.ports[0], section.ports[1] + 1),
    }
