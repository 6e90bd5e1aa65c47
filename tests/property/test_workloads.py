"""Laws of traces: what is written is read again, and every row is accounted for."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shunter.core.planning import unfit_for_sizes
from shunter.core.speeds import unfit_contract
from shunter.errors import TraceError
from shunter.events import (
    Dependency,
    DependsWhen,
    GpuType,
    JobId,
    JobSpec,
    Level,
    QueueName,
    SuspendMode,
    UserName,
)
from shunter.workloads import JobEnd, QualityReport, Trace, TraceJob, load_trace
from shunter.workloads.formats import COLUMNS, write_trace
from tests.slices import searched

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
COUNT = st.integers(1, 2**53)
SPAN_US = st.integers(1, 2**31 * 1_000_000)
SPEED = st.floats(0, 1, exclude_min=True)


def specs(gpus: int) -> st.SearchStrategy[JobSpec]:
    """Return specifications of so many GPUs with every other field free."""
    split = st.integers(1, max(1, gpus - 1)).map(lambda n: (n, gpus - n) if gpus > 1 else (gpus,))
    return st.builds(
        JobSpec,
        gpus=st.just(gpus),
        user=TEXT.map(UserName),
        queue=WORD.map(QueueName),
        model=TEXT,
        batch_size=st.none() | COUNT,
        total_steps=st.none() | COUNT,
        cpus_milli=st.integers(0 if gpus else 1, 10**9),
        memory_mb=st.integers(0, 10**9),
        time_limit_us=st.none() | SPAN_US,
        weight=st.floats(0, 1e300, exclude_min=True),
        priority=st.integers(-(2**53), 2**53),
        gpu_types=st.lists(TEXT.map(GpuType), max_size=3).map(tuple),
        name=TEXT,
        group=TEXT,
        command=st.lists(TEXT, max_size=3).map(tuple),
        directory=TEXT,
        gpus_min=st.none() | st.integers(1, gpus) if gpus else st.none(),
        gpus_max=st.none() | st.integers(max(1, gpus), 2**53),
        shapes=st.lists(split, max_size=2).map(tuple) if gpus else st.just(()),
        deadline_us=st.none() | SPAN_US,
        array_index=st.none() | st.integers(0, 2**53),
        tolerance=st.lists(st.tuples(st.sampled_from(Level), SPEED), max_size=2).map(tuple),
        shape_tolerance=st.lists(st.tuples(split, SPEED), max_size=2).map(tuple)
        if gpus
        else st.just(()),
        interference=st.none() | st.floats(0, 1, exclude_max=True),
        migratable=st.booleans(),
        max_level=st.none() | st.sampled_from(Level),
        min_speed=st.none() | SPEED,
        suspend_mode=st.sampled_from(SuspendMode),
        checkpoint_interval_us=st.none() | SPAN_US,
    ).map(_with_what_it_can_have)


def _with_what_it_can_have(spec: JobSpec) -> JobSpec:
    """Return a specification without sizes or contracts that a trace would be refused for."""
    if unfit_for_sizes(spec) is not None:
        spec = replace(spec, gpus_min=None, gpus_max=None)
    if unfit_contract(spec) is not None:
        packed = (((spec.gpus,), 1.0),) if spec.gpus and not spec.shapes else ()
        spec = replace(spec, tolerance=(), shape_tolerance=packed, min_speed=None)
    return spec


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Return traces of a few jobs, some of which depend on earlier ones."""
    ids = draw(st.lists(WORD.map(JobId), min_size=1, max_size=4, unique=True))
    jobs = []
    for number, job_id in enumerate(ids):
        spec = draw(st.sampled_from([0, 1, 6]).flatmap(specs))
        earlier = draw(st.lists(st.sampled_from(ids[:number]), max_size=2)) if number else []
        whens = draw(st.lists(st.sampled_from(DependsWhen), min_size=2, max_size=2))
        needs = tuple(map(Dependency, earlier, whens))
        spec = replace(spec, depends_on=needs)
        submit_us, duration_us = draw(st.integers(0, 2**31 * 1_000_000)), draw(SPAN_US)
        jobs.append(TraceJob(job_id, submit_us, spec, duration_us, draw(st.sampled_from(JobEnd))))
    jobs.sort(key=lambda job: job.submit_us)
    report = QualityReport(len(jobs), len(jobs), len(jobs))
    return Trace("t", "generated", tuple(jobs), "", report)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "t"


@pytest.mark.parametrize("form", ["canonical-csv", "canonical-jsonl"])
@searched(50)
@given(trace=traces())
def test_trace_is_read_as_written(path: Path, form: str, trace: Trace) -> None:
    write_trace(trace, path, form)
    again = load_trace(path, form)
    assert again.jobs == trace.jobs
    assert again.report.sentences() == ()


@pytest.mark.parametrize("form", ["canonical-csv", "canonical-jsonl"])
@searched(50)
@given(trace=traces())
def test_writing_twice_gives_the_same_text(form: str, trace: Trace) -> None:
    first, second = io.StringIO(), io.StringIO()
    write_trace(trace, first, form)
    write_trace(trace, second, form)
    assert first.getvalue() == second.getvalue()


def damaged(header: str, good: str) -> st.SearchStrategy[str]:
    """Return files that begin well and have anything behind."""
    cell = st.sampled_from(["", "1", "-1", "nan", "0", "2.5", "x", '"', "a|b", "[", "1e400"]) | TEXT
    row = st.lists(cell, max_size=6).map(",".join) | st.just(good) | TEXT
    return st.lists(row, max_size=6).map(lambda rows: "\n".join([header, *rows]))


def loaded(path: Path, text: str, form: str) -> Trace | None:
    """Load a text; None if it is refused as a whole."""
    path.write_text(text, encoding="utf-8", newline="")
    try:
        return load_trace(path, form)
    except TraceError:
        return None


def accounted(trace: Trace | None) -> bool:
    if trace is None:
        return True
    report = trace.report
    return (
        report.rows_read == report.rows_kept + report.rows_dropped
        and report.rows_kept == report.rows_selected == len(trace.jobs)
        and all(job.duration_us > 0 and job.submit_us >= 0 for job in trace.jobs)
    )


CASES: list[tuple[str, Callable[[], st.SearchStrategy[str]]]] = [
    (
        "philly-csv",
        lambda: damaged(
            "timestamp,duration,num_gpus,gpu_time,cluster", "2017-10-09 06:13:03,10.0,1,10.0,vc"
        ),
    ),
    (
        "canonical-csv",
        lambda: damaged("submit_s,duration_s,gpus,user,shapes,depends_on", "0,1,1,,,"),
    ),
    ("canonical-jsonl", lambda: damaged("{}", '{"submit_s": 0, "duration_s": 1, "gpus": 1}')),
    ("philly-json", lambda: st.just("[") | TEXT),
]


@pytest.mark.parametrize(("form", "texts"), CASES, ids=[case[0] for case in CASES])
@searched(50)
@given(data=st.data())
def test_every_row_is_kept_or_dropped(
    path: Path, form: str, texts: Callable[[], st.SearchStrategy[str]], data: st.DataObject
) -> None:
    assert accounted(loaded(path, data.draw(texts()), form))


JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


@searched(50)
@given(st.lists(st.dictionaries(st.sampled_from(COLUMNS), JSON_VALUE, max_size=5), max_size=3))
def test_any_json_lines_are_kept_or_dropped(path: Path, rows: list[dict[str, object]]) -> None:
    good = {"submit_s": 0, "duration_s": 1, "gpus": 1}
    text = "\n".join(json.dumps(good | row) for row in rows)
    assert accounted(loaded(path, text, "canonical-jsonl"))
