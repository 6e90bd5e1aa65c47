"""All that a report shows, as one JSON-able document."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final

from shunter import __version__
from shunter.app.replaying.folding import Advance
from shunter.app.reports.curves import PARTS, Curves
from shunter.app.reports.fairness import slowdown, users_of
from shunter.app.reports.gantt import gantt
from shunter.app.run_history.history import RunHistory, run_history
from shunter.app.runs.comparison import MEASURES, value_of
from shunter.core.metrics import JobResult
from shunter.errors import UsageError
from shunter.events.log import LogReader

SCHEMA = 1
QUANTILES: Final = 200
WORST: Final = 10
USERS: Final = 200
SLICES: Final = 400_000
"""The most slices in a report, over all of its runs."""

MEASURED = (*MEASURES, "finish_time_fairness.mean", "finish_time_fairness.p99")


def report_document(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of a report on some runs, in their order."""
    names = Counter(run["policy"] for run in runs)
    labels: Counter[str] = Counter()
    for run in runs:
        label = run["policy"] or "no policy"
        if names[run["policy"]] > 1:
            label = f"{label}, {run['log']['name']}"
        labels[label] += 1
        run["label"] = f"{label} ({labels[label]})" if labels[label] > 1 else label
    return {"schema": SCHEMA, "shunter": __version__, "runs": list(runs)}


async def run_document(
    reader: LogReader, of: int = 1, advance: Advance | None = None
) -> dict[str, Any]:
    """Return what a report shows of one run.

    Args:
        reader: its log.
        of: how many runs the report is on; they share what a report can hold.
        advance: told how many events are done, and of how many.
    Raises:
        UsageError: the log is empty.
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    head = await reader.head()
    if not head.seq:
        raise UsageError(f"there is nothing in {reader.url} to report on: name another log")
    last = (await reader.frame_with(head.seq)).events(head.seq - 1, head.seq)[-1]
    curves = Curves(max(1, -(-last.at_us // PARTS)))
    history = await run_history(reader, (curves,), advance)
    curves.close(history.state)
    document = history.document()
    log = document["log"]
    assert isinstance(log, dict), "it is a table"
    return {
        **document,
        "log": {**log, "name": Path(history.url).stem},
        "end_us": history.state.now_us,
        "measures": {name: value_of(document, name) for name in MEASURED},
        "jct_s": _quantiles(result.jct_us for result in _finished(history)),
        "wait_s": _quantiles(result.wait_us for result in _finished(history)),
        "curves": _curves(curves),
        "reasons": _reasons(curves),
        "gantt": gantt(curves.slices, history.state, SLICES // max(1, of)),
        "jobs_by_ordinal": _jobs(history),
        "fairness": _users(history),
        "preempted": _preempted(curves, history),
        "worst": _worst(history),
        "config": json.dumps(history.config, indent=1, sort_keys=True, ensure_ascii=False),
        "counts": document["jobs"],
    }


def _finished(run: RunHistory) -> list[JobResult]:
    return [result for result in run.results if result.status == "finished"]


def _quantiles(values_us: Any) -> list[float]:
    """Return order statistics in seconds, equally far apart."""
    ordered = sorted(value for value in values_us if value is not None)
    if not ordered:
        return []
    last = len(ordered) - 1
    return [ordered[last * i // QUANTILES] / 1e6 for i in range(QUANTILES + 1)]


def _curves(curves: Curves) -> dict[str, object]:
    """Return the curves; utilisation is None where no GPU is in service."""
    pairs = zip(curves.gpus_used, curves.gpus_up, strict=True)
    return {
        "part_s": curves.part_us / 1e6,
        "waiting": _rounded(curves.waiting),
        "waiting_most": curves.waiting_most,
        "running": _rounded(curves.running),
        "gpus_used": _rounded(curves.gpus_used),
        "gpus_up": _rounded(curves.gpus_up),
        "utilisation": [round(used / up, 4) if up else None for used, up in pairs],
        "preempted": curves.preempted,
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in values]


def _reasons(curves: Curves) -> dict[str, list[int]]:
    """Return how many jobs wait for each reason in each part, the commonest first."""
    totals: Counter[str] = Counter()
    for counts in curves.reasons:
        totals.update(counts)
    order = sorted(totals, key=lambda name: (-totals[name], name))
    return {name: [counts[name] for counts in curves.reasons] for name in order}


def _jobs(run: RunHistory) -> dict[str, object]:
    """Return who each job is, column by column; users are told once."""
    users = list(dict.fromkeys(result.user for result in run.results))
    places = {name: place for place, name in enumerate(users)}
    return {
        "ids": [result.job_id for result in run.results],
        "names": list(run.names) if any(run.names) else [],
        "users": users,
        "user": [places[result.user] for result in run.results] if len(users) > 1 else [],
        "gpus": [result.gpus for result in run.results],
    }


def _users(run: RunHistory) -> dict[str, object]:
    found = users_of(run)
    return {**found, "rows": found["rows"][:USERS], "left_out": max(0, len(found["rows"]) - USERS)}


def _preempted(curves: Curves, run: RunHistory) -> dict[str, object]:
    times: Counter[int] = Counter(result.preemptions for result in run.results)
    rules = sorted(curves.rules.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "rules": [{"rule": rule, "preemptions": count} for rule, count in rules if count],
        "jobs_by_times": [[count, times[count]] for count in sorted(times)],
    }


def _worst(run: RunHistory) -> list[dict[str, object]]:
    """Return the finished jobs with the largest slowdowns."""
    known = [(slowdown(result), result) for result in _finished(run)]
    ranked = sorted(
        ((rate, result) for rate, result in known if rate is not None),
        key=lambda pair: (-pair[0], pair[1].ordinal),
    )
    return [
        {
            "id": result.job_id,
            "name": run.names[result.ordinal],
            "user": result.user,
            "gpus": result.gpus,
            "jct_s": (result.jct_us or 0) / 1e6,
            "wait_s": (result.wait_us or 0) / 1e6,
            "slowdown": rate,
            "preemptions": result.preemptions,
            "ask": f"shunter why {quote(result.job_id)} --log {quote(run.url)}",
        }
        for rate, result in ranked[:WORST]
    ]
