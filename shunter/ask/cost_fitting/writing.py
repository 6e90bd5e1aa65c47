"""What was measured as a config that predicts the same cluster, and as a table of throughputs."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any, Final

from shunter.ask.cost_fitting.attempts import Observed
from shunter.ask.cost_fitting.costs import Fitted, Kind, Launch, kind_of, told_start_up_us
from shunter.core.speeds.speed_model import JobKind
from shunter.errors import TraceError
from shunter.events.values.ids import JobId
from shunter.run.setup import named_kinds

SCHEMA: Final = 1
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNEVEN: Final = 0.2
"""By how much of the mean start-up those of models may differ without a word."""
_NO_TIME: Final = "a simulation takes 0 s for it"
_LEFT_OUT: Final = {
    Launch.start: _NO_TIME,
    Launch.resume: _NO_TIME,
    Launch.migrate: "a simulation takes resume for it",
}
_WORDS: Final = {
    Launch.start: "first launches",
    Launch.resume: "launches on the GPUs that a job had before",
    Launch.migrate: "launches on other GPUs",
}


def config_text(observed: Observed, fitted: Fitted, trace: str, rates: str | None = None) -> str:
    """Return the log's cluster and policy with the measured costs, as TOML.

    Args:
        observed: what the log says.
        fitted: what was measured of it.
        trace: the file of jobs that the config names.
        rates: the file with the table of throughputs, if one is written.
    """
    record: dict[str, object] = json.loads(observed.config)
    kept = {key: record[key] for key in ("schema", "seed", "cluster", "policy", "queues")}
    workload: dict[str, object] = {"trace": trace}
    simulation: dict[str, object] = {"costs": _costs(fitted)}
    if rates is not None:
        workload |= {"throughputs": rates, "base_type": fitted.types[0]}
    if len(fitted.speeds) > 1:
        speeds = {name: round(speed, 6) for name, speed in fitted.speeds.items()}
        simulation["speeds"] = {"relative": speeds}
    tree = kept | {"workload": workload, "simulation": simulation}
    return "\n".join([*_head(observed, fitted), *_toml(tree, ()), ""])


def rates_document(fitted: Fitted) -> dict[str, Any]:
    """Return mini-batches per second as a table of throughputs in compact form.

    Raises:
        TraceError: no job with a model told its steps.
    """
    kinds = sorted({(kind.model, kind.gpus) for kind in fitted.batch_us if kind.model})
    if not kinds:
        raise TraceError(
            "no job that names a model told its steps, so there are no rates: submit with --model "
            "and --steps, and train with the SDK"
        )
    alone = {
        gpu_type: [_rate(fitted, Kind(model, gpus, gpu_type)) for model, gpus in kinds]
        for gpu_type in sorted(fitted.types)
    }
    base = fitted.types[0]
    return {"base": base, "kinds": [list(kind) for kind in kinds], "alone": alone, "pairs": {}}


def without_rates(observed: Observed, fitted: Fitted) -> list[str]:
    """Return what to say of jobs that ran, and of which there is no rate."""
    known = {(kind.model, kind.gpus) for kind in fitted.batch_us if kind.model}
    found: dict[JobKind, list[JobId]] = {}
    for job in observed.jobs:
        if job.attempts and job.spec.gpus:
            kind = kind_of(job, job.attempts[0])
            if (kind.model, job.spec.gpus) not in known:
                found.setdefault(JobKind(kind.model, job.spec.gpus), []).append(job.job_id)
    if not found:
        return []
    said = (
        f"there is no rate of {named_kinds(found)}, as no such job told its steps: a simulation "
        "takes the duration_s of their trace"
    )
    return [said]


def uneven_starts(observed: Observed, fitted: Fitted) -> list[str]:
    """Return what to say of models that start up differently."""
    by_model: dict[str, list[float]] = defaultdict(list)
    for job in observed.jobs:
        for attempt in job.attempts[:1]:
            if attempt.number == 1 and attempt.trained_us is not None and job.spec.model:
                start_up_us = told_start_up_us(job, attempt, fitted.batch_us)
                by_model[job.spec.model].append(start_up_us / 1e6)
    means = sorted((fmean(found), model) for model, found in by_model.items())
    start_s = fitted.launch_us.get(Launch.start, 0) / 1e6
    if not means or means[-1][0] - means[0][0] <= _UNEVEN * start_s:
        return []
    (least_s, quick), (most_s, slow) = means[0], means[-1]
    said = (
        f"{quick} starts up in {least_s:.3g} s and {slow} in {most_s:.3g} s, and a simulation "
        f"takes {start_s:.3g} s for each: it is off by the difference wherever a job starts"
    )
    return [said]


def fit_document(observed: Observed, fitted: Fitted) -> dict[str, object]:
    """Return what was measured as one document, in seconds."""
    return {
        "schema": SCHEMA,
        "log": {"url": observed.url, "digest": observed.digest},
        "jobs": len(observed.jobs),
        "costs": {
            **{
                str(launch): {
                    "s": us / 1e6 if (us := fitted.launch_us.get(launch)) is not None else None,
                    "attempts": fitted.launches.get(launch, 0),
                }
                for launch in Launch
            },
            "wait": {"s": fitted.wait_us / 1e6, "attempts": sum(fitted.launches.values())},
            "suspend": {
                "s": None if fitted.suspend_us is None else fitted.suspend_us / 1e6,
                "attempts": fitted.suspensions,
            },
            "turn": {
                "s": None if fitted.turn_us is None else fitted.turn_us / 1e6,
                "switches": fitted.turns,
            },
        },
        "rates": [
            {
                "model": kind.model or None,
                "job_id": kind.job_id or None,
                "gpus": kind.gpus,
                "gpu_type": kind.gpu_type,
                "steps_per_s": round(1e6 / batch_us, 6),
            }
            for kind, batch_us in fitted.batch_us.items()
        ],
        "speeds": {name: round(speed, 6) for name, speed in fitted.speeds.items()},
    }


def left_out(fitted: Fitted) -> list[str]:
    """Return a sentence about each cost that nothing in the log showed."""
    found = [
        f"{launch} is left out, because the log has no {words}: {_LEFT_OUT[launch]}"
        for launch, words in _WORDS.items()
        if launch not in fitted.launch_us
    ]
    if fitted.suspend_us is None:
        found.append(f"suspend is left out, because no job saved and left: {_NO_TIME}")
    return found


def _rate(fitted: Fitted, kind: Kind) -> float | None:
    batch_us = fitted.batch_us.get(kind)
    return None if batch_us is None else round(1e6 / batch_us, 6)


def _costs(fitted: Fitted) -> dict[str, float]:
    """Return the costs by their keys, in seconds; what nothing showed is left out."""
    found = {str(launch): fitted.cost_us(launch) for launch in fitted.launch_us}
    if fitted.suspend_us is not None:
        found["suspend"] = fitted.suspend_us
    if fitted.turn_us is not None:
        found["turn"] = fitted.turn_us
    order = ("start", "suspend", "resume", "migrate", "turn")
    return {key: found[key] / 1e6 for key in order if key in found}


def _head(observed: Observed, fitted: Fitted) -> Iterator[str]:
    yield f"# Measured in {observed.url}, {len(observed.jobs)} jobs; costs in seconds, of these:"
    for launch, words in _WORDS.items():
        yield f"# {launch}: {fitted.launches.get(launch, 0)} {words}"
    yield f"# suspend: {fitted.suspensions} times that a job saved and left"
    if fitted.turns:
        yield f"# turn: {fitted.turns} times that GPUs changed hands between jobs that share them"
    if fitted.wait_us:
        wait_s = f"{fitted.wait_us / 1e6:.3g}"
        yield f"# launches: {wait_s} s of each are its wait for who starts jobs instead, as Slurm"
    yield from (f"# {sentence}" for sentence in left_out(fitted))


def _toml(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its values first, then the tables in it."""
    inner: list[tuple[str, str, list[dict[str, object]]]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner.append((key, "[{}]", [value]))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            inner.append((key, "[[{}]]", value))
        elif value is not None:
            yield f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"
    for key, heading, tables in inner:
        name = ".".join(_key(part) for part in (*path, key))
        for each in tables:
            yield ""
            yield heading.format(name)
            yield from _toml(each, (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)
