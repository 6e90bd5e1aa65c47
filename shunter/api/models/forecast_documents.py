"""Answers about when jobs start and end: P50 and P90 of simulations that go on from now."""

from typing import Literal

from pydantic import Field

from shunter.api.models.model import Document, Instant, Model


class BandPart(Model):
    """An instant as P50 and P90: with that probability it has come by then."""

    p50_us: int | None = Field(description="microseconds since the log began; null: not foreseen")
    p90_us: int | None
    p50: Instant | None
    p90: Instant | None


class ForecastRow(Model):
    """When a job starts and ends."""

    id: str
    name: str
    user: str
    gpus: int
    state: str = Field(description="as in the queue; `imagined`: it was not submitted")
    start: BandPart | None = Field(description="when it is given GPUs next; null: it has some")
    end: BandPart


class EndsAccuracyPart(Model):
    """How forecasts of ends held that are made again from what was known then."""

    ended: int = Field(description="how many jobs have ended in all; none: no share says anything")
    jobs: int = Field(description="that were there and whose P90 has come since, each counted once")
    by_p50: int = Field(description="how many of them ended by their P50")
    by_p90: int
    share_by_p90: float | None = Field(description="null: no job counts")


class AccuracyPart(Model):
    """How forecasts held that are made again from what was known then."""

    moments: int
    jobs: int = Field(description="that waited there and whose P90 has come, each counted once")
    by_p50: int = Field(description="how many of them started by their P50")
    by_p90: int
    share_by_p90: float | None = Field(description="null: no job counts")
    ends: EndsAccuracyPart


class ForecastDocument(Document):
    """When jobs start and end, and how far to trust that."""

    evidence: Literal["simulated"]
    seq: int = Field(description="the event after which the simulations go on")
    now: Instant
    now_us: int
    policy: str
    samples: int = Field(description="how many simulations the quantiles are of")
    jobs: tuple[ForecastRow, ...]
    accuracy: AccuracyPart
    assumptions: tuple[str, ...]


class ChangePart(Model):
    """A change with which a job starts."""

    kind: str = Field(
        description="what is changed: end, ends, good_end, good_ends, size, priority, quota, "
        "servers"
    )
    words: str
    jobs: tuple[str, ...] = Field(description="those that would end")
    starts_us: int
    starts: Instant


class ChangesPart(Model):
    """What would make a job start, each change tried in a simulation."""

    evidence: Literal["simulated"]
    tried: int = Field(description="how many changes were tried")
    tried_words: tuple[str, ...] = Field(description="each of them in words")
    not_tried: tuple[str, ...] = Field(
        description="ends that it needs and that could not be tried, in words"
    )
    starts_us: int | None = Field(description="when it starts with no change; null: it does not")
    starts: Instant | None
    found: tuple[ChangePart, ...]
    assumptions: tuple[str, ...]


class StartsIfDocument(Document):
    """What would make a job start at a moment."""

    counterfactuals: ChangesPart | None = Field(description="null: it does not wait there")
