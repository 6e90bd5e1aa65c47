"""Whole runs of any small config that sizes jobs: what is promised at every single event.

Nothing fails; no server is oversubscribed; no job has less than it asks for itself, nor is slower
than with its proportional share; a second run is the same, and the log is decided again.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import LoadedConfig, make_config
from shunter.core import Job, JobPhase, Observers, View
from shunter.core.sizing import Mechanism, whole_of
from shunter.core.speeds import SensitivityTable
from shunter.events import KINDS, Resources
from shunter.policies import why_unusable
from shunter.run import simulate
from tests.property.invariants import check_resources
from tests.slices import searched

# No share is so small that a run has millions of rounds.
CPUS, MEMORY_GB = (0.5, 1.0, 2.0, 3.0), (1.0, 5.0, 20.83, 62.5)
INDEXES = (
    *("fifo", "fifo_easy", "fifo_backfill", "las", "srtf", "drf", "tetris", "tiresias"),
    *("smallest", "sjf", "gittins", "shortest_gpu", "shortest_expected"),
)
MECHANISMS = [each for each in Mechanism if each is not Mechanism.opt or not why_unusable()]
PLACED = (JobPhase.granted, JobPhase.launching, JobPhase.running)
COLUMNS = "job_id,submit_s,duration_s,gpus,model,cpus,memory_gb,gpu_type"


@dataclass(frozen=True)
class Case:
    """A config as a tree, and the files that it names."""

    tree: Mapping[str, Any]
    trace: str
    table: Mapping[str, Any]
    truth: Mapping[str, Any] | None

    def loaded(self, folder: Path, log: str) -> LoadedConfig:
        """Write the files, and return the config with them."""
        workload = {"trace": str(folder / "jobs.csv"), "sensitivity": str(folder / "table.json")}
        (folder / "jobs.csv").write_text(self.trace, encoding="utf-8")
        (folder / "table.json").write_text(json.dumps(self.table), encoding="utf-8")
        tree = {**self.tree, "workload": workload, "log": {"url": str(folder / log)}}
        if self.truth is not None:
            (folder / "truth.json").write_text(json.dumps(self.truth), encoding="utf-8")
            speeds = {"sensitivity": str(folder / "truth.json")}
            tree["simulation"] = {**self.tree["simulation"], "speeds": speeds}
        return make_config(tree)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Return the document of any table; its points are some of all."""
    points = st.lists(st.sampled_from(CPUS), min_size=1, max_size=4, unique=True).map(sorted)
    columns = st.lists(st.sampled_from(MEMORY_GB), min_size=1, max_size=3, unique=True).map(sorted)
    cpus, memory = draw(points), draw(columns)
    fair = draw(st.integers(0, len(cpus) - 1)), draw(st.integers(0, len(memory) - 1))
    steps = st.sampled_from([0.0, 0.0, 0.25, 1.0])

    def matrix() -> list[list[float]]:
        rows = [[draw(st.sampled_from([0.1, 0.3, 1.0])) for _ in memory] for _ in cpus]
        for row in range(len(cpus)):
            for column in range(len(memory)):
                fewer = rows[row - 1][column] if row else 0.0
                less = rows[row][column - 1] if column else 0.0
                rows[row][column] = max(rows[row][column], fewer, less) + draw(steps)
        unit = rows[fair[0]][fair[1]]
        return [[speed / unit for speed in row] for row in rows]

    models: dict[str, Any] = {name: {"table": matrix()} for name in ("one", "zwölf")}
    if draw(st.booleans()):
        models["one"]["multi_gpu"] = {"2": {"table": matrix()}}
    return {
        "proportional_per_gpu": {"cpus": cpus[fair[0]], "memory_gb": memory[fair[1]]},
        "cpu_points": cpus,
        "memory_gb_points": memory,
        "models": models,
    }


def any_of(*values: object) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """Return a server with GPUs, with units, or with CPUs alone."""
    memory_gb, kind = draw(any_of(20, 125, 250, 500)), draw(any_of("gpu", "gpu", "u", "cpu"))
    if kind == "u":
        return {"gpus": 0, "units": 2, "cpus": 6, "memory_gb": memory_gb, "type": "unit"}
    cpus = draw(any_of(4, 7, 12, 64))
    if kind == "cpu":
        return {"gpus": 0, "cpus": cpus, "memory_gb": memory_gb}
    gpus, gpu_type = draw(any_of(1, 2, 4)), draw(any_of("v100", "v100", "k80"))
    return {"gpus": gpus, "cpus": cpus, "memory_gb": memory_gb, "type": gpu_type}


@st.composite
def rows(draw: st.DrawFn) -> str:
    """Return a job: what it asks for may be more than there is."""
    gpus = draw(any_of(0, 1, 1, 1, 2, 3, 4, 8))
    cpus = draw(any_of("", "", "0.5", "3", "8", "100000"))
    memory_gb = draw(any_of("", "", "0.5", "10", "300", "1e6"))
    gpu_type = draw(any_of("", "", "k80", "v100", "unit")) if gpus else ""
    times = f"{draw(any_of(0, 0, 1, 30, 100))},{draw(any_of(1, 20, 50))}"
    model = draw(any_of("one", "one", "zwölf", "unknown", ""))
    return f"{times},{gpus},{model},{cpus or ('' if gpus else '1')},{memory_gb},{gpu_type}"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    servers = draw(st.lists(nodes(), min_size=1, max_size=3))
    policy: dict[str, Any] = {
        "name": draw(st.sampled_from(INDEXES)),
        "sizing": draw(st.sampled_from(MECHANISMS)).value,
        "placement": draw(any_of("consolidated", "spread", "first_fit", "skew")),
        **draw(any_of({"round": "1m"}, {"round": "5m"}, {"trigger": "event"})),
        **draw(any_of({}, {}, {"aging": {"every": "1m", "levels": 2}})),
        **draw(any_of({}, {}, {"guards": {"min_runtime": "1m", "starvation_after": "3m"}})),
    }
    simulation: dict[str, Any] = {
        **draw(any_of({}, {"samples": {"every": "2m", "noise": 0.3}})),
        **draw(any_of({}, {}, {"costs": {"start": "15s", "resume": "5s"}})),
    }
    jobs = [f"j{number},{row}\n" for number, row in enumerate(draw(st.lists(rows(), max_size=9)))]
    named = [{"name": f"n{number}", **node} for number, node in enumerate(servers)]
    return Case(
        {"cluster": {"nodes": named}, "policy": policy, "simulation": simulation},
        "".join([f"{COLUMNS}\n", "first,0,50,1,one,,,\n", *jobs]),
        draw(tables()),
        draw(st.none() | tables()),
    )


def watching(loaded: LoadedConfig) -> Observers:
    """Return a listener to all kinds of events."""
    mechanism, table = loaded.config.policy.sizing, loaded.sensitivity
    assert table is not None
    is_grown = mechanism in (Mechanism.tune, Mechanism.opt)

    def look(event: Any, view: View) -> None:
        check_resources(view._state)
        for job in view.jobs.values():
            if job.phase in PLACED and job.allocation.shares:
                check_floor(job)
                if is_grown and job.spec.gpus and not view.corrections:
                    check_speed(job, view, table)

    return dict.fromkeys(KINDS.values(), look)


def check_floor(job: Job) -> None:
    """Each job has what it asks for itself."""
    beside = sum([share.beside for share in job.allocation.shares], Resources())
    assert Resources(0, job.spec.cpus_milli, job.spec.memory_mb).fit_beside(beside)


def check_speed(job: Job, view: View, table: SensitivityTable) -> None:
    """No job is slower than with its proportional share."""
    first = job.allocation.shares[0].node
    whole = whole_of(view.pools[view.cluster.servers[first].configuration.gpu_type])
    matrix = table.of(job.spec)
    for share in job.allocation.shares:
        each = Resources(0, share.cpus_milli // share.gpus, share.memory_mb // share.gpus)
        if matrix is None:
            assert whole.fair.fit_beside(each)
        else:
            fair = matrix.speed(whole.fair.cpus_milli, whole.fair.memory_mb)
            assert matrix.speed(each.cpus_milli, each.memory_mb) >= fair - 1e-9


@searched(15)
@given(case=cases())
def test_every_promise_holds_at_every_event_of_any_run(case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        loaded = case.loaded(Path(name), "one.db")
        one = simulate(loaded, listeners=[watching(loaded)])
        other = simulate(case.loaded(Path(name), "other.db"))
        for digest in (one.document, other.document):
            digest.pop("elapsed")
        assert one.document["state_digest"] == other.document["state_digest"]
        assert one.document["jobs"] == other.document["jobs"]
        verified = CliRunner().invoke(app, ["replay", "--verify", f"{name}/one.db"])
        assert verified.exit_code == 0, verified.output
