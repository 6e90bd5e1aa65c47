"""The peer setting's policies with a solver, end to end, within what the peer has against itself.

With another solver the public code's own results move by up to 4.2 % (average completion time) and
1.3 % (makespan) on small traces, by about 0.5 % on large ones: so much is allowed here, and what is
beyond is named with the first round that differs, where the peer's rounds are recorded.
"""

from statistics import fmean
from typing import Any

import pytest

from shunter.policies.gavel.peer.repertoire import REPERTOIRE
from tests.fidelity.test_gavel_literal import NONE, RUNS
from tests.fidelity.test_gavel_peer import run_example

pytestmark = pytest.mark.fidelity

WITHOUT_SOLVER = (
    "isolated",
    "fifo",
    "fifo_packed",
    "fifo_perf",
    "allox",
    "gandiva",
    "proportional",
)
OFF_CENTRE = (
    "ECOS stops off the centre of a face that is large because all GPU types count the same"
)
RESIDUES = "who gets left-over GPUs hangs on residues of the solver below 1e-9"
UNRECORDED = "; no rounds of it are recorded"
MISSES = {
    "artifact__max_min_fairness": f"{OFF_CENTRE}: makespan -7.9 %, from round 0 at 0 s on",
    "artifact__max_sum_throughput_perf": f"{RESIDUES}: makespan -4.4 %, from round 0 at 0 s on",
    "gen120__min_total_duration_perf": "any point within 5 % of the least makespan will do there, "
    f"and ECOS stops off the centre of these: average -7.1 %{UNRECORDED}",
    "makespan__finish_time_fairness": f"{OFF_CENTRE}: average -2.2 %{UNRECORDED}",
    "medium__finish_time_fairness": f"{OFF_CENTRE}: makespan -2.2 %{UNRECORDED}",
    "medium__max_min_fairness_water_filling": f"{OFF_CENTRE}: makespan -3.5 %{UNRECORDED}",
}


def cases() -> list[Any]:
    found: list[Any] = []
    for name, run in RUNS.items():
        policy = run["config"]["policy"]
        if policy in REPERTOIRE and policy not in WITHOUT_SOLVER:
            missed = pytest.mark.xfail(strict=True, reason=MISSES.get(name, ""))
            found.append(pytest.param(name, marks=[missed] if name in MISSES else [], id=name))
    return found


@pytest.mark.parametrize("name", cases() or NONE)
def test_solver_policy_is_as_close_to_the_peer_as_the_peer_to_itself(name: str) -> None:
    run = RUNS[name]
    is_large = name.startswith(("gen120", "makespan"))
    of_average, of_makespan = (0.02, 0.01) if is_large else (0.05, 0.02)

    result = run_example(run["config"]["policy"], run["config"])

    ends = [story.jct_us / 1e6 for story in result.stories() if story.jct_us is not None]
    assert len(ends) == run["completed_jobs"] - run["dropped_jobs"]
    assert fmean(ends) == pytest.approx(run["avg_jct_s"], rel=of_average)
    assert result.document["makespan_s"] == pytest.approx(run["makespan_s"], rel=of_makespan)
