"""What if, answered: several scenarios played and compared, with how wrong such answers are here.

The same policy is played beside the change. Where the log goes on after the moment, what it did is
there to compare with: how far the same policy is from that is the error of this way of asking, and
the change is compared with the log. Where the log ends there, the change is compared with the same
policy, and nothing says how wrong both are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from shunter.ask.forking.changes import Wishes
from shunter.ask.forking.scenario import Played, Scenario, play
from shunter.ask.replaying.instants import clock
from shunter.core.metrics import JobResult, distribution
from shunter.errors import UsageError
from shunter.events.facts.jobs import Outcome
from shunter.events.values.ids import JobId
from shunter.run.parallel import Report, run_all

SCHEMA = 1
SHOWN_JOBS = 5
"""So many winners and losers are named."""

LEAST_S, LEAST_PART = 1.0, 0.01
"""A job whose JCT differs by less than a second and by less than a hundredth has the same one."""

Numbers = dict[str, float | int | None]
Stories = Mapping[JobId, JobResult]


def what_if(
    address: str,
    at: str | None,
    wishes: Wishes,
    *,
    seeds: int = 1,
    workers: int = 1,
    report: Report | None = None,
) -> dict[str, Any]:
    """Return the document that compares a change with what happened.

    Args:
        address: of the log.
        at: the moment, an event or an instant; None: the end of the log.
        wishes: what is to be otherwise; nothing: the same policy is held to the log.
        seeds: how many times the change is played, each with other chance.
        workers: how many processes play.
        report: told how many scenarios are done.
    Raises:
        UsageError: there is no such moment, or nothing to compare.
        ConfigError: the log cannot be simulated, or a wish is wrong.
    """
    same = Scenario(address, at)
    asked = [replace(same, wishes=wishes, seed=number or None) for number in range(seeds)]
    scenarios = [same, *asked] if wishes else [same, *asked[1:]]
    played = run_all(play, scenarios, workers, report)
    return _document(address, wishes, played[0], played[1:] if wishes else played)


def _document(
    address: str, wishes: Wishes, same: Played, changed: Sequence[Played]
) -> dict[str, Any]:
    from_log = _finished(same.recorded)
    before = from_log or _finished(same.stories)
    if not before:
        what = "no job finishes after that moment, neither in the log nor in a simulation from it"
        ends = len(same.recorded)
        if ends:
            raise UsageError(
                f"{what}, for what people asked counts as it was, and all {ends} that end after it "
                "in the log were cancelled or failed: name an earlier moment with --from, if jobs "
                "finished before"
            )
        raise UsageError(f"{what}: name an earlier one with --from")
    after = [_finished(each.stories) for each in changed]
    common = [job for job in before if all(job in each for each in after)]
    first = after[0]
    deltas = sorted(
        ((_jct_s(first[job]) - _jct_s(before[job]), before[job].ordinal, job) for job in common),
    )
    told = [(delta, job) for delta, _, job in deltas if _is_told(delta, before[job])]
    better = [each for each in told if each[0] < 0]
    worse = [each for each in reversed(told) if each[0] > 0]
    runs = [_numbers(each, common) for each in after]
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "log": address,
        "from": {"seq": same.seq, "us": same.at_us, "time": clock(same.at_us)},
        "policy": {"recorded": same.before, "simulated": changed[0].policy},
        "oracle": changed[0].is_oracle,
        "change": {
            "policy": wishes.policy,
            "settings": list(wishes.settings),
            "added": list(wishes.added),
            "removed": list(wishes.removed),
            "without": list(wishes.without),
        },
        "compared_with": "log" if from_log else "same policy",
        "jobs": {
            "compared": len(common),
            "left_out": len(before) - len(common),
            "unfinished": changed[0].unfinished,
            "better": len(better),
            "worse": len(worse),
            "same": len(common) - len(better) - len(worse),
        },
        "before": _numbers(before, common),
        "what_if": runs[0],
        "bands": _bands(runs),
        "seeds": len(changed),
        "is_certain": changed[0].is_certain,
        "accuracy": _accuracy(same) if from_log else None,
        "winners": [_delta(job, delta, before, first) for delta, job in better[:SHOWN_JOBS]],
        "losers": [_delta(job, delta, before, first) for delta, job in worse[:SHOWN_JOBS]],
        "assumptions": list(changed[0].assumptions),
    }


def _finished(stories: Stories) -> dict[JobId, JobResult]:
    return {job: one for job, one in stories.items() if one.status == Outcome.finished}


def _is_told(delta_s: float, before: JobResult) -> bool:
    """Say whether a difference is more than a launch that took longer by chance."""
    return abs(delta_s) >= min(LEAST_S, LEAST_PART * _jct_s(before)) and delta_s != 0


def _jct_s(story: JobResult) -> float:
    assert story.jct_us is not None, "a finished job has an end"
    return story.jct_us / 1e6


def _numbers(stories: Stories, jobs: Sequence[JobId]) -> Numbers:
    """Return what is compared of some jobs, times in seconds."""
    chosen = [stories[job] for job in jobs]
    jct = distribution([one.jct_us or 0 for one in chosen])
    wait = distribution([one.wait_us or 0 for one in chosen])
    return {
        "mean_jct_s": jct.mean,
        "p50_jct_s": jct.p50,
        "p95_jct_s": jct.p95,
        "mean_wait_s": wait.mean,
        "preemptions": sum(one.preemptions for one in chosen),
        "migrations": sum(one.migrations for one in chosen),
        "last_end_s": max((one.end_us or 0 for one in chosen), default=0) / 1e6,
    }


def _bands(runs: Sequence[Numbers]) -> dict[str, dict[str, float | None]]:
    """Return least, mean and most of each number over the seeds."""
    found: dict[str, dict[str, float | None]] = {}
    for name in runs[0]:
        values = [value for run in runs if (value := run[name]) is not None]
        found[name] = {
            "least": min(values, default=None),
            "mean": fmean(values) if values else None,
            "most": max(values, default=None),
        }
    return found


def _accuracy(same: Played) -> dict[str, float | int | None]:
    """Return how far the same policy, simulated, is from what happened.

    The error of the mean is relative; that of a job is the difference of its completion times.
    """
    recorded, simulated = _finished(same.recorded), _finished(same.stories)
    common = [job for job in recorded if job in simulated]
    if not common:
        return {"jobs": 0, "mean_jct_error": None, "exact": 0, "mean_job_error_s": None}
    before = fmean(_jct_s(recorded[job]) for job in common)
    after = fmean(_jct_s(simulated[job]) for job in common)
    gaps = [abs(_jct_s(simulated[job]) - _jct_s(recorded[job])) for job in common]
    return {
        "jobs": len(common),
        "mean_jct_error": after / before - 1 if before else 0.0,
        "exact": sum(not gap for gap in gaps),
        "mean_job_error_s": fmean(gaps),
    }


def _delta(job: JobId, delta_s: float, before: Stories, after: Stories) -> dict[str, object]:
    one = before[job]
    return {
        "job": job,
        "user": one.user,
        "gpus": one.gpus,
        "delta_s": delta_s,
        "before_jct_s": _jct_s(one),
        "what_if_jct_s": _jct_s(after[job]),
    }
