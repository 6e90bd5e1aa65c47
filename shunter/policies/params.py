"""The parameters of a policy: a strict table, where durations may be written "90s" or "1h"."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

if TYPE_CHECKING:
    from shunter.policies.migration import MakingRoom

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
DURATION_US_MOST = 300 * 365 * 86_400 * 1_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")
_EXPECTED = "expected a duration such as 90, '90s', '5m' or '2h'"


def duration_us(value: Any) -> int:
    """Return the microseconds in a number of seconds or in a text like "1h30m".

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, bool):
        # pydantic reports a ValueError with its key; a TypeError would pass it by.
        raise ValueError(_EXPECTED)  # noqa: TRY004 see above
    if isinstance(value, int | float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError("a duration must be finite")
        return _bounded(value * 1_000_000)
    text = str(value).replace(" ", "")
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{_EXPECTED}, not {value!r}")
    return _bounded(sum(float(number) * UNITS_US[unit] for number, unit in parts))


def _bounded(value_us: float) -> int:
    if not abs(value_us) <= DURATION_US_MOST:
        raise ValueError("a duration must be shorter than 300 years")
    return round(value_us)


def duration_text(value_us: int) -> str:
    """Return a duration as people write it, "1h30m"; reading it again gives the same."""
    parts = []
    for unit, size_us in reversed(UNITS_US.items()):
        count, value_us = divmod(value_us, size_us)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


Duration = Annotated[
    int,
    BeforeValidator(duration_us),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["number", "string"], "title": "duration: seconds, or '1h30m'"}),
]


class PolicyParams(BaseModel):
    """The base of every policy's table; alone, that of a policy without parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    full_waits: ClassVar[bool] = False
    """Whether its plans tell waits job by job, also of those that lose their GPUs."""

    @property
    def needs_rounds(self) -> str:
        """Why the policy can decide in rounds only; empty: at every event as well.

        One whose ranks change all the time while a job runs would plan every microsecond.
        """
        return ""

    def record(self) -> dict[str, Any]:
        """Return the table for the log; keys that change no event may be left out."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True, slots=True)
class Extra:
    """A package that a policy computes with, and that not everybody has installed.

    Args:
        name: of the package.
        module: what is imported of it.
        hint: how it is installed.
        otherwise: what can be done without.
    """

    name: str
    module: str
    hint: str
    otherwise: str


class MakeRoomParams(BaseModel):
    """Moves of running jobs for gangs that wait for GPUs near together.

    Xiao, SOSP student research competition 2017.
    """

    model_config = PolicyParams.model_config

    cost: Duration = Field(
        gt=0,
        default=10_000_000,
        description="what a move costs each GPU of the job (Gandiva: 8 to 10 s with PyTorch); all "
        "moves for a gang together must cost less than its GPUs times the wait they save it",
    )
    moves_most: int = Field(
        default=4,
        ge=1,
        le=16,
        description="how many jobs one plan moves at most; the text leaves it open; ours",
    )
    every: Duration = Field(
        gt=0,
        default=60_000_000,
        description="how long after a plan to look again while a gang waits so and nothing else "
        "happens; ours",
    )

    def making_room(self) -> "MakingRoom":
        """Return what plans them."""
        from shunter.policies.migration import MakingRoom

        return MakingRoom(self.cost, self.moves_most, self.every)
