"""What a paper compares, and running it: every contender in every scene, in every variant.

A scene is a trace at a load on a cluster; a variant changes something for all contenders, such as
what a restart costs. All contenders of a scene see the same jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

from shunter.config import LoadedConfig
from shunter.core import JobResult
from shunter.events import Outcome
from shunter.run import Report, load_jobs, run_all, simulate
from shunter.workloads import Trace
from shunter_papers.tables import Row, Table

KEPT = (
    *("policy", "oracle", "jobs", "jct_s", "wait_s", "makespan_s", "gpu_utilisation"),
    *("preemptions", "migrations", "log"),
)
"""What a row keeps of its run's document; none of it differs between equal runs."""


@dataclass(frozen=True)
class Contender:
    """A policy under the paper's name for it; `settings` are keys of the config."""

    label: str
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """What is different for everybody; `title` stands in tables."""

    name: str
    title: str
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A trace at a load.

    `load` is the one asked for, `load_offered` that of the very jobs.
    `notes` are sentences to be read with every number of it.
    """

    trace: str
    load: float
    load_offered: float | None
    config: LoadedConfig
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Run:
    """One contender in one variant of one scene.

    `jobs` is the config the scene's jobs are of: contenders and variants change none of them.
    """

    contender: Contender
    variant: Variant
    config: LoadedConfig
    jobs: "_Jobs"


@dataclass(frozen=True, eq=False)
class _Jobs:
    """Names the jobs of a scene; equal names are equal jobs."""

    name: str
    config: LoadedConfig

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Jobs) and self.name == other.name


def run_scenes(
    scenes: Sequence[Scene],
    variants: Sequence[Variant],
    contenders: Sequence[Contender],
    *,
    workers: int = 1,
    report: Report | None = None,
) -> list[Table]:
    """Run everything and return one table for each scene.

    Rows follow the variants, and within one the contenders.

    Args:
        scenes: traces with their loads.
        variants: each is run in every scene.
        contenders: the first is the baseline.
        workers: how many processes.
        report: told how many runs are done.
    Raises:
        ConfigError: a setting is wrong.
        TraceError: a trace is.
    """
    runs = [
        _Run(contender, variant, _config(scene, variant, contender), _jobs(scene))
        for scene in scenes
        for variant in variants
        for contender in contenders
    ]
    rows = run_all(_play, runs, workers, report)
    each = len(variants) * len(contenders)
    return [_table(scene, rows[i * each : (i + 1) * each]) for i, scene in enumerate(scenes)]


def growth(results: Iterable[JobResult]) -> float | None:
    """Return the mean JCT of the last quarter of the jobs over the first's.

    By order of submission, over finished jobs; None of fewer than four. Where jobs come faster
    than they are served it is far above 1, and every mean depends on where the trace ends.
    """
    finished = sorted(
        (result for result in results if result.status == Outcome.finished),
        key=lambda result: result.ordinal,
    )
    spans = [result.jct_us or 0 for result in finished]
    quarter = len(spans) // 4
    if not quarter or not sum(spans[:quarter]):
        return None
    return fmean(spans[-quarter:]) / fmean(spans[:quarter])


def _config(scene: Scene, variant: Variant, contender: Contender) -> LoadedConfig:
    settings = {"policy.name": contender.policy, **variant.settings, **contender.settings}
    return scene.config.replaced(settings, f"{contender.label}, {variant.name}")


def _jobs(scene: Scene) -> _Jobs:
    config = scene.config.config
    made = config.workload.generate
    # What is read is the same on any cluster; what is made up depends on seed and cluster too.
    rest = f"{config.seed} {config.cluster.gpus}" if made is not None else ""
    return _Jobs(f"{config.workload.model_dump_json()} {rest}", scene.config)


@lru_cache(maxsize=1)
def _loaded(jobs: _Jobs) -> Trace:
    """Return the jobs; a process that plays scene after scene reads a file once."""
    return load_jobs(jobs.config)


def _play(run: _Run) -> Row:
    result = simulate(run.config, trace=_loaded(run.jobs))
    document: Mapping[str, object] = result.document
    stories = list(result.stories())
    return Row(
        label=run.contender.label,
        variant=run.variant.name,
        variant_title=run.variant.title,
        document={name: document[name] for name in KEPT},
        cluster=result.document["cluster"],
        trace=result.document["trace"],
        growth=growth(stories),
        jct_s=tuple(
            sorted(
                story.jct_us / 1e6
                for story in stories
                if story.status == Outcome.finished and story.jct_us is not None
            )
        ),
    )


def _table(scene: Scene, rows: Sequence[Row]) -> Table:
    policy = scene.config.config.policy
    return Table(
        trace=scene.trace,
        load=scene.load,
        load_offered=scene.load_offered,
        round_s=policy.round_us / 1e6 or None,
        notes=scene.notes,
        rows=tuple(rows),
    )
