"""`[workload]`: the jobs of a run, read from a trace or generated."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from shunter.config.section import Positive, Section, Share

Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Row = Annotated[int, Field(ge=0)]


def _known_format(name: str) -> str:
    """Refuse a name that no format has; reading the trace says what is missing."""
    from shunter.workloads.formats import format_names, is_known_format

    if not is_known_format(name):
        raise ValueError(f"expected one of {', '.join(format_names())}")
    return name


FormatName = Annotated[str, AfterValidator(_known_format)]


class EndsSection(Section):
    """Shares of generated jobs that do not finish."""

    failed: Fraction = Field(default=0.0, description="share of jobs that fail after having run")
    cancelled: Fraction = Field(default=0.0, description="share of jobs cancelled after having run")

    @model_validator(mode="after")
    def _leaves_some(self) -> Self:
        if self.failed + self.cancelled > 1:
            raise ValueError("failed + cancelled: expected at most 1 together")
        return self


class GenerateSection(Section):
    """Jobs made up from a seed, after the statistics of a public trace."""

    kind: Literal["philly-like", "tiresias-like", "gavel-like", "synergy-like"] = Field(
        default="philly-like", description="whose statistics"
    )
    jobs: Positive = Field(default=2000, description="how many")
    load: Share = Field(
        default=1.0, description="offered GPU time over the cluster's; 1 is just full"
    )
    jobs_per_hour: Share | None = Field(
        default=None, description="the rate of submissions, instead of the load"
    )
    arrivals: Literal["poisson", "diurnal"] = Field(
        default="poisson", description="rhythm of submissions"
    )
    gpus_max: Positive | None = Field(
        default=None, description="the widest gang; the cluster if left out"
    )
    ends: EndsSection = Field(
        default=EndsSection.usual(), description="shares of jobs that do not finish"
    )
    weights: bool = Field(default=False, description="gavel-like: a fifth of the jobs weigh 5")
    deadlines: bool = Field(
        default=False,
        description="gavel-like: jobs are due after 1.2, 2 or 10 times their duration",
    )
    split: tuple[Weight, Weight, Weight] | None = Field(
        default=None,
        description="synergy-like: weights of image, language and speech models; [20, 70, 10] "
        "if left out",
    )
    short: bool = Field(
        default=False,
        description="synergy-like: jobs take half an hour to eight hours, as in its deployments",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.jobs_per_hour is not None and "load" in self.model_fields_set:
            raise ValueError("load and jobs_per_hour are both given: expected one of them")
        if self.kind != "gavel-like" and (self.weights or self.deadlines):
            raise ValueError(f"kind = {self.kind!r} has no weights and no deadlines")
        if self.kind != "synergy-like" and (self.split is not None or self.short):
            raise ValueError(f"kind = {self.kind!r} has no split, and no short jobs")
        if self.split is not None and not any(self.split):
            raise ValueError("split: expected one of the three weights to be above 0")
        return self

    def recorded(self) -> dict[str, object]:
        """Return what the log records: later keys only where they are used."""
        document = self.model_dump(mode="json")
        for name in ("jobs_per_hour", "weights", "deadlines", "split", "short"):
            if not document[name]:
                del document[name]
        if self.jobs_per_hour is not None:
            del document["load"]
        return document


ONE_OF = "expected either trace = 'FILE' or a table [workload.generate]"


class WorkloadSection(Section):
    """Either a trace or generated jobs; a live cluster needs neither."""

    trace: str | None = Field(default=None, min_length=1, description="a trace file")
    format: FormatName | None = Field(
        default=None, description="the trace's format; guessed from its beginning if left out"
    )
    rows: tuple[Row, Row] | None = Field(
        default=None,
        description="half-open selection after a stable sort by submission: [0, 82247]",
    )
    options: dict[str, str] = Field(
        default={}, description="choices of the format: attempts = 'last'"
    )
    throughputs: str | None = Field(
        default=None,
        min_length=1,
        description="steps per second by kind of job and GPU type: 'builtin:gavel' or a JSON file",
    )
    base_type: str | None = Field(
        default=None,
        min_length=1,
        description="the GPU type of the table at which durations are given; 'v100' if left out",
    )
    sensitivity: str | None = Field(
        default=None,
        min_length=1,
        description="speed by CPUs and memory per GPU, by model: 'builtin:synergy' or a JSON file",
    )
    factors: str | None = Field(
        default=None,
        min_length=1,
        description="what distance, neighbours and packing leave of the speed of models: "
        "'builtin:published' or a TOML file",
    )
    generate: GenerateSection | None = Field(default=None, description="make jobs up instead")

    @property
    def has_jobs(self) -> bool:
        """Whether it names jobs, in one way."""
        return (self.trace is None) != (self.generate is None)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        is_none = self.trace is None and self.generate is None
        is_empty = is_none and not (self.throughputs or self.sensitivity or self.factors)
        if is_empty or not (is_none or self.has_jobs):
            raise ValueError(ONE_OF)
        if self.generate is not None and (self.format or self.rows or self.options):
            raise ValueError(
                "format, rows and options choose from a trace, not from generated jobs"
            )
        if self.rows is not None and self.rows[0] >= self.rows[1]:
            raise ValueError(f"rows = {list(self.rows)}: expected [first, end] with first < end")
        if self.base_type is not None and self.throughputs is None:
            raise ValueError("base_type names a type of a table: expected throughputs = 'FILE' too")
        return self


NO_WORKLOAD = WorkloadSection.usual()
"""What a live cluster has: its jobs are submitted to it."""
