"""A report on one or more runs: one HTML file with its data, which opens from disk.

    log ─▶ fold ─▶ curves, slices on GPUs, stories of jobs ─▶ one JSON document ─▶ page

`run_document` sums up one run, `report_document` several, and `page_of` shows these.
"""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import fsum
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any, Final, TypedDict

import orjson

from shunter import __version__
from shunter.ask.log_reading import Advance, Follower
from shunter.ask.run_history import (
    JobCounts,
    Occupancy,
    RunHistory,
    Spot,
    job_of,
    jobs_of,
    run_history,
)
from shunter.ask.waits import wait_reasons
from shunter.core import FoldResult, JobResult, State, UsableGpus, finish_time_fairness
from shunter.errors import UsageError
from shunter.events import (
    CLUSTER_CHANGES,
    AllocationChanged,
    Event,
    JobId,
    NodeName,
    Outcome,
    is_preemption,
)
from shunter.events.log import LogReader
from shunter.run import MEASURES, value_of

# The curves of a run, in equal parts of its time: means over each part, of the queue the most too;
# why jobs wait is counted where each part begins.

PARTS: Final = 400
"""Into so many parts a run is cut: a picture is about twice as many pixels wide."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A job had a GPU from one instant to another.

    `ordinal` is its place among submissions.
    """

    spot: Spot
    from_us: int
    to_us: int
    ordinal: int


@dataclass
class Curves(Follower):
    """Follows a log, and keeps what changes.

    `part_us` is the length of a part, at least 1; the lists have a value for each part.
    `preempted` counts preemptions in each part, `rules` the rules by which jobs were preempted.
    """

    part_us: int
    waiting: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    waiting_most: list[int] = field(default_factory=lambda: [0] * PARTS)
    running: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    gpus_used: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    gpus_up: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    preempted: list[int] = field(default_factory=lambda: [0] * PARTS)
    reasons: list[Counter[str]] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)
    slices: list[Slice] = field(default_factory=list)
    _usable: UsableGpus = field(default_factory=UsableGpus)
    _counts: JobCounts = field(default_factory=JobCounts)
    _occupancy: Occupancy = field(default_factory=Occupancy)
    _since: dict[Spot, tuple[int, int]] = field(default_factory=dict)
    _preemptions: dict[JobId, int] = field(default_factory=dict)
    _last: dict[JobId, tuple[int, str]] = field(default_factory=dict)

    def before(self, event: Event, state: State) -> None:
        """Count what stays as it is up to the instant of an event."""
        from_us, until_us, part_us = state.now_us, event.at_us, self.part_us
        if from_us == until_us:
            return
        while len(self.reasons) < PARTS and len(self.reasons) * part_us < until_us:
            self.reasons.append(wait_reasons(state))
        counts, used = self._counts, self._occupancy.used
        while from_us < until_us:
            part = self._part(from_us)
            end_us = until_us if part == PARTS - 1 else min(until_us, (part + 1) * part_us)
            spent_us = end_us - from_us
            self.waiting[part] += counts.waiting * spent_us
            self.running[part] += counts.running * spent_us
            self.gpus_used[part] += used * spent_us
            self.gpus_up[part] += self._usable.count * spent_us
            if counts.waiting > self.waiting_most[part]:
                self.waiting_most[part] = counts.waiting
            from_us = end_us

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Take what an event has changed."""
        if type(event) in CLUSTER_CHANGES:
            self._usable.servers_changed(state.cluster)
        else:
            self._usable.holders_changed()
        for job_id in jobs_of(event, result):
            self._job(job_id, event, state)
        if isinstance(event, AllocationChanged) and is_preemption(event):
            self._left(event, state)
        elif (about := job_of(event)) is not None:
            self._stayed(about, state)

    def close(self, state: State) -> None:
        """End what lasts where the log ends, and turn sums into means."""
        for spot in list(self._occupancy.left_over()):
            self._end(spot, state.now_us)
        for curve in (self.waiting, self.running, self.gpus_used, self.gpus_up):
            for part in range(PARTS):
                ends_us = min(state.now_us, (part + 1) * self.part_us)
                spent_us = ends_us - part * self.part_us
                curve[part] = curve[part] / spent_us if spent_us > 0 else 0.0
        while len(self.reasons) < PARTS:
            self.reasons.append(wait_reasons(state))

    def _part(self, at_us: int) -> int:
        return min(PARTS - 1, max(0, at_us) // self.part_us)

    def _job(self, job_id: JobId, event: Event, state: State) -> None:
        self._counts.note(job_id, state)
        left, taken = self._occupancy.take(job_id, event, state)
        for spot in left:
            self._end(spot, event.at_us)
        if taken:
            ordinal = state.jobs[job_id].ordinal
            for spot in taken:
                self._since[spot] = event.at_us, ordinal

    def _end(self, spot: Spot, at_us: int) -> None:
        from_us, ordinal = self._since.pop(spot)
        if at_us > from_us:
            self.slices.append(Slice(spot, from_us, at_us, ordinal))

    def _left(self, event: AllocationChanged, state: State) -> None:
        """Count a preemption, if the fold has counted one."""
        job = state.jobs.get(event.job_id)
        if job is not None and job.preemptions > self._preemptions.get(event.job_id, 0):
            self._preemptions[event.job_id] = job.preemptions
            self._last[event.job_id] = self._part(event.at_us), event.because.rule
            self.preempted[self._part(event.at_us)] += 1
            self.rules[event.because.rule] += 1

    def _stayed(self, job_id: JobId, state: State) -> None:
        """Take a preemption back that turned out to be none, as the fold does."""
        job = state.jobs.get(job_id)
        if job is not None and job.preemptions < self._preemptions.get(job_id, 0):
            self._preemptions[job_id] = job.preemptions
            part, rule = self._last[job_id]
            self.preempted[part] -= 1
            self.rules[rule] -= 1


# Slices of jobs on GPUs in few bytes. A row is a GPU (or a lane of a shared one), as a flat list
# `gap, length, job, gap, …`: ticks free before, ticks held, and the job's place among submissions.
# A tick is a millionth of the run, or a microsecond.

TICKS: Final = 1_000_000


class GanttRow(TypedDict):
    """A GPU by its name, and who had it when."""

    name: str
    slices: list[int]


class Gantt(TypedDict):
    """All GPUs; `left_out` slices, the shortest ones, are not there."""

    tick_us: int
    rows: list[GanttRow]
    left_out: int


def gantt(slices: Sequence[Slice], state: State, most: int) -> Gantt:
    """Return slices by GPU, in the order of the servers.

    Args:
        slices: in any order.
        state: that at the end of the run.
        most: the most slices that are kept; the shortest are left out.
    """
    tick_us = max(1, state.now_us // TICKS)
    kept: Iterable[Slice] = slices
    if len(slices) > most:
        order = sorted(slices, key=lambda each: (each.from_us - each.to_us, each.from_us))
        kept = order[:most]
    by_spot: dict[Spot, list[Slice]] = {}
    for each in kept:
        by_spot.setdefault(each.spot, []).append(each)
    places = {name: place for place, name in enumerate(state.cluster.servers)}
    for name, server in state.cluster.servers.items():
        for gpu in range(server.configuration.gpus):
            by_spot.setdefault(Spot(name, gpu, 0), [])
    rows: list[GanttRow] = [
        {"name": _name(spot), "slices": _flat(by_spot[spot], tick_us)}
        for spot in sorted(by_spot, key=lambda spot: _order(spot, places))
    ]
    return {"tick_us": tick_us, "rows": rows, "left_out": max(0, len(slices) - most)}


def _order(spot: Spot, places: Mapping[NodeName, int]) -> tuple[int, str, int, int]:
    return places.get(spot.node, len(places)), spot.node, spot.gpu, spot.lane


def _name(spot: Spot) -> str:
    lane = f" ({spot.lane + 1})" if spot.lane else ""
    return f"{spot.node} GPU {spot.gpu}{lane}"


def _flat(slices: list[Slice], tick_us: int) -> list[int]:
    """Return gaps, lengths and jobs; ends are rounded down, so that none overlap."""
    flat, end = list[int](), 0
    for each in sorted(slices, key=lambda each: each.from_us):
        first, last = each.from_us // tick_us, each.to_us // tick_us
        flat += (first - end, last - first, each.ordinal)
        end = last
    return flat


def users_of(run: RunHistory) -> dict[str, Any]:
    """Return each user's part of the service, the largest first.

    Means are over finished jobs. `slowdown` is completion time over time on GPUs, `rho` completion
    time over run time alone, where the log knows that.
    """
    by_user: dict[str, list[JobResult]] = {}
    for result in run.results:
        by_user.setdefault(result.user, []).append(result)
    service_us = sum(result.service_gpu_us for result in run.results)
    rows = [_user(name, results, service_us, run) for name, results in by_user.items()]
    rows.sort(key=lambda row: (-row["gpu_h"], row["user"]))
    known = [row["slowdown"] for row in rows if row["slowdown"] is not None]
    return {"rows": rows, "jain": jain_index(known)}


def slowdown(result: JobResult) -> float | None:
    """Return the completion time of a finished job over its time on GPUs."""
    if result.status != Outcome.finished or result.jct_us is None or result.held_us <= 0:
        return None
    return result.jct_us / result.held_us


def jain_index(values: Sequence[float]) -> float | None:
    """Return (sum x)² / (n · sum x²): 1 where all are equal, 1/n where one has all.

    Source: Jain, Chiu, Hawe, A Quantitative Measure of Fairness, DEC TR-301, 1984, equation 1.
    """
    squares = fsum(value * value for value in values)
    return fsum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _user(
    name: str, results: Sequence[JobResult], service_us: int, run: RunHistory
) -> dict[str, Any]:
    finished = [result for result in results if result.status == Outcome.finished]
    own_us = sum(result.service_gpu_us for result in results)
    rho = (finish_time_fairness(result, run.alone_us[result.ordinal]) for result in finished)
    return {
        "user": name,
        "jobs": len(results),
        "finished": len(finished),
        "gpu_h": own_us / 3.6e9,
        "share": own_us / service_us if service_us else None,
        "jct_s": _mean(result.jct_us for result in finished),
        "wait_s": _mean(result.wait_us for result in finished),
        "slowdown": _mean((slowdown(result) for result in finished), 1.0),
        "rho": _mean(rho, 1.0),
        "preemptions": sum(result.preemptions for result in results),
    }


def _mean(values: Any, unit: float = 1e6) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) / unit if known else None


_SCHEMA = 1
QUANTILES: Final = 200
WORST: Final = 10
USERS: Final = 200
SLICES: Final = 400_000
"""The most slices in a report, over all of its runs."""

_MEASURES_SHOWN = (*MEASURES, "finish_time_fairness.mean", "finish_time_fairness.p99")


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
    return {"schema": _SCHEMA, "shunter": __version__, "runs": list(runs)}


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
        "measures": {name: value_of(document, name) for name in _MEASURES_SHOWN},
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


# The page. Names of jobs and users come from others, so they are in the data only: JSON without
# `<`, `>` or `&`, so that nothing in it ends its element, put into the page as text. The page
# allows no script but the one whose digest it names, and loads nothing.

_SCRIPTS: Final = ("words.js", "charts.js", "gantt.js", "report.js")
_ESCAPED: Final = {
    **{ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&'"},
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def page_of(document: Mapping[str, Any]) -> str:
    """Return the HTML page of a report."""
    script = "\n".join(_source(name) for name in _SCRIPTS)
    style = _source("report.css")
    policies = ", ".join(run["label"] for run in document["runs"])
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"{escape(allowed, quote=False)}; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Shunter report: {escape(policies)}</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This report draws its pictures with the script in this file, which is not "
        'allowed to run here.</noscript>\n<main id="report"></main>\n'
        f'<script type="application/json" id="data">{data_of(document)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def data_of(document: Mapping[str, Any]) -> str:
    """Return a document as JSON that may stand in an element of HTML."""
    return orjson.dumps(document).decode().translate(_ESCAPED)


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _source(name: str) -> str:
    return files("shunter.ask").joinpath("report_page", name).read_text(encoding="utf-8")
