"""What came of two runs: where jobs began, how much later or earlier each ended, and the measures.

Jobs are paired by their ids. One that has another owner, name or number of GPUs in the other log is
another job, and is left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shunter.app.run_history.history import RunHistory
from shunter.app.runs.comparison import MEASURES, value_of
from shunter.core.metrics import JobResult, distribution, percentile
from shunter.events.facts.jobs import Outcome

MEASURED = (*MEASURES, "finish_time_fairness.mean")


@dataclass(frozen=True)
class JobDelta:
    """One job in both runs.

    `delta_us` is how much longer it took in B than in A; None where it did not finish in both.
    """

    a: JobResult
    b: JobResult
    name: str
    delta_us: int | None

    def document(self) -> dict[str, object]:
        """Return it as JSON-able data."""
        delta_us = self.delta_us
        return {
            "id": self.a.job_id,
            "name": self.name,
            "user": self.a.user,
            "gpus": self.a.gpus,
            "delta_s": None if delta_us is None else delta_us / 1e6,
            **{side: _outcome(result) for side, result in (("a", self.a), ("b", self.b))},
        }


@dataclass(frozen=True)
class Outcomes:
    """Both runs, job by job.

    `deltas` are the jobs that finished in both, the one that B served worst first. `others` counts
    ids that are of one log alone or of different jobs.
    """

    a: RunHistory
    b: RunHistory
    deltas: Sequence[JobDelta]
    ended_otherwise: Sequence[JobDelta]
    others: Mapping[str, int]
    places: Mapping[str, int]

    def measures(self) -> list[dict[str, object]]:
        """Return each measure of both runs and the difference of B to A."""
        documents = self.a.document(), self.b.document()
        rows: list[dict[str, object]] = []
        for name in MEASURED:
            one, two = (value_of(document, name) for document in documents)
            known = one is not None and two is not None
            difference = two - one if known else None  # type: ignore[operator]  # both are known
            rows.append({"name": name, "a": one, "b": two, "difference": difference})
        return rows

    def jobs(self, most: int) -> dict[str, Any]:
        """Return how jobs fared in B beside A, and so many that lost or gained most."""
        deltas_us = [delta.delta_us or 0 for delta in self.deltas]
        worse = sum(delta > 0 for delta in deltas_us)
        better = sum(delta < 0 for delta in deltas_us)
        gained = [delta for delta in reversed(self.deltas) if (delta.delta_us or 0) < 0]
        lost = [delta for delta in self.deltas if (delta.delta_us or 0) > 0]
        spread = asdict(distribution(deltas_us))
        ordered = sorted(deltas_us)
        low = {f"p{q:02}": percentile(ordered, q) / 1e6 if ordered else None for q in (1, 5, 10)}
        return {
            "compared": len(deltas_us),
            "better": better,
            "worse": worse,
            "same": len(deltas_us) - better - worse,
            "delta_s": {**spread, **low, "min": ordered[0] / 1e6 if ordered else None},
            **self.others,
            "ended_otherwise": len(self.ended_otherwise),
            "lost_most": [delta.document() for delta in lost[:most]],
            "gained_most": [delta.document() for delta in gained[:most]],
            "ended_otherwise_first": [delta.document() for delta in self.ended_otherwise[:most]],
        }


def outcomes_of(a: RunHistory, b: RunHistory) -> Outcomes:
    """Pair the jobs of two runs."""
    theirs = {result.job_id: result for result in b.results}
    deltas: list[JobDelta] = []
    ended_otherwise: list[JobDelta] = []
    others: Counter[str] = Counter(only_a=0, only_b=0, other_jobs=0)
    places: Counter[str] = Counter(same=0, other_gpus=0, other_instant=0, one_only=0, never=0)
    for mine in a.results:
        other = theirs.pop(mine.job_id, None)
        if other is None:
            others["only_a"] += 1
            continue
        names = a.names[mine.ordinal], b.names[other.ordinal]
        if (mine.user, mine.gpus) != (other.user, other.gpus) or names[0] != names[1]:
            others["other_jobs"] += 1
            continue
        places[_began(a, b, mine, other)] += 1
        pair = JobDelta(mine, other, names[0], _delta_us(mine, other))
        if pair.delta_us is not None:
            deltas.append(pair)
        elif mine.status != other.status:
            ended_otherwise.append(pair)
    others["only_b"] = len(theirs)
    deltas.sort(key=lambda pair: (-(pair.delta_us or 0), pair.a.ordinal))
    return Outcomes(a, b, deltas, ended_otherwise, dict(others), dict(places))


def _delta_us(mine: JobResult, other: JobResult) -> int | None:
    finished = Outcome.finished.value
    if mine.status != finished or other.status != finished:
        return None
    one_us, two_us = mine.jct_us, other.jct_us
    return None if one_us is None or two_us is None else two_us - one_us


def _began(a: RunHistory, b: RunHistory, mine: JobResult, other: JobResult) -> str:
    """Return how alike the first starts of a job are in both runs."""
    one, two = a.first_places.get(mine.job_id), b.first_places.get(mine.job_id)
    if one is None or two is None:
        return "never" if one is two else "one_only"
    if mine.first_start_us != other.first_start_us:
        return "other_instant"
    return "same" if one.is_on_gpus_of(two) else "other_gpus"


def _outcome(result: JobResult) -> dict[str, object]:
    jct_us, wait_us = result.jct_us, result.wait_us
    first_us = result.first_start_us
    return {
        "status": result.status,
        "first_start_s": None if first_us is None else first_us / 1e6,
        "jct_s": None if jct_us is None else jct_us / 1e6,
        "wait_s": None if wait_us is None else wait_us / 1e6,
        "preemptions": result.preemptions,
    }
